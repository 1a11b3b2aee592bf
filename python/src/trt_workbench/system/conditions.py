"""What in an environment makes measurements less trustworthy, in sentences with the mend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Far below its largest clock a card was idle, capped or throttled when the environment was recorded; alone no proof.
_BUSY_MEMORY_SHARE = 0.05


def measuring_conditions(environment: Mapping[str, Any]) -> list[str]:
    """Return what a reader of the figures should know.

    Args:
        environment: content of env.json, as `collect_environment` returned it.
    """
    return [*_cpu(environment.get("cpu", {})), *_gpus(environment.get("driver", {})), *_source(environment)]


def _cpu(cpu: Mapping[str, Any]) -> Iterator[str]:
    governor = cpu.get("governor")
    if governor is None:
        yield "The CPU's frequency governor is not visible, so its clock may have moved while measuring."
    elif governor != "performance":
        yield f"The CPU's frequency governor is {governor}; `cpupower frequency-set -g performance` steadies it."
    available, all_of_them = cpu.get("processors_available"), cpu.get("processors")
    if available and all_of_them and available < all_of_them:
        yield f"The process could use {available} of {all_of_them} processors."


def _gpus(driver: Mapping[str, Any]) -> Iterator[str]:
    gpus = driver.get("gpus", [])
    if not gpus:
        yield f"No GPU was visible: {driver.get('error', 'the driver sees none')}."
    for gpu in gpus:
        name = f"GPU {gpu['index']} ({gpu['name']})"
        if gpu.get("compute_processes"):
            others = (
                "another process" if gpu["compute_processes"] == 1 else f"{gpu['compute_processes']} other processes"
            )
            yield f"{name}: {others} used it when the run began."
        used, total = gpu.get("memory_used_bytes"), gpu.get("memory_total_bytes")
        if used and total and used / total > _BUSY_MEMORY_SHARE and not gpu.get("compute_processes"):
            yield f"{name}: {used / 2**30:.1f} GiB of its memory was in use when the run began, by whom is not visible."
        clock, largest = gpu.get("sm_clock_mhz"), gpu.get("sm_clock_max_mhz")
        if clock and largest:
            yield (
                f"{name}: clocks are not locked by the workbench; {clock} MHz of at most {largest} MHz when the run "
                "began. Each record holds the clocks that were seen beside it."
            )
        if gpu.get("persistence_mode") == 0:
            yield f"{name}: persistence mode is off, so the first run may include the driver's start."
        if gpu.get("power_limit_w"):
            yield f"{name}: power limit {gpu['power_limit_w']:.0f} W."


def _source(environment: Mapping[str, Any]) -> Iterator[str]:
    git = environment.get("git", {})
    if git.get("dirty"):
        yield f"The workbench's source differed from commit {str(git.get('commit'))[:12]}."
