"""Records as a bench run leaves them."""

from pathlib import Path
from typing import Any

from trt_workbench.core.artefacts import BenchArtefacts, BenchSettings, Environment, RunDocument
from trt_workbench.core.records import Record


def record(
    runtime: str = "ort-cpu", repetition: int = 0, p50: float | None = 1.0, work: str = "m b1", **changes: Any
) -> Record:
    """Make a record of a workload of arrays; without `p50` one of a failure."""
    names = ("mean", "p50", "p90", "p95", "p99", "min", "max")
    values = {
        "key": f"{work} {runtime}", "scenario": "arrays", "kind": "arrays", "model": "m", "model_sha256": "0" * 64,
        "work": work, "batch": 1, "dims": {}, "runtime": runtime, "backend": "ort-cpu", "precision": "fp32",
        "repetition": repetition, "status": "failed" if p50 is None else "ok",
        "latency_ms": p50 and {**dict.fromkeys(names, p50), "count": 1000}, "items_per_s": p50 and 1000 / p50,
    }  # fmt: skip
    return Record(**{**values, **changes})


def repetitions(runtime: str, p50: float, work: str = "m b1", **changes: Any) -> list[Record]:
    """Make nine records that differ a little."""
    return [record(runtime, number, p50 * (1 + number / 1000), work, **changes) for number in range(9)]


def run_of(records: list[Record]) -> BenchArtefacts:
    """Return what is read of a run directory with these records."""
    run = RunDocument(command="bench", run_id="r", started_at="2026-11-23T07:35:49+00:00", status="complete")
    return BenchArtefacts(Path(), run, Environment(command_line=[]), BenchSettings(title="t", repetitions=9), records)
