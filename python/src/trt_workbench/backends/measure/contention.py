"""What other programs and the hypervisor took of the processors while one process was measured."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Contention:
    """Figures of one measurement; None where the system does not tell.

    Attributes:
        load_average: runnable processes of the last minute, when it ended.
        cpu_steal_share: part of the processors' time that the hypervisor gave to other machines.
        cpu_others: processors that programs other than the bench kept busy, mean.
        cpu_wait_share: of the time in which a thread of the measured process wanted to run, the part that it waited for
            a processor (Linux's scheduler, /proc/PID/task/*/schedstat).
    """

    load_average: float | None = None
    cpu_steal_share: float | None = None
    cpu_others: float | None = None
    cpu_wait_share: float | None = None


class ContentionWatch:
    """Counts from its making on; `result` may be asked once the measured process rests."""

    def __init__(self, pid: int) -> None:
        """Begin to count beside the process `pid`."""
        self._pid = pid
        self._began = self._counters()

    def result(self, seconds: float) -> Contention:
        """Return what was counted in the `seconds` since."""
        began, now = self._began, self._counters()
        passed = now.total_s - began.total_s
        # the kernel counts in hundredths of a second, and processes that ended are counted nowhere
        others = (now.busy_s - began.busy_s - (now.own_s - began.own_s)) / seconds if seconds > 0 else 0.0
        ran, waited = now.ran_ns - began.ran_ns, now.waited_ns - began.waited_ns
        measured = passed > 0 and seconds > 0
        return Contention(
            load_average=psutil.getloadavg()[0],
            cpu_steal_share=max(0.0, now.steal_s - began.steal_s) / passed if measured else None,
            cpu_others=max(0.0, others) if measured else None,
            cpu_wait_share=waited / (ran + waited) if ran > 0 and waited >= 0 else None,
        )

    def _counters(self) -> _Counters:
        times = psutil.cpu_times()
        busy = times.user + times.system + sum(getattr(times, name, 0.0) for name in ("nice", "irq", "softirq"))
        steal = getattr(times, "steal", 0.0)
        total = busy + steal + times.idle + getattr(times, "iowait", 0.0)
        return _Counters(busy, steal, total, own_cpu_s(), *_scheduled(self._pid))


@dataclass(frozen=True)
class _Counters:
    busy_s: float
    steal_s: float
    total_s: float
    own_s: float
    ran_ns: int
    waited_ns: int


def own_processes() -> list[psutil.Process]:
    """Return this process and all that it started, the workers of a bench among them."""
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def own_cpu_s() -> float:
    """Return the processor time that the bench and its workers have used, seconds."""
    total = 0.0
    for process in own_processes():
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _scheduled(pid: int) -> tuple[int, int]:
    """Return how long the threads of a process ran, and how long they waited for a processor, nanoseconds."""
    ran = waited = 0
    with contextlib.suppress(OSError, ValueError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                on, off, _ = (thread / "schedstat").read_text(encoding="ascii").split()
                ran, waited = ran + int(on), waited + int(off)
    return ran, waited
