"""`--gpus`: a run whose shards run on devices of this machine, one a process, put together at once."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trt_workbench.core.artefacts import Status
from trt_workbench.core.directory import RunDirectory
from trt_workbench.core.errors import DeviceFailure, WorkbenchError
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_files import SHARD, Shards, done_before, read_shards
from trt_workbench.core.shard_workers import Device, ShardWorkers

LEFT_OUT: Final = "Left out, as worker processes died of"
"""What a note begins with that names what was skipped."""


Merge = Callable[[Shards, Path, Sequence[str], bool], dict[str, Any]]
"""Fills a folder with the files of the run, and returns the content of metrics.json, with some notes in it; the last
argument says whether all shards ran at the same time."""


@dataclass(frozen=True)
class Job:
    """A command in shards.

    Attributes:
        target: module whose `evaluate` does a shard in a worker, as of `ShardWorkers`.
        request: of all shards, as JSON values.
        command: that is done.
        asked: returns what decides the result.
        merge: makes the run.
    """

    target: str
    request: Mapping[str, Any]
    command: str
    asked: Callable[[], Mapping[str, Any]]
    merge: Merge


@dataclass(frozen=True)
class Spread:
    """How it ended.

    Attributes:
        metrics: content of metrics.json.
        is_whole: whether nothing is missing.
        interrupted: whether the user ended it.
        error: the first reason why something is missing; None where nothing is, or the user ended it.
    """

    metrics: dict[str, Any]
    is_whole: bool
    interrupted: bool
    error: WorkbenchError | None

    @property
    def status(self) -> Status:
        """What run.json says."""
        return "complete" if self.is_whole else "partial"


def spread(
    devices: Sequence[Device], job: Job, run: RunDirectory, on_progress: Callable[[int, int], None] | None = None
) -> Spread:
    """Run one shard on each device, and fill a run directory with what they find.

    The shards lie next to the run directory until the whole is there, so that the same command goes on after an
    interrupt, or a kill, with those that are not done. A worker is asked for the job's request with "shard", its index
    and the count, and "place", its run directory.

    Raises:
        WorkbenchError: no shard is done: the first reason.
        KeyboardInterrupt: interrupted twice, or before anything was done.
    """
    place, logs = run.destination.with_name(f"{run.destination.name}-shards"), run.path / "logs"
    logs.mkdir()
    shards = [Shard(index, len(devices)) for index in range(len(devices))]
    places = {shard: place / f"{shard.index}-of-{shard.count}" for shard in shards}
    left = [shard for shard in shards if not done_before(places[shard], shard, job.command, job.asked)]
    for shard in left:
        if (places[shard] / SHARD).is_file():  # a half one, or of other settings
            shutil.rmtree(places[shard])
    work = ShardWorkers(devices, job.target, logs)
    asked = {shard: {**job.request, "shard": vars(shard), "place": str(places[shard])} for shard in left}
    work.run(asked, on_progress)
    errors = [failure.raised() for failure in work.failures]
    there = [places[shard] for shard in shards if (places[shard] / "run.json").is_file()]
    if not there:
        raise errors[0] if errors else KeyboardInterrupt
    found = read_shards(there, partial=True)
    if not any(one.document.done for one in found.runs):
        left_out = _left_out(note for one in found.runs for note in one.document.whole.get("notes", ()))
        raise errors[0] if errors else left_out or KeyboardInterrupt
    metrics = job.merge(found, run.path, [*map(str, errors)], len(left) == len(shards))
    found.write(run.path, merged_here=True)
    for journal in logs.glob("*.journal"):
        journal.unlink()
    if not found.missing:
        for one in there:
            shutil.rmtree(one, ignore_errors=True)
        with contextlib.suppress(OSError):
            place.rmdir()
    elif not errors and (named := _left_out(metrics["notes"])):
        errors = [named]
    error = errors[0] if errors and not work.interrupted else None
    return Spread(metrics, not found.missing, work.interrupted, error)


def _left_out(notes: Iterable[str]) -> DeviceFailure | None:
    """Return what names the inputs that were left out; None where none were."""
    found = " ".join(note for note in notes if note.startswith(LEFT_OUT))
    return DeviceFailure(found) if found else None
