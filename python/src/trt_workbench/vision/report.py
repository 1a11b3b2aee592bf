"""The report of an eval-coco run, made only from the files of its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import reader
from trt_workbench.core.percent import share
from trt_workbench.core.statistics.summary import DRAWN, too_few
from trt_workbench.report.style import plots_folder
from trt_workbench.report.tables import Column, Table
from trt_workbench.report.verdict import Headline
from trt_workbench.verify import let_through
from trt_workbench.vision.artefacts import CocoArtefacts, read_artefacts
from trt_workbench.vision.document import (
    LEAST_ANNOTATIONS,
    OPERATING,
    STAGES,
    TIMES,
    CocoMetrics,
    figures_of,
)
from trt_workbench.vision.error_kinds import KINDS
from trt_workbench.vision.gallery import build_faults, build_gallery
from trt_workbench.vision.operating import in_words
from trt_workbench.vision.plots import write_plots
from trt_workbench.vision.tasks.registry import task_in

_CARDS = 3  # figures of a measure on top of the page
_MOST_CLASSES = 1000  # in the table
_PERCENTILES = ("p50", "p90", "p95", "p99")


read = reader("metrics.json", CocoMetrics)


def answer(metrics: CocoMetrics) -> Headline:
    """Only what says less than a whole evaluation of a verified engine has a verdict: no bound is asked for."""
    mark = metrics.get("verification")
    part = "partial" if metrics["status"] == "partial" else None
    return Headline(summarise(metrics), mark["verdict"] if mark and mark["allowed"] else part)


def view(metrics: CocoMetrics, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides, and draw its `plots/`."""
    run = read_artefacts(directory, metrics)
    folder, few = plots_folder(directory), ""
    threshold = run.metrics["settings"].get("threshold", run.confusion["score_threshold"])
    plots = write_plots(run, threshold, folder)
    gallery, faults = build_gallery(run, folder / "gallery"), build_faults(run, folder / "gallery")
    if latency := run.metrics["latency_ms"]:
        few = too_few(latency["total"], _PERCENTILES, "images")
    return {
        "metrics": run.metrics,
        "figures": figures_of(run.metrics, run.task.figures),
        "of": run.task.measures[-1].words,
        "operating": figures_of(run.metrics, OPERATING if "f1" in run.metrics else {}),
        "operating_of": run.task.measures[0].words,
        "threshold": threshold,
        "kinds": KINDS,
        "rules": run.task.rules,
        "decided_by": run.task.decided_by,
        "classes": _classes(run),
        "probe": _probe(run),
        "cards": [f"{one.prefix}{name}" for one in run.task.measures[::-1] for name in [*one.figures][:_CARDS]],
        "drawn": DRAWN.format(unit="images"),
        "latency": Table(TIMES, [(stage, latency[stage]) for stage in (*STAGES, "total")] if latency else ()),
        "few": few,
        "plots": plots,
        "gallery": gallery,
        "faults": faults,
        "counts": Table((Column("annotations", "0.fault"), Column("count", "0.count")), faults),
    }


