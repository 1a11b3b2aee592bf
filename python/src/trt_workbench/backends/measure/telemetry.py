"""What the GPU and the processes do while something is measured, sampled from outside so as not to disturb it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from trt_workbench.core.gpu import nvml_name
from trt_workbench.core.statistics.summary import percentile


@dataclass(frozen=True)
class Contention:
    """Figures of one measurement; None where the system does not report them.

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
    """Counts from construction on; call `result` once the measured process is idle."""

    def __init__(self, pid: int) -> None:
        """Begin to count for the measured process `pid`."""
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
    """Return this process and its descendants, including the workers of a bench."""
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
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                on, off, _ = (thread / "schedstat").read_text(encoding="ascii").split()
                ran, waited = ran + int(on), waited + int(off)
    return ran, waited


_INTERVAL_S = 0.05
# NVML's reasons that mean the card runs slower than requested (nvml.h, nvmlClocksEventReasons).
THROTTLES = {
    0x0000000000000004: "power cap (software)",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "thermal (software)",
    0x0000000000000040: "thermal (hardware)",
    0x0000000000000080: "power brake (hardware)",
}


@dataclass(frozen=True)
class Telemetry:
    """Figures of one measurement; None where the machine does not report them.

    Attributes:
        sm_clock_mhz: median, and the least and largest seen.
        sm_clock_min_mhz: least seen.
        sm_clock_max_mhz: largest seen.
        temperature_max_c: hottest seen.
        power_mean_w: mean draw.
        energy_j: energy of the whole card while it was measured, by its own counter.
        throttles: what held the clocks back, in words.
        device_memory_bytes: most memory that the measured process held on the card; everybody's where the driver
            does not identify the process (inside a container).
        host_memory_bytes: most resident memory of the measured process.
        seconds: how long was sampled.
        contention: what others took of the processors.
        gpu_other_processes: processes on the card not started by the bench; None where the driver does not distinguish
            them (inside a container).
        gpu_others_percent: largest share of the card's multiprocessors that one of them used, percent.
    """

    sm_clock_mhz: float | None
    sm_clock_min_mhz: float | None
    sm_clock_max_mhz: float | None
    temperature_max_c: float | None
    power_mean_w: float | None
    energy_j: float | None
    throttles: tuple[str, ...]
    device_memory_bytes: int | None
    host_memory_bytes: int | None
    seconds: float
    contention: Contention = field(default_factory=Contention)
    gpu_other_processes: int | None = None
    gpu_others_percent: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        flat = asdict(self)
        contention = flat.pop("contention")
        return {**flat, **contention, "throttles": list(self.throttles)}


