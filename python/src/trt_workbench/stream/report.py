"""The report of an eval-stream run, made only from the files of its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import read_lines, reader
from trt_workbench.report.page import small
from trt_workbench.report.style import plots_folder
from trt_workbench.report.verdict import Headline
from trt_workbench.stream.document import ChunkRecord, Faults, StreamMetrics
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
        "metrics": metrics,
        "matrix": fault_matrix(metrics.faults) if metrics.faults else None,
        "plots": plots,
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


def fault_matrix(faults: Faults) -> dict[str, Any]:
    """Return gates as columns and faults as rows; a cell is what the gate found."""
    gates = list(dict.fromkeys(gate.gate for gate in faults.healthy.gates))
    rows = [{"fault": "none", "text": "the same stream without a fault", "lane": faults.healthy, "verdict": None}]
    rows += [
        {
            "fault": one.fault,
            "text": one.reason or one.text,
            "lane": one.lane,
            "verdict": "missed" if one.fault in faults.missed else "caught" if one.lane else None,
        }
        for one in faults.planted
    ]
    for row in rows:
        found: dict[str, Any] = {}
        for gate in row["lane"].gates if row["lane"] else ():  # type: ignore[attr-defined]
            if gate.gate not in found or gate.verdict == "failed":
                found[gate.gate] = gate
        row["cells"] = [found.get(gate) for gate in gates]
    return {"gates": gates, "rows": rows}
