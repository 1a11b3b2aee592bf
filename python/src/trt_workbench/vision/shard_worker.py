"""What runs in the process that evaluates one shard on one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trt_workbench.core.directory import run_directory
from trt_workbench.vision.run import CocoEvaluation, CocoRequest
from trt_workbench.vision.sharding import COMMAND

TARGET = "trt_workbench.vision.shard_worker"


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
