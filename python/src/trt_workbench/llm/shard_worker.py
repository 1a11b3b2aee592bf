"""What runs in the process that evaluates one shard of a text on one GPU, and what is done on several."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from trt_workbench.core.artefacts import Status
from trt_workbench.core.directory import run_directory
from trt_workbench.core.documents import json_values
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.spread import Job
from trt_workbench.llm.run import LlmEvaluation, LlmRequest
from trt_workbench.llm.sharding import COMMAND, merge_shards, what_decides
from trt_workbench.quantize import language_candidates

TARGET: Final = "trt_workbench.llm.shard_worker"


def job_of(request: LlmRequest) -> Job:
    """Return what is done on several devices."""
    return Job(
        TARGET,
        {"request": json_values(dataclasses.replace(request, candidate=None), str)},
        COMMAND,
        partial(what_decides, request),
        lambda shards, folder, notes, _: merge_shards(shards, folder, notes=notes),
    )


def evaluate(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate a shard into its run directory. Raises WorkbenchError."""
    with run_directory(COMMAND, Path(asked["place"])) as run:
        run.commit(_evaluated(asked, run.path))
    return {}


def attempt(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Score windows, to see whether the process survives it. Raises WorkbenchError."""
    with scratch_folder("trtw-attempt-") as folder:
        _evaluated(asked, Path(folder))
    return {}


def _evaluated(asked: Mapping[str, Any], folder: Path) -> Status:
    request = TypeAdapter(LlmRequest).validate_python({**asked["request"], "shard": asked["shard"]})
    candidate = language_candidates(request.model, request.calibration, print)
    with LlmEvaluation(dataclasses.replace(request, candidate=candidate), print) as evaluation:
        return evaluation.run(folder, skipped=frozenset(asked["skipped"]), journal=Path(asked["journal"])).status
