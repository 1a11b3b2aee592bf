"""The plots of an eval-coco report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trt_workbench.core.counts import counted
from trt_workbench.report.hover import listed, say_columns, say_rows
from trt_workbench.report.style import ACCENT, INK, PALETTE, figure, label, legend_below
from trt_workbench.vision.artefacts import LONGEST_NAME, CocoArtefacts
from trt_workbench.vision.document import LEAST_ANNOTATIONS, ByThreshold, Reliability
from trt_workbench.vision.error_kinds import KINDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NAMES = {"f1": "F1", "precision": "precision", "recall": "recall"}
# Above this many classes, single curves and cell numbers are no longer distinguishable.
READABLE_CLASSES = 12
# Rows of a confusion matrix that leave room for the names and numbers.
_MATRIX_CLASSES = 20
# Bars of classes at each end, where there are more than twice as many.
_END_BARS = 10


def write_plots(run: CocoArtefacts, threshold: float, folder: Path) -> dict[str, Path]:
    """Write every plot, SVG except the matrix, and return their paths by name.

    Args:
        run: that is drawn; one of an earlier release has fewer of them.
        threshold: score that the model is shipped with.
        folder: for the files.
    """
    plots: dict[str, Callable[[CocoArtefacts, Path], None]] = {
        "figures": _figures,
        **({"precision_recall": _precision_recall} if run.curves["recall"] else {}),
        "per_class_ap": _per_class_ap,
        "confusion_matrix": _confusion_matrix,
    }
    if (by_threshold := run.curves.get("by_threshold")) and (bins := run.curves.get("reliability")):
        plots |= {
            "by_threshold": lambda _, path: _by_threshold(by_threshold, threshold, path),
            "reliability": lambda _, path: _reliability(bins, path),
        }
        if errors := run.confusion.get("errors"):
            plots["errors"] = lambda _, path: _errors(errors, threshold, path)
    paths = {name: folder / f"{name}.{'png' if name == 'confusion_matrix' else 'svg'}" for name in plots}
    for name, draw in plots.items():
        draw(run, paths[name])
    return paths


def _figures(run: CocoArtefacts, path: Path) -> None:
    """Draw the figures of the rules as dots, each with its interval."""
    metrics = cast("dict[str, Any]", run.metrics)
    known = [name for name in run.task.figures if metrics[name] is not None]
    with figure(path, height=1.0 + 0.22 * len(known)) as axes:
        words = {}
        for place, name in enumerate(known):
            ends = metrics.get(f"{name}_ci95")
            if ends:
                axes.plot(ends, [place, place], color=ACCENT, linewidth=2.5, alpha=0.5, solid_capstyle="round")
            axes.scatter([metrics[name]], [place], 30, color=ACCENT, zorder=3)
            words[place] = f"{name}: {metrics[name]:.4f}" + (f" ({ends[0]:.4f} to {ends[1]:.4f})" if ends else "")
        say_rows(axes, words)
        axes.set_yticks(range(len(known)), known)
        axes.set(xlim=(-0.02, 1.02), ylim=(len(known) - 0.4, -0.6))
        axes.set_title(f"{run.task.rules} metrics; lines are 95 % intervals")
        axes.grid(visible=False, axis="y")


def _precision_recall(run: CocoArtefacts, path: Path) -> None:
    recall = run.curves["recall"]
    with figure(path, height=5.0) as axes:
        said: dict[str, Sequence[float]] = {}
        classes = [(row["name"], row["precision_50"]) for row in run.curves["classes"] if row["precision_50"]]
        few = len(classes) <= READABLE_CLASSES
        for index, (own, precision) in enumerate(classes):
            colour = PALETTE[index % len(PALETTE)] if few else "#c3cad3"
            name = label(own, LONGEST_NAME) if few else None
            dashes = "--" if few and index >= len(PALETTE) else "-"
            axes.plot(recall, precision, dashes, color=colour, linewidth=0.9, label=name)
            if name:
                said[name] = precision
        for threshold, style in (("0.50", "-"), ("0.75", "--"), ("0.50:0.95", ":")):
            # without any annotation there is no curve
            if mean := run.curves["mean"].get(threshold):
                axes.plot(recall, mean, style, color=INK, linewidth=2, label=f"all classes, IoU {threshold}")
                said[f"all classes, IoU {threshold}"] = mean
        say_columns(
            axes,
            {
                at: listed(f"recall {at:.2f}: precision", {name: f"{curve[place]:.3f}" for name, curve in said.items()})
                for place, at in enumerate(recall)
            },
        )
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        axes.set_title(f"Precision against recall, {run.task.measures[-1].words} (classes: IoU 0.50)")
        legend_below(axes)


def _per_class_ap(run: CocoArtefacts, path: Path) -> None:
    name, second = run.task.shown
    known = [row for row in cast("list[dict[str, Any]]", run.metrics["per_class"]) if row[name] is not None]
    known.sort(key=lambda row: row[name])
    which = ""
    if len(known) > 2 * _END_BARS:  # of those where one object cannot change AP by tenths, if there are any
        known = [row for row in known if row["ground_truths"] >= LEAST_ANNOTATIONS] or known
        which = f": the best and the weakest {_END_BARS} of {len(known)}" if len(known) > 2 * _END_BARS else ""
        known = known[:_END_BARS] + known[max(_END_BARS, len(known) - _END_BARS) :]
    positions = range(len(known))
    with figure(path, height=max(2.5, 1.2 + 0.2 * len(known))) as axes:
        if any(row[second] is not None for row in known):
            axes.barh(positions, [row[second] or 0.0 for row in known], color="#d6e4f2", label=second)
        axes.barh(positions, [row[name] for row in known], height=0.5, color=ACCENT, label=name)
        names = [label(row["name"], LONGEST_NAME) for row in known]
        axes.set_yticks(
            positions, [f"{one} ({row['ground_truths']})" for one, row in zip(names, known, strict=True)], fontsize=8
        )
        say_rows(
            axes,
            {
                place: (
                    f"{one}: {name} {row[name]:.3f}, {second} {row[second] or 0.0:.3f}, "
                    f"{counted(row['ground_truths'], 'annotation')}"
                )
                for place, (one, row) in enumerate(zip(names, known, strict=True))
            },
        )
        axes.set(xlim=(0, 1), ylim=(-0.6, len(known) - 0.4), xlabel=run.task.figures[name])
        axes.set_title(f"{name} by class (annotations in brackets){which}")
        axes.grid(visible=False, axis="y")
        legend_below(axes)


def _confusion_matrix(run: CocoArtefacts, path: Path) -> None:
    import numpy as np

    names, counts = most_confused(run.confusion["labels"], np.asarray(run.confusion["matrix"], dtype=float))
    rule = "score ≥ {score_threshold}, IoU ≥ {iou_threshold}".format(**run.confusion)
    if run.task.of_images:  # none is of the background
        names, counts, rule = names[:-1], counts[:-1, :-1], "best class of each image"
    labels = [label(name, LONGEST_NAME) for name in names]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    few = len(labels) <= READABLE_CLASSES + 1
    # small cells of many classes: the text is readable where two pictures are side by side
    size = 2.6 + 0.45 * len(labels) if few else 1.5 + 0.21 * len(labels)
    with figure(path, width=size + (0.8 if few else 0), height=size + (0 if few else 0.5)) as axes:
        image = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
        fontsize = 8 if few else 6
        axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=fontsize)
        axes.set_yticks(range(len(labels)), labels, fontsize=fontsize)
        for row, column in np.argwhere(counts > 0):
            colour = "white" if share[row, column] > 0.5 else INK
            text = f"{int(counts[row, column])}"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=fontsize)
        axes.set(xlabel="predicted", ylabel="ground truth")
        left_out = len(run.confusion["labels"]) - len(labels) - run.task.of_images
        which = f": the {_MATRIX_CLASSES} most confused classes" if left_out else ""
        axes.set_title(f"Confusion matrix{which}\n({rule})")
        axes.grid(visible=False)
        axes.figure.colorbar(image, ax=axes, location="bottom", shrink=0.5, aspect=40, label="share of the row")


def most_confused(labels: Sequence[str], counts: NDArray[np.float64]) -> tuple[list[str], NDArray[np.float64]]:
    """Return a confusion matrix small enough to be read.

    Args:
        labels: of the classes, the background last.
        counts: float64 [labels, labels], rows are ground truth.

    Returns:
        The same where there are few; else the classes that are taken for one another most, in their order, then the
        others as one, then the background.
    """
    import numpy as np

    classes = len(labels) - 1
    if classes <= _MATRIX_CLASSES:
        return list(labels), counts
    mixed = counts[:classes, :classes] * (1 - np.eye(classes))
    # of classes that are never mixed up those with the most objects
    weight = mixed.sum(axis=0) + mixed.sum(axis=1) + counts[:classes].sum(axis=1) / (1 + counts.sum())
    kept = np.sort(np.argsort(-weight, kind="stable")[:_MATRIX_CLASSES])
    place = np.full(len(labels), _MATRIX_CLASSES)
    place[kept], place[classes] = np.arange(_MATRIX_CLASSES), _MATRIX_CLASSES + 1
    reduced = np.zeros((_MATRIX_CLASSES + 2, _MATRIX_CLASSES + 2))
    np.add.at(reduced, (place[:, None], place[None, :]), counts)
    return [*(labels[one] for one in kept), f"{classes - _MATRIX_CLASSES} others", labels[classes]], reduced


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
                    f"threshold {at:.2f}",
                    {
                        _NAMES[name]: "-" if (value := values[place]) is None else f"{value:.3f}"
                        for name, values in drawn.items()
                    },
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
        axes.bar_label(axes.barh(names, [errors[name] for name in names], color=ACCENT), padding=3, fontsize=8)
        say_rows(axes, {place: f"{name}: {errors[name]}, {KINDS[name]}" for place, name in enumerate(names)})
        axes.set(xlabel="detections; of missed: objects")
        axes.set_title(f"Errors by kind, from score {threshold:g} on")
        axes.grid(visible=False, axis="y")
