"""The pictures of a detector at its threshold: figures by threshold, and the reliability of its scores."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from trt_workbench.core.counts import counted
from trt_workbench.report.hover import listed, say_columns, say_rows
from trt_workbench.report.style import ACCENT, INK, PALETTE, figure, legend_below
from trt_workbench.vision.document import ByThreshold, Curves, Reliability
from trt_workbench.vision.error_kinds import KINDS

_NAMES = {"f1": "F1", "precision": "precision", "recall": "recall"}


def write_operating_plots(
    curves: Curves, errors: Mapping[str, int] | None, threshold: float, folder: Path
) -> dict[str, Path]:
    """Draw them and return their paths by name; none of a run of an earlier release."""
    if not (by_threshold := curves.get("by_threshold")) or not (bins := curves.get("reliability")):
        return {}
    paths = {name: folder / f"{name}.svg" for name in ("by_threshold", "reliability")}
    if errors:
        paths["errors"] = folder / "errors.svg"
        _errors(errors, threshold, paths["errors"])
    _by_threshold(by_threshold, threshold, paths["by_threshold"])
    _reliability(bins, paths["reliability"])
    return paths


def _by_threshold(curves: ByThreshold, threshold: float, path: Path) -> None:
    drawn = {"f1": curves["f1"], "precision": curves["precision"], "recall": curves["recall"]}
    with figure(path) as axes:
        for colour, (name, values) in zip(PALETTE, drawn.items(), strict=False):
            known = [float("nan") if one is None else one for one in values]
            width = 2.0 if name == "f1" else 1.2
            axes.plot(curves["threshold"], known, color=colour, linewidth=width, label=_NAMES[name])
        axes.axvline(threshold, color=INK, linestyle="--", linewidth=1, label=f"shipped: {threshold:g}")
        say_columns(
            axes,
            {
                at: listed(
                    f"threshold {at:.2f}", {_NAMES[name]: _said(values[place]) for name, values in drawn.items()}
                )
                for place, at in enumerate(curves["threshold"])
            },
        )
        axes.set(xlabel="score threshold", xlim=(0, 1), ylim=(0, 1.02))
        axes.set_title("F1, precision and recall by threshold, IoU 0.50")
        legend_below(axes)


def _reliability(bins: Reliability, path: Path) -> None:
    rows = zip(pairwise(bins["edges"]), bins["detections"], bins["score"], bins["precision"], strict=True)
    known = [(*ends, count, score or 0.0, right or 0.0) for ends, count, score, right in rows if count]
    with figure(path) as axes:
        lows, highs, _, scores, rights = zip(*known, strict=True) if known else ((),) * 5
        widths = [high - low for low, high in zip(lows, highs, strict=True)]
        axes.bar(lows, rights, widths, align="edge", color="#d6e4f2", edgecolor="#ffffff")
        axes.plot([0, 1], [0, 1], color=INK, linestyle="--", linewidth=1, label="calibrated")
        axes.plot(scores, rights, "o-", color=ACCENT, linewidth=1.2, markersize=4, label="detections")
        say_columns(
            axes,
            {
                (low + high)
                / 2: f"score {low:.3f} to {high:.3f}: {counted(count, 'detection')}, mean score {score:.3f}, "
                f"right {right:.3f}"
                for low, high, count, score, right in known
            },
        )
        axes.set(xlabel="score", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
        axes.set_title("Reliability of the scores")
        legend_below(axes)


def _errors(errors: Mapping[str, int], threshold: float, path: Path) -> None:
    names = list(errors)[::-1]
    with figure(path, height=3.0) as axes:
        drawn = axes.barh(names, [errors[name] for name in names], color=ACCENT)
        axes.bar_label(drawn, padding=3, fontsize=8)
        say_rows(axes, {place: f"{name}: {errors[name]}, {KINDS[name]}" for place, name in enumerate(names)})
        axes.set(xlabel="detections; of missed: objects")
        axes.set_title(f"Errors by kind, from score {threshold:g} on")
        axes.grid(visible=False, axis="y")


def _said(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