class TelemetrySampler:
    """Samples one process and one GPU from a thread. A context manager; `result` is there afterwards."""

    result: Telemetry

    def __init__(self, pid: int, device: int | None = 0) -> None:
        """Prepare to watch the process `pid` and the GPU that CUDA calls `device` in it; None watches no GPU."""
        self._process = psutil.Process(pid)
        self._gpu = None if device is None else _Gpu.open(device, pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="telemetry", daemon=True)
        self._host: list[int] = []
        self._device: list[dict[str, float]] = []
        self._reasons = 0

    def __enter__(self) -> Self:
        """Start sampling."""
        self._watch = ContentionWatch(self._process.pid)
        self._began_us = int(time.time() * 1e6)
        self._started = time.monotonic()
        self._energy = self._gpu.energy_mj() if self._gpu else None
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and make the result."""
        self._stop.set()
        self._thread.join()
        self.result = self._summary()
        if self._gpu:
            self._gpu.close()

    def _sample(self) -> None:
        while True:
            try:
                self._host.append(self._process.memory_info().rss)
            except psutil.Error:  # the process ended; its parent reports that
                return
            if self._gpu:
                figures, reasons = self._gpu.sample()
                self._device.append(figures)
                self._reasons |= reasons
            if self._stop.wait(_INTERVAL_S):
                return

    def _summary(self) -> Telemetry:
        clocks, power = self._column("sm_clock_mhz"), self._column("power_w")
        temperatures, memory = self._column("temperature_c"), self._column("memory_bytes")
        energy = self._gpu.energy_mj() if self._gpu else None
        seconds = time.monotonic() - self._started
        others, percent = self._gpu.others(self._began_us) if self._gpu else (None, None)
        return Telemetry(
            sm_clock_mhz=percentile(clocks, 50) if clocks else None,
            sm_clock_min_mhz=clocks[0] if clocks else None,
            sm_clock_max_mhz=clocks[-1] if clocks else None,
            temperature_max_c=temperatures[-1] if temperatures else None,
            power_mean_w=sum(power) / len(power) if power else None,
            energy_j=None if energy is None or self._energy is None else (energy - self._energy) / 1000,
            throttles=tuple(text for bit, text in THROTTLES.items() if self._reasons & bit),
            device_memory_bytes=int(memory[-1]) if memory else None,
            host_memory_bytes=max(self._host, default=None),
            seconds=seconds,
            contention=self._watch.result(seconds),
            gpu_other_processes=others,
            gpu_others_percent=percent,
        )

    def _column(self, name: str) -> list[float]:
        return sorted(row[name] for row in self._device if name in row)


class _Gpu:
    """One GPU through NVML; a figure that the card does not report is left out."""

    def __init__(self, nvml: Any, handle: Any, pid: int) -> None:
        self._nvml, self._handle, self._pid = nvml, handle, pid

    @classmethod
    def open(cls, device: int, pid: int) -> _Gpu | None:
        """Return the GPU, or None where there is no driver or no such GPU."""
        name = nvml_name(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
        try:
            import pynvml
        except ImportError:
            return None
        if name is None:
            return None
        by_name = pynvml.nvmlDeviceGetHandleByIndex if isinstance(name, int) else pynvml.nvmlDeviceGetHandleByUUID
        try:
            pynvml.nvmlInit()
            return cls(pynvml, by_name(name), pid)
        except pynvml.NVMLError:
            return None

    def close(self) -> None:
        """Shut down NVML."""
        self._nvml.nvmlShutdown()

    def energy_mj(self) -> float | None:
        """Return the energy since the driver was loaded, millijoules."""
        energy: float | None = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return energy

    def sample(self) -> tuple[dict[str, float], int]:
        """Return clocks, power, temperature and the process's memory, and NVML's throttle reasons."""
        power = self._ask("nvmlDeviceGetPowerUsage")
        figures = {
            "sm_clock_mhz": self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM),
            "temperature_c": self._ask("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU),
            "power_w": None if power is None else power / 1000,
            "memory_bytes": self._memory(),
        }
        reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        return {name: value for name, value in figures.items() if value is not None}, int(reasons)

    def others(self, since_us: int) -> tuple[int | None, float | None]:
        """Return how many processes on the card are not the bench's, and the largest share one of them used, percent.

        Args:
            since_us: start of measuring, microseconds since 1970.
        """
        running = {process.pid for process in self._ask("nvmlDeviceGetComputeRunningProcesses") or ()}
        if self._pid not in running:  # the driver knows the processes by other numbers
            return None, None
        others = running - {process.pid for process in own_processes()} - {self._pid}
        used = self._ask("nvmlDeviceGetProcessUtilization", since_us) if others else ()
        shares = [float(one.smUtil) for one in used or () if one.pid in others]
        return len(others), max(shares, default=0.0 if used is not None else None)

    def _memory(self) -> float | None:
        for process in self._ask("nvmlDeviceGetComputeRunningProcesses") or ():
            if process.pid == self._pid:
                return float(process.usedGpuMemory or 0)
        # Inside a container the driver knows the process by another number: take the whole card's.
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        return None if memory is None else float(memory.used)

    def _ask(self, query: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, query)(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None
