"""The report of an eval-stream run, made only from the files of its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import read_lines, reader
from trt_workbench.report.style import plots_folder
from trt_workbench.report.tables import Table, small
from trt_workbench.report.verdict import Headline
from trt_workbench.stream.document import (
    LANES,
    TENSORS,
    TIMES,
    ChunkRecord,
    StreamMetrics,
    fault_matrix,
    levels,
)
from trt_workbench.stream.plots import write_plots

read = reader("metrics.json", StreamMetrics)


def answer(metrics: StreamMetrics) -> Headline:
    """Return what the page of a run says first."""
    part = "partial" if metrics.status == "partial" and metrics.passed else metrics.reach.word()
    return Headline(_said(metrics), part)


def view(metrics: StreamMetrics, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides, and draw its `plots/`."""
    records = read_lines(directory / "records.jsonl", ChunkRecord)
    plots = write_plots(metrics, records, plots_folder(directory))
    return {
        "plots": plots,
        "lanes": Table(LANES, metrics.lanes),
        "matrix": fault_matrix(metrics.faults) if metrics.faults else None,
        "times": Table(TIMES, [lane for lane in metrics.lanes if lane.latency_ms]),
        "streams": [(paced, levels(paced) if paced.levels else None) for paced in metrics.streams],
        "tensors": [Table(TENSORS, lane.tensors.items(), f"Tensors: {lane.name}") for lane in metrics.lanes],
    }


def _said(metrics: StreamMetrics) -> list[str]:
    """Say whether the gates hold, then how far each lane is from the reference, and from its limit."""
    chunks = counted(metrics.chunks, "chunk")
    sides = f"{metrics.backend} compared with {metrics.reference['name']}, {chunks}, gates: {metrics.gate_set}"
    sentences = []
    for lane in metrics.lanes:
        limit = next((gate.limit for gate in lane.gates if gate.gate == "rel_l2_max"), None)
        allowed = "" if limit is None else f"; the limit is {small(limit)}"
        sentences.append(f"{lane.name}: relative L2 at most {small(lane.rel_l2_max)}{allowed}.")
    return [f"{metrics.reach.word().capitalize()}: {sides}.", *sentences]
