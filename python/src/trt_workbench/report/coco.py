"""The report of an eval-coco run, made from the files of its run directory alone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from trt_workbench.engine.files import write_text
from trt_workbench.report.coco_artefacts import CocoArtefacts, read_artefacts
from trt_workbench.report.coco_gallery import build_gallery
from trt_workbench.report.coco_plots import STAGES, write_plots
from trt_workbench.report.page import image_url, render
from trt_workbench.report.style import plots_folder
from trt_workbench.report.verified import evidence_from
from trt_workbench.runs.statistics import MINIMUM_SAMPLES
from trt_workbench.verify.unverified import let_through

# pycocotools' twelve figures in its order, with what each one means.
FIGURES = (
    ("AP", "average precision, mean over IoU 0.50 to 0.95"),
    ("AP50", "average precision at IoU 0.50"),
    ("AP75", "average precision at IoU 0.75"),
    ("AP_small", "AP of objects below 32² pixels"),
    ("AP_medium", "AP of objects from 32² to 96² pixels"),
    ("AP_large", "AP of objects above 96² pixels"),
    ("AR_1", "average recall with 1 detection an image"),
    ("AR_10", "average recall with 10 detections an image"),
    ("AR_100", "average recall with 100 detections an image"),
    ("AR_small", "AR_100 of objects below 32² pixels"),
    ("AR_medium", "AR_100 of objects from 32² to 96² pixels"),
    ("AR_large", "AR_100 of objects above 96² pixels"),
)
_LATENCY_COLUMNS = ("mean", "p50", "p90", "p95", "p99", "min", "max")


def write_report(directory: Path) -> Path:
    """Write `report.html` and `plots/` into an eval-coco run directory. It can be called again at any time.

    Args:
        directory: holds metrics.json, curves.json, confusion.json, records.jsonl, predictions.json and env.json.

    Returns:
        The path of report.html, one file that needs no other.

    Raises:
        UsageProblem: a file is missing, cut short or of another schema version.
    """
    run = read_artefacts(directory)
    folder = plots_folder(directory)
    plots = write_plots(run, folder)
    gallery = build_gallery(run, folder / "gallery")
    page = render(
        "coco.html.j2",
        metrics=run.metrics,
        summary=summarise(run),
        evidence=evidence_from(directory),
        figures=FIGURES,
        latency=_latency_table(run),
        latency_columns=_LATENCY_COLUMNS,
        minimum_samples=MINIMUM_SAMPLES,
        plots={name: image_url(path) for name, path in plots.items()},
        gallery=gallery,
        environment=run.environment,
        environment_json=json.dumps(run.environment, indent=2),
        command=shlex.join(run.environment["command_line"]),
    )
    write_text(directory / "report.html", page)
    return directory / "report.html"


def summarise(run: CocoArtefacts) -> list[str]:
    """Say in sentences what the figures say."""
    metrics = run.metrics
    allowed = let_through([metrics.get("verification")])
    model = Path(metrics["model"]["path"]).name
    if metrics["AP"] is None:
        nothing = "without any annotation, so there is no AP to give"
        return [*allowed, f"{model} ran on {metrics['images']} images {nothing}."]
    sentences = [
        *allowed,
        f"{model} on {metrics['backend']} reaches AP {metrics['AP']:.4f} (AP50 {metrics['AP50']:.4f}) "
        f"on {metrics['images']} images, evaluated at {metrics['images_per_s']:.1f} images/s.",
    ]
    if ran := metrics.get("precision_ran"):
        asked = metrics["settings"]["precision"]
        sentences.append(f"It computes in {ran['text']}, read from the {ran['source']}; {asked} was asked for.")
    rated = sorted((row for row in metrics["per_class"] if row["AP"] is not None), key=lambda row: row["AP"])
    if len(rated) > 1:
        low, high = rated[0], rated[-1]
        sentences.append(
            f"Best class: {high['name']} (AP {high['AP']:.3f}); weakest: {low['name']} (AP {low['AP']:.3f})."
        )
    sizes = {size: metrics[f"AP_{size}"] for size in ("small", "medium", "large") if metrics[f"AP_{size}"] is not None}
    if sizes:
        weakest = min(sizes, key=lambda size: sizes[size])
        sentences.append(f"By size, {weakest} objects are the hardest (AP {sizes[weakest]:.3f}).")
    means = {stage: metrics["latency_ms"][stage]["mean"] for stage in STAGES}
    slowest = max(means, key=lambda stage: means[stage])
    share = means[slowest] / sum(means.values())
    sentences.append(f"Of the time spent per image, {slowest} takes {share:.0%} ({means[slowest]:.2f} ms on average).")
    return sentences


def _latency_table(run: CocoArtefacts) -> list[dict[str, Any]]:
    stages = (*STAGES, "total")
    return [{"stage": stage, **run.metrics["latency_ms"][stage]} for stage in stages]