def summarise(metrics: CocoMetrics) -> list[str]:
    """Say in sentences what the figures say."""
    allowed = let_through([metrics.get("verification")])
    model = Path(metrics["model"]["path"]).name
    task, figures = task_in(metrics), cast("dict[str, Any]", metrics)
    name, second = task.shown
    if figures[name] is None:
        nothing = f"without annotations, so there is no {name}"
        return [*allowed, f"{model} ran on {counted(metrics['images'], 'image')} {nothing}."]
    others = "".join(
        f", {one.words}: {one.main[0]} {figures[one.prefix + one.main[0]]:.4f}" for one in task.measures[:-1]
    )
    more = "" if figures[second] is None else f" ({second} {figures[second]:.4f}{others})"
    sentences = [
        *allowed,
        f"{model} on {metrics['backend']} reaches {name} {figures[name]:.4f}{more} on "
        f"{counted(metrics['images'], 'image')}{_speed(metrics)}.",
        *(
            [f"Left out: {len(lost)} of {counted(len(lost) + metrics['images'], 'image')}, which --data does not have."]
            if (lost := metrics["dataset"].get("missing"))
            else []
        ),
    ]
    if shards := figures.get("shards"):
        sentences.append(shards["text"])
    if ends := figures.get(f"{name}_ci95"):
        main = task.measures[-1].main[0]
        sentences.append(
            f"95 % confidence interval of {main}: {ends[0]:.4f} to {ends[1]:.4f} (bootstrap over "
            f"{counted(metrics['images'], 'image')})."
        )
    if at := in_words(metrics):
        sentences.append(at)
    if ran := metrics.get("precision_ran"):
        asked = metrics["settings"]["precision"]
        sentences.append(f"It computes in {ran['text']}, read from the {ran['source']}; {asked} was requested.")
    classes = cast("list[dict[str, Any]]", metrics["per_class"])
    known = [row for row in classes if row[name] is not None]
    rated = sorted((row[name], row["name"]) for row in known if row["ground_truths"] >= LEAST_ANNOTATIONS)
    few = f", of the {len(rated)} with {LEAST_ANNOTATIONS} or more annotations" if len(rated) < len(known) else ""
    if len(rated) > 1:
        (low, weakest), (high, best) = rated[0], rated[-1]
        sentences.append(f"Best class: {best} ({name} {high:.3f}); weakest: {weakest} ({name} {low:.3f}){few}.")
    sizes = {size: figures.get(f"{name}_{size}") for size in ("small", "medium", "large")}
    if measured := sorted((value, size) for size, value in sizes.items() if value is not None):
        sentences.append(f"By size, {measured[0][1]} objects are the hardest ({name} {measured[0][0]:.3f}).")
    if not (latency := metrics["latency_ms"]):
        return [*sentences, "It was not timed: the time of a simulation says nothing about the format."]
    means = {stage: latency[stage]["mean"] for stage in STAGES}
    slowest = max(means, key=lambda stage: means[stage])
    part = means[slowest] / sum(means.values())
    sentences.append(f"Of the time per image, {slowest} takes {share(part)} ({means[slowest]:.2f} ms on average).")
    return sentences


def _classes(run: CocoArtefacts) -> Table:
    """Return the classes: of very many the weakest."""
    rows, name = cast("list[dict[str, Any]]", run.metrics["per_class"]), run.task.decided_by
    weakest = sorted(rows, key=lambda row: (row[name] is None, row[name] or 0.0))[:_MOST_CLASSES]
    columns = [
        column
        for one in run.task.measures
        for main, second in [[f"{one.prefix}{name}" for name in one.main]]
        for column in (Column(main, main, 4), Column("95 % interval", f"{main}_ci95", 4), Column(second, second, 4))
    ]
    if "f1" in run.metrics:
        columns += [Column("F1", "f1", 3), Column("precision", "precision", 3), Column("recall", "recall", 3)]
        columns.append(Column("best F1 at", "best_f1_threshold", 3))
    columns += [Column("annotations", "ground_truths", 0), Column("detections", "detections", 0)]
    few = f"The weakest {len(weakest)} of {len(rows)} classes; metrics.json has all."
    cut = len(weakest) < len(rows)
    return Table([Column("class", "name"), *columns], weakest if cut else rows, notes=[few] * cut)


def _probe(run: CocoArtefacts) -> Table:
    """Return how preparing the images in other ways scores."""
    probe, main = run.metrics.get("probe"), run.task.measures[0]
    name = f"{main.prefix}{main.main[0]}"
    columns = [
        *(Column(one.replace("_", " "), one) for one in (probe or {"chosen": ()})["chosen"]),
        Column(name, name, 4),
        Column("behind the best, 95 % interval", lambda way: way["behind_ci95"] or way["reason"] or None, 4),
    ]
    images = counted(len(probe["images"]), "image") if probe else ""
    note = f"On {images} that are not scored. The first row was taken, as it is clear of all others."
    title = "How images are prepared: what was tried"
    return Table(columns, probe["ways"] if probe else (), title, [note])


def _speed(metrics: CocoMetrics) -> str:
    speed = metrics["images_per_s"]
    return "" if speed is None else f", evaluated at {speed:.1f} images/s"
