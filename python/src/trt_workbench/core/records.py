"""Records of a bench run: one JSON line a repetition, written as it happens and read back with care."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, field_validator, model_validator

from trt_workbench.core.counts import grouped
from trt_workbench.core.documents import Strict, read_lines
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import atomic_writer
from trt_workbench.core.interruptible import deferred_interrupts
from trt_workbench.core.statistics.summary import Summary
from trt_workbench.core.verification import Mark

Status = Literal["ok", "failed", "unavailable", "skipped", "wrong"]


class Record(Strict):
    """One repetition of one point.

    Attributes:
        schema_version: of this line.
        key: of the point, the same in every run.
        scenario: name of the scenario.
        kind: of the scenario.
        model: name of the model.
        model_sha256: of the model's file; None if it was never read.
        work: text of the work in tables; records with equal scenario and work are compared.
        batch: items per call.
        dims: values of named dimensions.
        imgsz: height and width of the image, pixels.
        runtime: label of the runtime.
        entry: the label without the settings that are swept; None if the record is older than sweeps.
        swept: value of every setting of the runtime that is swept.
        backend: name of the backend.
        precision: asked of the backend.
        repetition: counted from 0.
        status: "ok", "failed", "unavailable" (the backend cannot serve here), "skipped" (a sweep was saturated) or
            "wrong" (its outputs are not those of the reference).
        error: why it is not "ok".
        error_kind: class of the failure, such as "crash", "timeout" or "DeviceFailure".
        group: the same for records whose runtimes took turns with one another, each in one process.
        unstable: reasons not to trust it.
        window_drift: how far the medians of its windows lie apart, as a share; None for too few samples.
        latency_ms: summary of host-to-host latency: mean, p50, p90, p95, p99, min, max, count.
        p50_interval_ms: ends of an interval for the median, by the noise within the repetition; None in older records.
        slice_p50_ms: median of every slice in the order of the turns.
        split_ms: medians of the parts that the runtime measures separately.
        items_per_s: throughput of one call after another.
        load_s: the first loading, with engine build or compilation where there is one.
        first_run_ms: the first call after it.
        telemetry: clocks, power, energy and memory during the measurement.
        energy_per_item_j: of the whole card.
        outputs: how the outputs compare with those of the reference; None in older records.
        verification: how the TensorRT engine is verified: verdict, `text`, `evidence`, and whether it passed for
            --allow-unverified only (`allowed`); None for other runtimes and in older records.
        provenance: what really executed the model.
        samples: file of the raw samples, relative to the run directory.
    """

    schema_version: Literal[1] = 1
    key: str
    scenario: str
    kind: str
    model: str
    model_sha256: str | None
    work: str
    batch: PositiveInt
    dims: dict[str, int]
    imgsz: tuple[int, int] | None = None
    runtime: str
    entry: str | None = None
    swept: dict[str, Any] = {}
    backend: str
    precision: str
    repetition: NonNegativeInt
    status: Status
    error: str | None = None
    error_kind: str | None = None
    group: str | None = None
    unstable: list[str] = []
    window_drift: float | None = None
    latency_ms: Summary | None = None
    p50_interval_ms: tuple[PositiveFloat, PositiveFloat] | None = None
    slice_p50_ms: list[PositiveFloat] = []
    split_ms: dict[str, float] = {}
    items_per_s: PositiveFloat | None = None
    load_s: float | None = None
    first_run_ms: float | None = None
    telemetry: dict[str, Any] | None = None
    energy_per_item_j: float | None = None
    outputs: dict[str, Any] | None = None
    verification: Mark | None = None
    provenance: dict[str, Any] = {}
    samples: str | None = None

    @model_validator(mode="after")
    def _has_what_was_measured(self) -> Self:
        if self.status == "ok" and self.latency_ms is None:
            raise ValueError("a record that is ok has latency_ms with p50")
        return self

    @field_validator("latency_ms")
    @classmethod
    def _takes_time(cls, latency: Summary | None) -> Summary | None:
        figures = {name: value for name, value in (latency or {}).items() if isinstance(value, int | float)}
        if wrong := [f"{name} {value:g}" for name, value in figures.items() if value <= 0]:
            raise ValueError(f"a latency must be above 0, not {wrong[0]}")
        return latency


def write_samples(path: Path, columns: Mapping[str, NDArray[np.float64]]) -> None:
    """Write one column of samples for each measured part, milliseconds, as a compressed .npz of float32."""
    arrays: dict[str, Any] = {name: values.astype(np.float32) for name, values in columns.items()}
    with atomic_writer(path) as file, deferred_interrupts():
        np.savez_compressed(file, **arrays)


def read_records(path: Path) -> list[Record]:
    """Read every record of a file.

    Raises:
        UsageProblem: the file is absent or empty, a line is cut short or wrong, or of another schema version.
    """
    records: list[Record] = read_lines(path, Record, "remove it to use the others")
    if not records:
        raise UsageProblem(f"The file has no records; the run ended before its first measurement: {path}")
    return records


def records_in(folder: Path) -> list[Record]:
    """Return the records of a run's folder; nothing before the first one."""
    return read_records(folder / "records.jsonl") if (folder / "records.jsonl").is_file() else []


def finished_records(folder: Path) -> list[Record]:
    """Return the records of a run's folder whose process may have been killed while it wrote the last one."""
    path = folder / "records.jsonl"
    return read_lines(path, Record, growing=True) if path.is_file() else []


def by_work(records: Iterable[Record]) -> dict[tuple[str, str, str], list[Record]]:
    """Group records that are compared with one another: by scenario, kind and work, in order of appearance."""
    return grouped(records, lambda record: (record.scenario, record.kind, record.work))
