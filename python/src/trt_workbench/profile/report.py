"""The report of a profile, made only from the files of its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.core.artefacts import read_environment
from trt_workbench.profile.ncu_raw import METRICS
from trt_workbench.profile.strip import strips
from trt_workbench.profile.view import (
    ProfileFiles,
    SideView,
    faster_side,
    precision_of,
    read,
    role_rows,
    summary,
    totals,
)
from trt_workbench.report.conditions import measuring_conditions
from trt_workbench.report.verdict import Headline

__all__ = ["answer", "read", "view"]

# Columns of Nsight Compute's metrics: heading, factor from the metric's base unit, digits.
METRIC_COLUMNS: dict[str, tuple[str, float, int]] = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("SM, % of peak", 1.0, 1),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("memory, % of peak", 1.0, 1),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("DRAM, % of peak", 1.0, 1),
    "dram__bytes_read.sum": ("DRAM read, MiB", 2.0**-20, 2),
    "dram__bytes_write.sum": ("DRAM written, MiB", 2.0**-20, 2),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("warps active, %", 1.0, 1),
    "launch__registers_per_thread": ("registers per thread", 1.0, 0),
}


def answer(found: ProfileFiles) -> Headline:
    """Return what the page of a run says first."""
    sides = found.sides
    faster = faster_side(*(side.facts for side in sides)) if len(sides) > 1 else None
    doubts = [f"Times of {one.title} are unreliable: {why}." for one in sides for why in one.facts.get("unstable", ())]
    return Headline(
        [*summary(sides, found.groups)[:1], *doubts],
        {"target": "faster", "against": "slower"}[faster] if faster else None,
    )


def view(found: ProfileFiles, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    run, sides, groups = found
    return {
        "title": " against ".join(side.title for side in sides),
        "run": run,
        "sides": sides,
        "groups": groups,
        "notes": list(dict.fromkeys(note for side in sides for note in side.facts.get("notes", []))),
        "roles": role_rows(sides),
        "strips": strips(sides),
        "totals": totals(sides),
        "types": precision_of,
        "summary": summary(sides, groups),
        "columns": _columns(sides),
        "conditions": measuring_conditions(read_environment(directory)),
    }


def _columns(sides: list[SideView]) -> dict[str, tuple[str, float, int]]:
    """Return the metrics that any kernel has."""
    seen = {name for side in sides for kernel in side.kernels for name in kernel.metrics}
    return {name: METRIC_COLUMNS[name] for name in METRICS if name in seen and name in METRIC_COLUMNS}
