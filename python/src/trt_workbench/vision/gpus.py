"""`--gpus`: an evaluation whose shards run on the GPUs of this machine."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

from trt_workbench.core.documents import json_values
from trt_workbench.core.spread import Job
from trt_workbench.vision.dataset import read_dataset
from trt_workbench.vision.run import CocoRequest
from trt_workbench.vision.shard_worker import TARGET
from trt_workbench.vision.sharding import finished, merge_shards
from trt_workbench.vision.tasks.boxes import Boxes


def job_of(request: CocoRequest) -> Job:
    """Return what is done on several devices; the data set is read from now on, while they work."""
    names = ("split", "exif", "limit", "allow_missing")
    how = {**{name: getattr(request, name) for name in names}, "task": Boxes()}
    ahead = ThreadPoolExecutor(1).submit(read_dataset, request.images, request.annotations, **how)
    return Job(
        TARGET,
        {"request": json_values(request, str)},
        lambda shard, place: finished(dataclasses.replace(request, shard=shard), place),
        lambda shards, folder, notes, together: merge_shards(
            shards, folder, notes=notes, together=together, ahead=ahead
        ),
    )
