"""What runs in the process that evaluates one shard on one GPU, and what is done on several."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trt_workbench.core.directory import run_directory
from trt_workbench.core.documents import json_values
from trt_workbench.core.spread import Job
from trt_workbench.vision.dataset import read_by
from trt_workbench.vision.run import CocoEvaluation, CocoRequest
from trt_workbench.vision.sharding import COMMAND, merge_shards, what_decides
from trt_workbench.vision.tasks.registry import Boxes

TARGET = "trt_workbench.vision.shard_worker"


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


def evaluate(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate a shard into its run directory. Raises WorkbenchError."""
    with _opened(asked) as evaluation, run_directory(COMMAND, Path(asked["place"])) as run:
        outcome = evaluation.run(run.path, skipped=frozenset(asked["skipped"]), journal=Path(asked["journal"]))
        run.commit(outcome.status, **outcome.metrics)
    return {}


def attempt(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Detect, to see whether the process survives it. Raises WorkbenchError."""
    with _opened(asked) as evaluation:
        evaluation.find(skipped=frozenset(asked["skipped"]), journal=Path(asked["journal"]))
    return {}


def _opened(asked: Mapping[str, Any]) -> CocoEvaluation:
    request = TypeAdapter(CocoRequest).validate_python({**asked["request"], "shard": asked["shard"]})
    return CocoEvaluation(request, print)
