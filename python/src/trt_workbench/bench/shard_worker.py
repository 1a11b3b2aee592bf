"""What runs in the process that measures one shard on one GPU, and what is done on several."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from trt_workbench.bench.bench_run import PreparedBench, plan_bench
from trt_workbench.bench.config import BenchConfig
from trt_workbench.bench.sharding import COMMAND, merge_shards, what_decides
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_workers import DONE, open_journal
from trt_workbench.core.spread import Job
from trt_workbench.verify import BenchGate

TARGET: Final = "trt_workbench.bench.shard_worker"


def job_of(planned: PreparedBench, only: Sequence[str], *, allow_unverified: bool, skip_unavailable: bool) -> Job:
    """Return what is done on several devices."""
    asked = {"config": planned.config.model_dump(mode="json"), "only": [*only], "allow_unverified": allow_unverified}
    return Job(
        TARGET,
        {**asked, "skip_unavailable": skip_unavailable},
        COMMAND,
        partial(what_decides, planned.config, planned.points),
        lambda shards, folder, notes, _: merge_shards(shards, folder, notes=notes),
    )


def evaluate(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a shard into its run directory; a point that ends its process is a record. Raises WorkbenchError."""
    planned = plan_bench(BenchConfig.model_validate(asked["config"]), asked["only"])
    noted = None

    def progress(done: int, total: int, _doing: str) -> None:
        nonlocal noted
        noted = open_journal(Path(asked["journal"]), total) if noted is None else noted
        noted[:done] = DONE

    dataclasses.replace(planned, shard=Shard(**asked["shard"])).run(
        Path(asked["place"]),
        skip_unavailable=asked["skip_unavailable"],
        progress=progress,
        gate=BenchGate(asked["allow_unverified"]),
    )
    return {}
