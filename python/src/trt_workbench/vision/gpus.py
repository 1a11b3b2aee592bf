"""`--gpus`: an evaluation whose shards run on the GPUs of this machine."""

from __future__ import annotations

import dataclasses

from trt_workbench.core.documents import json_values
from trt_workbench.core.spread import Job
from trt_workbench.vision.run import CocoRequest
from trt_workbench.vision.shard_worker import TARGET
from trt_workbench.vision.sharding import finished, merge_shards


def job_of(request: CocoRequest) -> Job:
    """Return what is done on several devices."""
    return Job(
        TARGET,
        {"request": json_values(request, str)},
        lambda shard, place: finished(dataclasses.replace(request, shard=shard), place),
        lambda shards, folder, notes, together: merge_shards(shards, folder, notes=notes, together=together),
    )
