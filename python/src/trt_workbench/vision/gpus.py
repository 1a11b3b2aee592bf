"""`--gpus`: an evaluation whose shards run on the GPUs of this machine, one a process, put together at once."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trt_workbench.backends.registry import require_backend
from trt_workbench.core.directory import RunDirectory
from trt_workbench.core.documents import json_values
from trt_workbench.core.errors import DeviceFailure, UsageProblem, WorkbenchError
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_files import SHARD, read_shards
from trt_workbench.core.shard_workers import Device, ShardWorkers, gpu_devices
from trt_workbench.vision.run import CocoRequest, Progress
from trt_workbench.vision.scoring import LEFT_OUT, CocoOutcome
from trt_workbench.vision.shard_worker import TARGET
from trt_workbench.vision.sharding import finished, merge_shards


@dataclass(frozen=True)
class SpreadOutcome:
    """How it ended.

    Attributes:
        outcome: as of one process.
        interrupted: whether the user ended it.
        error: the first reason why images are missing; None where none are, or the user ended it.
    """

    outcome: CocoOutcome
    interrupted: bool
    error: WorkbenchError | None


def devices_for(request: CocoRequest, numbers: Sequence[int], note: Callable[[str], None]) -> list[Device]:
    """Return the GPUs to spread over, by CUDA's numbers; all where none is given.

    Raises:
        UsageProblem: the backend does not compute on GPUs, or as `gpu_devices`.
        ComponentMissing: the backend cannot serve here.
    """
    if "device" in request.options:
        raise UsageProblem("--gpus chooses the devices; leave out --option device.")
    backend = require_backend(request.backend, request.model.suffix, note)
    if "cuda" not in backend.devices:
        raise UsageProblem(
            f"--gpus is for backends on GPUs, and {backend.name} computes on the processor; leave it out."
        )
    if backend.served:
        raise UsageProblem(f"--gpus is for models that run here, and {backend.name} asks a server; omit it.")
    return gpu_devices(numbers)


def evaluate_on(
    devices: Sequence[Device], request: CocoRequest, run: RunDirectory, on_images: Progress | None = None
) -> SpreadOutcome:
    """Evaluate one shard on each device, and fill a run directory with what they find.

    The shards lie next to the run directory until the whole is there, so that the same command goes on after an
    interrupt, or a kill, with those that are not done.

    Raises:
        WorkbenchError: no shard is done: the first reason.
        KeyboardInterrupt: interrupted twice, or before any image was done.
    """
    place, logs = run.destination.with_name(f"{run.destination.name}-shards"), run.path / "logs"
    logs.mkdir()
    shards = [Shard(index, len(devices)) for index in range(len(devices))]
    places = {shard: place / f"{shard.index}-of-{shard.count}" for shard in shards}
    requests = {shard: dataclasses.replace(request, shard=shard) for shard in shards}
    left = {shard: one for shard, one in requests.items() if not finished(one, places[shard])}
    for shard in left:
        if (places[shard] / SHARD).is_file():  # a half one, or of other settings
            shutil.rmtree(places[shard])
    work = ShardWorkers(devices, TARGET, logs)
    asked = {shard: {"request": json_values(one, str), "place": str(places[shard])} for shard, one in left.items()}
    work.run(asked, on_images)
    errors = [failure.raised() for failure in work.failures]
    there = [places[shard] for shard in shards if (places[shard] / "run.json").is_file()]
    if not there:
        raise errors[0] if errors else KeyboardInterrupt
    found = read_shards(there, partial=True)
    together = len(left) == len(shards)
    metrics = merge_shards(found, run.path, notes=[*map(str, errors)], together=together)
    found.write(run.path, merged_here=True)
    for journal in logs.glob("*.journal"):
        journal.unlink()
    if not found.missing:
        for one in there:
            shutil.rmtree(one, ignore_errors=True)
        with contextlib.suppress(OSError):
            place.rmdir()
    elif not errors:
        errors = [DeviceFailure(" ".join(note for note in metrics["notes"] if note.startswith(LEFT_OUT)))]
    error = errors[0] if errors and not work.interrupted else None
    return SpreadOutcome(CocoOutcome(metrics["status"], metrics), work.interrupted, error)
