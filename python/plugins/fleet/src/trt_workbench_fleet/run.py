"""Write the files of a run; hand them over, wait, and merge."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import DeviceFailure
from trt_workbench.core.shard_files import read_shards
from trt_workbench.scale.merging import merge_into, merging_of
from trt_workbench_fleet.array import JobArray
from trt_workbench_fleet.kubernetes import Kubernetes
from trt_workbench_fleet.local import Local
from trt_workbench_fleet.ray import Ray
from trt_workbench_fleet.scheduler import Scheduler
from trt_workbench_fleet.slurm import Slurm

Progress = Callable[[int, int], None]
SCHEDULERS: dict[str, Callable[[], Scheduler]] = {"local": Local, "slurm": Slurm, "kubernetes": Kubernetes, "ray": Ray}
# A shard that failed is handed over again, twice at most.
_ATTEMPTS = 3
_TAIL_LINES = 3


def write_files(scheduler: Scheduler, array: JobArray) -> list[Path]:
    """Write what the scheduler takes into the array's folder, and return the paths.

    Raises:
        UsageProblem: a setting lacks, or the folder cannot be used.
    """
    return array.begin(scheduler.files(array))


def run_array(
    scheduler: Scheduler, array: JobArray, say: Callable[[str], None], progress: Progress
) -> tuple[Path, Callable[[], None]]:
    """Run the shards that are not done, and merge all.

    Returns:
        The run directory of the merged run, and what raises CheckFailed where a gate of the command failed.

    Raises:
        UsageProblem: shards do not fit together.
        ComponentMissing: the scheduler refuses the job.
        DeviceFailure: a shard failed three times; what is done is kept.
    """
    for attempt in range(_ATTEMPTS):
        if not (missing := array.missing()):
            break
        if attempt:
            say(f"{array.name}: {_named(missing, array)} failed and will be run again ({attempt + 1} of {_ATTEMPTS}).")
        scheduler.run(array, missing, lambda: progress(array.ended(), array.run.shards))
    if missing := array.missing():
        raise DeviceFailure(
            f"{_named(missing, array)} of {array.name} failed {_ATTEMPTS} times; the others are kept: "
            f"`{shlex.join([*array.merge, '--partial'])}`. {_tail(array, missing[0])}"
        )
    progress(array.run.shards, array.run.shards)
    shards = read_shards([array.folder], partial=False)
    metrics, directory = merge_into(shards, array.result)
    return directory, partial(merging_of(shards).require, metrics, directory)


def _named(indices: Sequence[int], array: JobArray) -> str:
    names = ", ".join(f"{index}/{array.run.shards}" for index in indices[:10])
    return f"{counted(len(indices), 'shard')} ({names}{', …' if indices[10:] else ''})"


def _tail(array: JobArray, index: int) -> str:
    log = array.logs / f"{index}.log"
    try:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    if not lines:  # its disk may be full, too
        return f"The log of the first is empty: {log}"
    return f"The log of the first ends: {' '.join(lines[-_TAIL_LINES:])}: {log}"
