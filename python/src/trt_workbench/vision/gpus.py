"""`--gpus`: an evaluation whose shards run on the GPUs of this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from trt_workbench.core.documents import json_values
from trt_workbench.core.spread import Job
from trt_workbench.vision.dataset import read_by
from trt_workbench.vision.run import CocoRequest
from trt_workbench.vision.shard_worker import TARGET
from trt_workbench.vision.sharding import COMMAND, merge_shards, what_decides
from trt_workbench.vision.tasks.boxes import Boxes


def job_of(request: CocoRequest) -> Job:
    """Return what is done on several devices; the data set is read from now on, while they work."""
    ahead = ThreadPoolExecutor(1).submit(read_by, vars(request), Boxes())
    return Job(
        TARGET,
        {"request": json_values(request, str)},
        COMMAND,
        partial(what_decides, request),
        lambda shards, folder, notes, together: merge_shards(
            shards, folder, notes=notes, together=together, ahead=ahead
        ),
    )
