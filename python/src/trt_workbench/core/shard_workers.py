"""Shards of a run as worker processes of this machine, one on each device: `--gpus`."""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import DeviceFailure, UsageProblem, WorkbenchError
from trt_workbench.core.gpu import driver_report, gpu_at, visible_gpus, why_no_gpu
from trt_workbench.core.shard import Shard
from trt_workbench.core.workers import NO_LIMIT_S, WorkerFailure, WorkerProcess

TAKEN, DONE = 1, 2
"""What a journal says of an input: a process has begun with it, and it is done."""
_ATTEMPTS = 3  # at a shard
_POLL_S = 0.1


@dataclass(frozen=True)
class Device:
    """Where a worker runs.

    Attributes:
        name: for people, such as "GPU 0".
        environment: variables of the worker.
    """

    name: str
    environment: Mapping[str, str]


def gpu_devices(numbers: Sequence[int]) -> list[Device]:
    """Return GPUs by CUDA's numbers, all where none is given.

    Raises:
        UsageProblem: there is no such GPU, or they are of several types: a score is of one.
    """
    known = visible_gpus()
    if not known:
        raise UsageProblem(" ".join(["--gpus needs a GPU.", *(why_no_gpu(driver_report()) or ())]))
    if beyond := [number for number in numbers if number >= len(known)]:
        raise UsageProblem(f"--gpus {beyond[0]}: this process sees GPUs 0 to {len(known) - 1}.")
    chosen = list(numbers or range(len(known)))
    types = {number: (gpu_at(number) or {}).get("name") for number in chosen}
    first, *others = chosen
    for other in others:
        if types[other] != types[first]:
            raise UsageProblem(
                f"--gpus takes GPUs of one type: GPU {first} is {types[first]} and GPU {other} is {types[other]}. Run "
                "each type separately, and compare."
            )
    return [Device(f"GPU {number}", {"CUDA_VISIBLE_DEVICES": known[number]}) for number in chosen]


def open_journal(path: Path | None, count: int) -> NDArray[np.uint8]:
    """Return a note for each of so many inputs, 0 at first; it is in the file, too, whatever ends this process."""
    if path is None or not count:
        return np.zeros(count, np.uint8)
    path.write_bytes(bytes(count))
    return np.memmap(path, np.uint8, "r+")


@dataclass(frozen=True)
class ShardFailure:
    """A shard that was given up.

    Attributes:
        shard: which one.
        text: why.
        error: what its worker refused; None after crashes.
    """

    shard: Shard
    text: str
    error: WorkbenchError | None

    def raised(self) -> WorkbenchError:
        """Return it as an error."""
        text = f"Shard {self.shard} failed: {self.text}"
        return type(self.error)(text) if self.error else DeviceFailure(text)


