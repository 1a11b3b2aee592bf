"""What `submit` needs of a scheduler, and the tools that all of them are reached by."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench.core.workers import GRACE_S, run_to_end, signal_group, started
from trt_workbench_fleet.array import JobArray

Watch = Callable[[], None]
"""Called every few seconds while a job runs."""
POLL_S = 2.0
_ANSWER_S = 120.0
# So often in a row a scheduler may not answer: it restarts, or its machine does.
_MOST_SILENT = 60


class Scheduler(Protocol):
    """One way to run an array."""

    def files(self, array: JobArray) -> dict[str, str]:
        """Return the files by name, readable without us. Raises UsageProblem where a setting lacks."""

    def how(self, array: JobArray) -> list[str]:
        """Return the commands that run them, for people."""

    def require(self, array: JobArray) -> None:
        """Check that the scheduler is here, and that it has what the array asks for.

        Raises:
            ComponentMissing: its tool is absent or does not answer.
            UsageProblem: no node has what is asked for.
        """

    def run(self, array: JobArray, indices: Sequence[int], watch: Watch) -> None:
        """Run the shards with these indices, and return when none of their tasks is left, however they ended.

        Raises:
            ComponentMissing: the scheduler refuses the job.
            DeviceFailure: it does not answer any more.
        """


def require_tool(name: str, scheduler: str, where: str) -> None:
    """Raise ComponentMissing unless a program can be found."""
    if shutil.which(name) is None:
        raise ComponentMissing(
            f"`{name}` of {scheduler} is not found on this machine. Run the command {where}, or leave out --run to "
            "write the files only."
        )


def no_such_gpu(what: str, known: Sequence[str]) -> UsageProblem:
    """Return the error for a resource that no node has: a scheduler would wait for it for ever."""
    return UsageProblem(f"This cluster has no node {what}; there are: {', '.join(known) or 'none'}.")


def ask(command: Sequence[str], what: str) -> str:
    """Return what a scheduler's tool prints. Raises ComponentMissing with its own words where it fails."""
    ended = run_to_end(list(command), _ANSWER_S)
    if ended.code == 0:
        return ended.stdout
    said = " ".join(ended.stderr.split()) or ("it does not answer" if ended.code is None else f"exit code {ended.code}")
    raise ComponentMissing(f"{what} failed: {said.removesuffix('.')} (`{shlex.join(command)}`).")


def poll(is_over: Callable[[], bool], watch: Watch, after: str) -> None:
    """Ask a scheduler until a job is over.

    Args:
        is_over: raises ComponentMissing where the scheduler does not answer.
        watch: called each time.
        after: what to do if the scheduler stays silent; the job itself goes on.

    Raises:
        DeviceFailure: it does not answer for two minutes.
        KeyboardInterrupt: interrupted; its note says what goes on.
    """
    silent = 0
    try:
        while True:
            watch()
            try:
                if is_over():
                    return
                silent = 0
            except ComponentMissing as error:
                silent += 1
                if silent == _MOST_SILENT:
                    raise DeviceFailure(f"{error} The job goes on. {after}") from error
            time.sleep(POLL_S)
    except KeyboardInterrupt as error:
        error.add_note(f"The job goes on. {after}")
        raise


class CommandPool(AbstractContextManager["CommandPool"]):
    """Commands that run at one time, each with a log. A context manager that ends those that are left."""

    def __init__(self, at_once: int) -> None:
        """Let so many run at one time."""
        self._threads = ThreadPoolExecutor(at_once)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock, self._ended = threading.Lock(), False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what runs, kindly first; nothing that waits is started any more."""
        with self._lock:
            self._ended = True
            for process in self._running:
                signal_group(process, signal.SIGTERM)
            running = [*self._running]
        for process in running:
            try:
                process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                signal_group(process, signal.SIGKILL)
        self._threads.shutdown(cancel_futures=True)

    def start(self, command: Sequence[str], log: Path) -> Future[int | None]:
        """Run a command as soon as there is room; its output is added to `log`.

        Returns:
            Its exit code, below zero the number of the signal that killed it; None if the pool was ended before.
        """
        return self._threads.submit(self._run, command, log)

    def _run(self, command: Sequence[str], log: Path) -> int | None:
        with log.open("ab") as file:
            with self._lock:
                if self._ended:
                    return None
                self._running.add(process := started(command, file))
            try:
                return process.wait()
            finally:
                with self._lock:
                    self._running.discard(process)


def render(template: str, **values: Any) -> str:
    """Render a template of this folder; names that are not defined are errors."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # no page: every value is quoted by the filter of its language
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"shell": shlex.quote, "words": shlex.join, "python": repr}
    return environment.get_template(template).render(**values)
