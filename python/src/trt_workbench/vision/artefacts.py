"""The files of an eval-coco run directory, read back and checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from trt_workbench.core.artefacts import Environment, read_environment
from trt_workbench.core.documents import read_document, read_lines, read_rows
from trt_workbench.core.errors import UsageProblem
from trt_workbench.report.style import label
from trt_workbench.vision.document import Box, CocoMetrics, ConfusionMatrix, Curves, ImageRecord
from trt_workbench.vision.forms.read import read_form
from trt_workbench.vision.tasks.base import VisionTask
from trt_workbench.vision.tasks.registry import task_in

# Characters of a class name in a picture.
LONGEST_NAME = 40


@dataclass(frozen=True)
class CocoArtefacts:
    """What an eval-coco run left: its documents, and one record per image."""

    directory: Path
    metrics: CocoMetrics
    curves: Curves
    confusion: ConfusionMatrix
    environment: Environment
    records: list[ImageRecord]

    @cached_property
    def task(self) -> VisionTask:
        """What the model finds. Raises UsageProblem where the run does not hold its figures."""
        return task_in(self.metrics)

    @cached_property
    def class_names(self) -> dict[int, str]:
        """Names by category id, as a picture can show them."""
        return {row["category_id"]: label(row["name"], LONGEST_NAME) for row in self.metrics["per_class"]}


def read_artefacts(directory: Path, metrics: CocoMetrics) -> CocoArtefacts:
    """Read the run directory of eval-coco, whose `metrics.json` is read already.

    Raises:
        UsageProblem: a file is missing, cut short, without a record, or of another schema version.
    """
    records = read_lines(directory / "records.jsonl", ImageRecord)
    if not records:
        raise UsageProblem(f"The file has no records; it was modified: {directory / 'records.jsonl'}")
    return CocoArtefacts(
        directory=directory,
        metrics=metrics,
        curves=read_document(directory / "curves.json", Curves),
        confusion=read_document(directory / "confusion.json", ConfusionMatrix),
        environment=read_environment(directory),
        records=records,
    )


def predictions_of(directory: Path, image_ids: set[int]) -> dict[int, list[Box]]:
    """Return the predictions of some images from `predictions.json`, by image id, best score first."""
    rows = (row for block in read_rows(directory / "predictions.json", Box) for row in block)
    chosen = _of_images(rows, image_ids)
    return {image_id: sorted(found, key=lambda item: -item.get("score", 0.0)) for image_id, found in chosen.items()}


def read_ground_truth(run: CocoArtefacts, image_ids: set[int]) -> dict[int, list[Box]]:
    """Return the annotations of some images of a run's data set, by image id.

    Raises:
        UsageProblem: the data set is gone or was changed.
    """
    used, exif = run.metrics["dataset"], run.metrics["settings"].get("exif", "ignore")
    annotations = Path(used["annotations"])
    form = read_form(Path(used["images"]), annotations, used.get("split"), exif, run.task.keys)
    try:
        chosen = [row for row in form.document["annotations"] if row["image_id"] in image_ids]
        return _of_images(TypeAdapter(list[Box]).validate_python(chosen), image_ids)
    except (KeyError, TypeError, ValidationError) as error:
        raise UsageProblem(f"The annotations were changed since the evaluation: {annotations}") from error


def _of_images(boxes: Iterable[Box], image_ids: set[int]) -> dict[int, list[Box]]:
    chosen: dict[int, list[Box]] = {image_id: [] for image_id in image_ids}
    for box in boxes:
        if box["image_id"] in chosen:
            chosen[box["image_id"]].append(box)
    return chosen
