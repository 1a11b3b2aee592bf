"""What runs in the process that compares the precisions of one shard on one GPU, and what is done on several."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from trt_workbench.core.directory import run_directory
from trt_workbench.core.documents import json_values
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_workers import DONE, TAKEN, open_journal
from trt_workbench.core.spread import Job
from trt_workbench.stream.document import StreamMetrics
from trt_workbench.stream.opening import OpenedStream
from trt_workbench.stream.run import StreamEvaluation
from trt_workbench.stream.settings import StreamSettings
from trt_workbench.stream.sharding import COMMAND, merge_shards, settings_of, what_decides, write_shard

TARGET: Final = "trt_workbench.stream.shard_worker"


def job_of(settings: StreamSettings, target: Path) -> Job:
    """Return what is done on several devices."""
    return Job(
        TARGET,
        {"settings": json_values(settings, str), "target": str(target)},
        COMMAND,
        partial(what_decides, settings, target),
        lambda shards, folder, notes, _: merge_shards(shards, folder, notes=notes),
    )


def evaluate(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the precisions of a shard into its run directory. Raises WorkbenchError."""
    settings, shard = _settings(asked), Shard(**asked["shard"])
    with run_directory(COMMAND, Path(asked["place"])) as run:
        metrics = _compared(asked, run.path)
        write_shard(run.path, settings, Path(asked["target"]), shard, metrics, asked["skipped"])
        run.commit("partial" if asked["skipped"] else "complete", shard=str(shard))
    return {}


def attempt(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Compare, to see whether the process survives it. Raises WorkbenchError."""
    with scratch_folder("trtw-attempt-") as folder:
        _compared(asked, Path(folder))
    return {}


def _settings(asked: Mapping[str, Any]) -> StreamSettings:
    return TypeAdapter(StreamSettings).validate_python(asked["settings"])


def _compared(asked: Mapping[str, Any], folder: Path) -> StreamMetrics | None:
    """Compare the precisions that are asked for, which run side by side; None where there is none."""
    own = settings_of(_settings(asked), Shard(**asked["shard"]), asked["skipped"])
    noted = open_journal(Path(asked["journal"]), len(own.precision))
    if not own.precision:
        return None
    noted[:] = TAKEN
    with OpenedStream(own, print) as opened:
        metrics = StreamEvaluation(opened).run(folder, lambda _done, _total: None)
    noted[:] = DONE
    return metrics
