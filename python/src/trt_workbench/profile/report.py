"""The report of a profile, made only from the files of its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.core.artefacts import read_environment, read_run
from trt_workbench.profile.difference import LayerGroup, difference
from trt_workbench.profile.document import ProfileRun, read_records
from trt_workbench.profile.ncu_raw import METRICS
from trt_workbench.profile.strip import strips
from trt_workbench.profile.view import SideView, faster_side, precision_of, role_rows, side_views, summary, totals
from trt_workbench.report.conditions import measuring_conditions
from trt_workbench.report.verdict import Headline

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


def answer(directory: Path) -> Headline:
    """Return what the page of a run says first; arguments and errors as of `view`."""
    _, sides, groups = _read(directory)
    return _answer(sides, groups)


def _answer(sides: list[SideView], groups: list[LayerGroup]) -> Headline:
    faster = faster_side(*(side.facts for side in sides)) if len(sides) > 1 else None
    return Headline(summary(sides, groups)[:1], {"target": "faster", "against": "slower"}[faster] if faster else None)


def _read(directory: Path) -> tuple[ProfileRun, list[SideView], list[LayerGroup]]:
    run = read_run(directory, "profile", ProfileRun)
    sides = side_views(run.sides, read_records(directory / "records.jsonl"))
    return run, sides, difference(sides[0].operations, sides[1].operations) if len(sides) > 1 else []


def view(directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows.

    Args:
        directory: holds run.json, env.json and records.jsonl.

    Raises:
        UsageProblem: a file is missing, cut short or of another schema version.
    """
    run, sides, groups = _read(directory)
    return {
        **_answer(sides, groups)._asdict(),
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
