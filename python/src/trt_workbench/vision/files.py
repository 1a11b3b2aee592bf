"""The files of an eval-coco run; docs/reference/run-directory.md describes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trt_workbench.core.documents import append_lines, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.statistics.summary import summarize
from trt_workbench.vision.confusion import Confusion
from trt_workbench.vision.dataset import CocoDataset
from trt_workbench.vision.detections import join_predictions, write_predictions
from trt_workbench.vision.document import STAGES
from trt_workbench.vision.error_kinds import KINDS
from trt_workbench.vision.judged import Judged
from trt_workbench.vision.loop import LoopResult

if TYPE_CHECKING:
    from trt_workbench.vision.scoring import Found


def write_run(
    folder: Path,
    dataset: CocoDataset,
    found: Found,
    judged: Judged,
    confusion: Confusion,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Write `predictions.json`, `records.jsonl`, `curves.json`, `confusion.json` and `metrics.json`.

    Args:
        folder: an existing folder.
        dataset: cut down to the images that were done.
        found: on these images.
        judged: the scores of the detections.
        confusion: of the images that were done.
        facts: what was asked and chosen.

    Returns:
        The content of `metrics.json`.

    Raises:
        UsageProblem: a file cannot be written.
    """
    result, detections = found.result, found.detections
    metrics = _metrics(dataset, result, len(detections), judged, facts)
    if (facts["precision_ran"] or {}).get("simulated"):  # times are not those of the format
        metrics |= {"images_per_s": None, "latency_ms": None}
    try:
        if found.texts:
            join_predictions(folder / "predictions.json", found.texts)
        else:
            write_predictions(folder / "predictions.json", detections)
        append_lines(folder / "records.jsonl", _records(dataset, result, confusion))
        write_json(folder / "curves.json", {"schema_version": 1, **judged.curves()})
        write_json(folder / "confusion.json", {"schema_version": 1, **confusion.document()})
        write_json(folder / "metrics.json", metrics)
    except OSError as error:
        raise UsageProblem(
            f"The run's files cannot be written ({error.strerror}); fix that or pass --output: {folder}"
        ) from error
    return metrics


def _metrics(
    dataset: CocoDataset,
    result: LoopResult,
    detections: int,
    judged: Judged,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    stages = result.stage_ms[result.done]
    latency = {stage: summarize(stages[:, column].tolist()) for column, stage in enumerate(STAGES)}
    latency["total"] = summarize(stages.sum(axis=1).tolist())
    return {
        "schema_version": 1,
        **facts,
        **judged.document(),
        "images": len(dataset.images),
        "images_requested": len(result.done),
        "images_per_s": len(dataset.images) / result.wall_s,
        "wall_s": result.wall_s,
        "latency_ms": latency,
        "detections": detections,
        "per_class": judged.per_class(),
        "dataset": {
            "images": str(dataset.folder.absolute()),
            "annotations": str(dataset.annotations.absolute()),
            "annotations_sha256": dataset.sha256,
            "missing": list(dataset.missing),
            **({"split": dataset.split} if dataset.split else {}),
        },
    }


def _records(dataset: CocoDataset, result: LoopResult, confusion: Confusion) -> Iterator[dict[str, Any]]:
    counts = ("detections", "ground_truths", "true_positives", "false_positives", "false_negatives")
    for place, (image, row) in enumerate(zip(dataset.images, np.flatnonzero(result.done), strict=True)):
        stages = result.stage_ms[row].tolist()
        yield {
            "schema_version": 1,
            "image_id": image.id,
            "file_name": image.file_name,
            "width": int(result.sizes[row, 1]),
            "height": int(result.sizes[row, 0]),
            **{f"{stage}_ms": value for stage, value in zip(STAGES, stages, strict=True)},
            "total_ms": float(sum(stages)),
            **dict(zip(counts, confusion.counts[place].tolist(), strict=True)),
            "errors": dict(zip(KINDS, confusion.errors[place].tolist(), strict=True)),
        }
