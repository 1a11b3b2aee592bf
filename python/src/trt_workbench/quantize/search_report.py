"""The report of a search for the groups to leave alone, made only from the files of its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import reader
from trt_workbench.core.percent import share
from trt_workbench.model.low_precision.evidence import SearchEvidence
from trt_workbench.quantize.document import SearchDocument
from trt_workbench.quantize.sensitivity_report import draw_groups
from trt_workbench.report.hover import say_point
from trt_workbench.report.style import ACCENT, PALETTE, figure, legend_below, plots_folder
from trt_workbench.report.verdict import Headline

_NAMED = 4  # groups in a sentence


read = reader("search.json", SearchDocument)


def answer(found: SearchDocument) -> Headline:
    """Return what the page of a run says first."""
    return Headline(_said(found), found.reach.word("kept", "lost"))


def view(found: SearchDocument, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides, and draw its `plots/`."""
    return {
        "found": found,
        "evidence": found.evidence,
        "name": Path(found.sensitivity.model).name,
        "pictures": draw_search(found, plots_folder(directory)),
    }


def _said(found: SearchDocument) -> list[str]:
    """Say what was taken and what it costs."""
    evidence, to = found.evidence, found.sensitivity.to
    bound = f"the bound of {evidence.bound:g} on {evidence.figure}"
    if (chosen := evidence.chosen) is None:
        return [f"No {to} model meets {bound}."]
    if not chosen.kept:
        return [f"The model with every group in {to} meets {bound}: the loss is {chosen.loss:.4f}."]
    left = found.order[: chosen.kept]
    return [
        f"The model with {share(chosen.low_macs, 1)} of the arithmetic in {to} meets {bound}: with {chosen.kept} of "
        f"{len(found.order)} groups kept in fp32 the loss is {chosen.loss:.4f}.",
        f"Kept in fp32: {', '.join(left[:_NAMED])}{f' and {len(left) - _NAMED} more' if len(left) > _NAMED else ''}.",
    ]


def draw_search(found: SearchDocument, folder: Path, prefix: str = "") -> dict[str, Path]:
    """Draw what a search found: score against share in the format, and which groups make the noise."""
    return {
        "curve": draw_curve(found.evidence, found.sensitivity.to, folder / f"{prefix}curve.svg"),
        "groups": draw_groups(found.sensitivity, folder / f"{prefix}groups.svg"),
    }


def draw_curve(evidence: SearchEvidence, to: str, path: Path) -> Path:
    """Draw the score against the share of the arithmetic in the format, with the bound and the candidate taken."""
    points = sorted(evidence.curve, key=lambda point: point.low_macs)
    shares = [100 * point.low_macs for point in points]
    with figure(path) as axes:
        axes.plot(shares, [point.value for point in points], color=ACCENT, linewidth=1, linestyle=":", zorder=2)
        for point in points:
            if point.loss_ci95:
                ends = [max(_after(evidence, end), 0.0) for end in point.loss_ci95]
                axes.plot([100 * point.low_macs] * 2, ends, color=ACCENT, alpha=0.35, linewidth=2, zorder=1)
        axes.scatter(shares, [point.value for point in points], 22, color=ACCENT, zorder=3)
        for point in points:
            words = f"{counted(point.kept, 'group')} kept in fp32, {share(point.low_macs, 1)} of the arithmetic in {to}"
            say_point(
                axes,
                100 * point.low_macs,
                point.value,
                f"{words}: {evidence.figure} {point.value:.4f}, loss {point.loss:.4f}",
            )
        if chosen := evidence.chosen:
            place = (100 * chosen.low_macs, chosen.value)
            axes.scatter(*place, 110, facecolors="none", edgecolors=PALETTE[3], linewidths=1.6, label="taken", zorder=4)
        axes.axhline(evidence.baseline, color=PALETTE[7], linewidth=1, label="float model")
        bound = _after(evidence, evidence.bound)
        axes.axhline(bound, color=PALETTE[2], linewidth=1, linestyle="--", label="the bound")
        axes.set(
            title=f"{evidence.figure} on {evidence.samples} held-out {evidence.unit}",
            xlabel=f"share of the arithmetic in {to}, % (axis not from zero)",
            ylabel=evidence.figure,
        )
        legend_below(axes)
    return path


def _after(evidence: SearchEvidence, loss: float) -> float:
    """Return the score for a given loss."""
    return evidence.baseline * (1 + loss) if evidence.is_error else evidence.baseline - loss
