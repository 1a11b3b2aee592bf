"""The report of a search for the groups to leave alone, made only from the files of its run directory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from trt_workbench.core.counts import some
from trt_workbench.core.documents import reader
from trt_workbench.core.percent import share
from trt_workbench.core.statistics.bootstrap import LEAST_UNITS
from trt_workbench.model.low_precision.evidence import SearchEvidence
from trt_workbench.quantize.document import SearchDocument
from trt_workbench.quantize.sensitivity_report import draw_groups
from trt_workbench.report.style import plots_folder
from trt_workbench.report.tables import Column, Table
from trt_workbench.report.verdict import Headline

_NAMED = 4  # groups in a sentence


read = reader("search.json", SearchDocument)


def answer(found: SearchDocument) -> Headline:
    """Return what the page of a run says first."""
    return Headline(_said(found), found.reach.word("kept", "lost"))


def view(found: SearchDocument, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides, and draw its `plots/`."""
    return {
        "evidence": found.evidence,
        "name": Path(found.sensitivity.model).name,
        "named": _NAMED,
        "least": LEAST_UNITS,
        "points": points(found.evidence),
        "picture": draw_groups(found.sensitivity, plots_folder(directory) / "groups.svg"),
    }


def points(evidence: SearchEvidence) -> Table:
    """Return what was scored, fewest unchanged groups first."""
    said = ((evidence.chosen, " (taken)"), (evidence.began, " (as quantize makes it)"))
    columns = (
        Column("groups kept in fp32", lambda one: f"{one.kept}{''.join(text for point, text in said if point == one)}"),
        Column("arithmetic in the format", "low_macs", form=partial(share, digits=1)),
        Column(evidence.figure, "value", 4),
        Column("loss", "loss", 4, better="lower"),
        Column("95 %", "loss_ci95", 4),
        Column("loss on the other half", "seen_loss", 4, better="lower"),
    )
    return Table(columns, evidence.curve)


def _said(found: SearchDocument) -> list[str]:
    """Say what was taken and what it costs."""
    if (chosen := found.evidence.chosen) is None:
        bound = f"the bound of {found.evidence.bound:g} on {found.evidence.figure}"
        return [f"No {found.sensitivity.to} model is shown to meet {bound}."]
    left = found.order[: chosen.kept]
    return [f"{found.words}.", *([f"Kept in fp32: {some(left, _NAMED)}."] if left else [])]