class ShardWorkers:
    """Workers, one a device, each with one shard of as many.

    A shard whose worker dies, or whose device fails, is taken again, twice at most. Where inputs were in work at every
    death, those that end a worker by themselves are found and left out, and the rest of the shard is done.

    Attributes:
        failures: shards that were given up.
        interrupted: whether the user ended the work.
    """

    def __init__(self, devices: Sequence[Device], target: str, folder: Path) -> None:
        """Prepare.

        Args:
            devices: one for each shard.
            target: as of WorkerProcess. Its `evaluate` does a shard, and its `attempt` tries inputs and keeps nothing;
                a request has "journal", a file for `open_journal`, and "skipped", places in the shard's block.
            folder: for logs and journals.
        """
        self._devices, self._target, self._folder = devices, target, folder
        self._running: dict[Shard, WorkerProcess] = {}
        self._lock = threading.Lock()
        self.failures: list[ShardFailure] = []
        self.interrupted = False

    def run(
        self, requests: Mapping[Shard, Mapping[str, Any]], on_progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Do the shards that are requested. Ctrl-C lets workers keep what is done; a second one ends them.

        Args:
            requests: what the worker of each shard gets.
            on_progress: called with the inputs done and their total, once that is known.

        Raises:
            KeyboardInterrupt: interrupted twice.
        """
        work = [threading.Thread(target=self._shard, args=one, daemon=True) for one in requests.items()]
        for thread in work:
            thread.start()
        try:
            try:
                self._wait(work, [*requests], on_progress)
            except KeyboardInterrupt:
                self.interrupted = True
                self._end(WorkerProcess.interrupt)
                self._wait(work, [*requests], on_progress)
        finally:
            self.interrupted = self.interrupted or any(thread.is_alive() for thread in work)
            self._end(WorkerProcess.kill)
            for thread in work:
                thread.join()

    def _wait(
        self, work: Sequence[threading.Thread], shards: Sequence[Shard], on_progress: Callable[[int, int], None] | None
    ) -> None:
        while any(thread.is_alive() for thread in work):
            time.sleep(_POLL_S)
            notes = [self._noted(shard) for shard in shards]
            if on_progress and all(map(len, notes)):
                on_progress(sum(int((one == DONE).sum()) for one in notes), sum(map(len, notes)))

    def _end(self, how: Callable[[WorkerProcess], None]) -> None:
        with self._lock:
            for worker in self._running.values():
                how(worker)

    def _shard(self, shard: Shard, request: Mapping[str, Any]) -> None:
        """Do a shard on its device, again where its worker dies."""
        deaths = list[NDArray[np.intp]]()
        while True:
            try:
                self._ask(shard, {**request, "verb": "evaluate", "skipped": []})
                return
            except WorkerFailure as failure:
                if self.interrupted or failure.is_sound or (failure.alive and failure.error is None):
                    self._give_up(shard, str(failure), failure.error)
                    return
                deaths.append(np.flatnonzero(self._noted(shard) == TAKEN))
                if len(deaths) == _ATTEMPTS:
                    self._leave_out(shard, request, functools.reduce(np.intersect1d, deaths), str(failure))
                    return

    def _leave_out(self, shard: Shard, request: Mapping[str, Any], suspects: NDArray[np.intp], text: str) -> None:
        """Find which inputs end a worker, and do the shard without them."""
        tried = f"{text} (tried {_ATTEMPTS} times on {self._devices[shard.index].name})"
        guilty = self._guilty(shard, request, suspects, len(self._noted(shard)))
        if not len(guilty):
            self._give_up(shard, tried, None)
            return
        try:
            self._ask(shard, {**request, "verb": "evaluate", "skipped": guilty.tolist()})
        except WorkerFailure as failure:
            self._give_up(shard, f"{tried}, and without the inputs that were in work: {failure}", failure.error)

    def _guilty(
        self, shard: Shard, request: Mapping[str, Any], suspects: NDArray[np.intp], count: int
    ) -> NDArray[np.intp]:
        """Return those of some inputs that end a worker by themselves, halving them; all if only together they do."""
        if not len(suspects) or not self._kills(shard, request, suspects, count):
            return suspects[:0]
        if len(suspects) == 1:
            return suspects
        found = [self._guilty(shard, request, half, count) for half in np.array_split(suspects, 2)]
        return np.concatenate(found) if any(map(len, found)) else suspects

    def _kills(self, shard: Shard, request: Mapping[str, Any], some: NDArray[np.intp], count: int) -> bool:
        others = np.setdiff1d(np.arange(count), some)
        try:
            self._ask(shard, {**request, "verb": "attempt", "skipped": others.tolist()})
        except WorkerFailure as failure:
            return not failure.is_sound
        return False

    def _ask(self, shard: Shard, request: Mapping[str, Any]) -> None:
        """Let a new worker do what is requested. Raises WorkerFailure."""
        device, journal = self._devices[shard.index], self._journal(shard)
        journal.unlink(missing_ok=True)
        log = self._folder / f"{shard.index}-of-{shard.count}.log"
        with WorkerProcess(log, self._target, device.environment) as worker:
            with self._lock:
                if self.interrupted:
                    raise WorkerFailure("interrupted", signal.SIGINT.name, alive=False)
                self._running[shard] = worker
            try:
                worker.ask({**request, "journal": str(journal)}, NO_LIMIT_S)
            finally:
                with self._lock:
                    del self._running[shard]

    def _give_up(self, shard: Shard, text: str, error: WorkbenchError | None) -> None:
        if not self.interrupted:
            self.failures.append(ShardFailure(shard, text, error))

    def _journal(self, shard: Shard) -> Path:
        return self._folder / f"{shard.index}-of-{shard.count}.journal"

    def _noted(self, shard: Shard) -> NDArray[np.uint8]:
        """Return the journal of a shard; empty where its worker has not begun."""
        try:
            return np.frombuffer(self._journal(shard).read_bytes(), np.uint8)
        except OSError:
            return np.empty(0, np.uint8)
