"""Steps of everything.py: what is done, what is cut off, and what runs side by side or alone on a GPU."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path

_LAST_S = 15.0  # too little for any step


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        name: of its log.
        words: after the interpreter.
        made: where it is there already, the step is done; of a bench, the run directory. None for a step that is done
            when it ended well.
        limit_s: most seconds.
        fine: exit codes of a step that ended well; 1 where a command's verdict is its result.
        jobs: processes that work at once in it.
        stop: what tells it to end.
    """

    name: str
    words: Sequence[object]
    made: Path | None = None
    limit_s: float = 600.0
    fine: tuple[int, ...] = (0,)
    jobs: int = 1
    stop: signal.Signals = signal.SIGTERM


@dataclass
class Lane:
    """What one GPU does: builds and tests side by side, then what reads their engines, then measurements in turn."""

    builds: list[Step] = field(default_factory=list)
    untimed: list[Step] = field(default_factory=list)
    timed: list[Step] = field(default_factory=list)


class Runner:
    """Runs steps on a GPU within the budget and keeps their outcomes."""

    def __init__(self, work: Path, budget_s: float, gpus: Sequence[str], only: Sequence[str] = ("*",)) -> None:
        self._only = only
        self._began, self._budget_s = time.monotonic(), budget_s
        self._processors = shares(gpus)
        self._log = work / "keep" / "log"
        self._log.mkdir(parents=True, exist_ok=True)
        self._environment = {**os.environ, "TRTW_TMP": str(work / "tmp")}
        self._lock = threading.Lock()
        self.left: list[str] = []

    def run(
        self, step: Step, gpu: str, shared: Mapping[str, str] | None = None, within_s: float = float("inf")
    ) -> None:
        """Run a step unless it is done; a step that is cut off is told to end, so that it keeps what it has.

        Args:
            step: what to run.
            gpu: CUDA's number of the GPU.
            shared: more of the step's environment.
            within_s: since the runner was made, seconds; what is left of the budget stays for other steps.
        """
        if not any(fnmatch.fnmatch(step.name, pattern) for pattern in self._only):
            return
        left_s = self._began + min(self._budget_s, within_s) - time.monotonic()
        ended_well = self._log / f"{step.name}.done"
        words = remaining(step)
        if not words or ended_well.exists():
            return
        if left_s < _LAST_S:
            self._tell(step, "left for another call", failed=True)
            return
        started = time.monotonic()
        # of this thread, and so of what it starts: builds for one GPU leave the measurements on another alone
        os.sched_setaffinity(0, self._processors[gpu])
        with (self._log / f"{step.name}.log").open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, *map(str, words)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self._environment, "CUDA_VISIBLE_DEVICES": gpu, **(shared or {})},
            )
            try:
                code = process.wait(timeout=min(step.limit_s, left_s))
            except subprocess.TimeoutExpired:
                end(process, step.stop)
                code = -1
        well = code in step.fine
        if well and step.made is None:
            ended_well.touch()
        outcome = "cut off" if code == -1 else f"exit code {code}"
        self._tell(step, f"{outcome} after {time.monotonic() - started:.0f} s", failed=not well)

    def _tell(self, step: Step, outcome: str, *, failed: bool) -> None:
        with self._lock:
            sys.stdout.write(f"{time.strftime('%T')} {step.name}: {outcome}\n")
            sys.stdout.flush()
            if failed:
                self.left.append(step.name)


def shares(gpus: Sequence[str]) -> dict[str, list[int]]:
    """The processors of each GPU, as many for one as for another."""
    processors = sorted(os.sched_getaffinity(0))
    size = len(processors) // len(gpus)
    return {gpu: processors[place * size : (place + 1) * size] or processors for place, gpu in enumerate(gpus)}


@contextlib.contextmanager
def multi_process_service(folder: Path) -> Iterator[dict[str, str]]:
    """Run CUDA's Multi-Process Service; yields the environment of its clients, empty where there is none to be had."""
    control = shutil.which("nvidia-cuda-mps-control")
    if not control:
        yield {}
        return
    folder.mkdir(parents=True, exist_ok=True)
    client = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    ask = functools.partial(subprocess.run, check=False, env={**os.environ, **client})
    started = ask([control, "-d"])
    if started.returncode:
        ask([control], input=b"quit\n")  # a call that was killed leaves one running
        started = ask([control, "-d"])
    if started.returncode:
        sys.stdout.write("CUDA's Multi-Process Service does not start; builds take turns on the GPU.\n")
        yield {}
        return
    try:
        yield client
    finally:
        ask([control], input=b"quit\n")


def end(process: subprocess.Popen[bytes], stop: signal.Signals) -> None:
    """End a process and those that it started: what it leaves running would disturb whatever is measured next.

    It is told first, as a bench closes its workers itself; a script that waits for a command does not end that one.
    """
    import psutil

    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    process.send_signal(stop)
    try:
        process.wait(timeout=_LAST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for one in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.terminate()
    for one in psutil.wait_procs(started, timeout=_LAST_S)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def remaining(step: Step) -> Sequence[object]:
    """The words of a step that is not done, which a bench that was interrupted goes on by. Empty if nothing is left."""
    if step.made is None or not step.made.exists():
        return step.words
    run = step.made if step.made.name == "run.json" else step.made / "run.json"
    partial = run.is_file() and json.loads(run.read_text(encoding="utf-8"))["status"] == "partial"
    return step.words if partial else ()


def command(*words: object) -> list[object]:
    """A command of the workbench, by its script, so that its reports tell how to repeat it."""
    return [Path(sys.executable).with_name("trtw"), *words]


def merged(lanes: Sequence[Lane]) -> Lane:
    """What one GPU does of several lanes: the builds of all of them first."""
    return Lane(*([step for lane in lanes for step in getattr(lane, part.name)] for part in fields(Lane)))


def work_through(
    lane: Lane,
    gpu: str,
    runner: Runner,
    builders: int,
    shared: Mapping[str, str],
    builds_s: float = float("inf"),
) -> None:
    """Build and test side by side in the environment `shared`, then what needs no quiet, then measure.

    Args:
        lane: what to do.
        gpu: CUDA's number of the GPU.
        runner: does it.
        builders: how many processes at a time, as long as nothing is measured.
        shared: of the Multi-Process Service's clients.
        builds_s: after which nothing is built or tested, seconds since the runner was made.
    """
    side_by_side(lane.builds, builders, lambda step: runner.run(step, gpu, shared, builds_s))
    side_by_side(lane.untimed, builders, lambda step: runner.run(step, gpu, within_s=builds_s))
    for step in lane.timed:
        runner.run(step, gpu)


def side_by_side(steps: Sequence[Step], processes: int, run: Callable[[Step], None]) -> None:
    """Run steps in their order, as many at once as work in so many processes."""
    free = threading.Semaphore(processes)

    def run_and_leave(step: Step, places: int) -> None:
        try:
            run(step)
        finally:
            free.release(places)

    with ThreadPoolExecutor(processes) as pool:
        begun = []
        for step in steps:
            places = min(step.jobs, processes)
            for _ in range(places):
                free.acquire()
            begun.append(pool.submit(run_and_leave, step, places))
        for one in begun:
            one.result()
