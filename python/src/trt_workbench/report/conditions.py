"""What in an environment makes measurements less trustworthy, in sentences with the fix."""

from __future__ import annotations

from collections.abc import Iterator

from trt_workbench.core.artefacts import Cpu, Driver, Environment
from trt_workbench.core.counts import sized

# Far below its largest clock a card was idle, capped or throttled when the environment was recorded; not proof alone.
_BUSY_MEMORY_SHARE = 0.05


def measuring_conditions(environment: Environment) -> list[str]:
    """Return what a reader of the figures should know."""
    return [*_cpu(environment.cpu), *_gpus(environment.driver), *_source(environment)]


def _cpu(cpu: Cpu) -> Iterator[str]:
    if cpu.governor is None:
        yield "The CPU's frequency governor is not readable, so the clock may have changed during the measurement."
    elif cpu.governor != "performance":
        yield (
            f"The CPU's frequency governor is {cpu.governor}; `cpupower frequency-set -g performance` stabilises the "
            "clock."
        )
    if cpu.processors_available and cpu.processors and cpu.processors_available < cpu.processors:
        yield f"The process could use {cpu.processors_available} of {cpu.processors} CPUs."


def _gpus(driver: Driver) -> Iterator[str]:
    if not driver.gpus:
        yield f"No GPU was visible: {driver.error}."
    for gpu in driver.gpus:
        name, others = f"GPU {gpu.index} ({gpu.name})", gpu.compute_processes
        if others:
            used_by = "another process" if others == 1 else f"{others} other processes"
            yield f"{name}: {used_by} used it when the run began."
        used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
        if used and total and used / total > _BUSY_MEMORY_SHARE and not others:
            yield f"{name}: {sized(used)} of its memory was in use when the run began; its user is not visible."
        if gpu.sm_clock_mhz and gpu.sm_clock_max_mhz:
            yield (
                f"{name}: the workbench did not lock the clocks; {gpu.sm_clock_mhz} MHz of at most "
                f"{gpu.sm_clock_max_mhz} MHz when the run began. Each record holds the clocks during its measurement."
            )
        if gpu.persistence_mode == 0:
            yield f"{name}: persistence mode is off, so the first run may include the start of the driver."
        if gpu.power_limit_w:
            yield f"{name}: power limit {gpu.power_limit_w:.0f} W."


def _source(environment: Environment) -> Iterator[str]:
    if environment.git.dirty:
        yield f"The workbench's source differed from commit {str(environment.git.commit)[:12]}."
