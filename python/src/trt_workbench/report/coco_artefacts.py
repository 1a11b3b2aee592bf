"""The files of an eval-coco run directory, read back and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trt_workbench.errors import UsageProblem
from trt_workbench.report.documents import read_json, read_json_lines
from trt_workbench.report.style import label
from trt_workbench.runs.artefacts import read_document

# Characters of a class name in a picture.
LONGEST_NAME = 40


@dataclass(frozen=True)
class CocoArtefacts:
    """What an eval-coco run left: the parsed documents, and one record per image."""

    directory: Path
    metrics: dict[str, Any]
    curves: dict[str, Any]
    confusion: dict[str, Any]
    environment: dict[str, Any]
    records: list[dict[str, Any]]

    @property
    def class_names(self) -> dict[int, str]:
        """Names by category id, as a picture can show them."""
        return {row["category_id"]: label(row["name"], LONGEST_NAME) for row in self.metrics["per_class"]}


def read_artefacts(directory: Path) -> CocoArtefacts:
    """Read the run directory of eval-coco.

    Raises:
        UsageProblem: a file is missing, cut short, without a record, or of another schema version.
    """
    records = read_json_lines(directory / "records.jsonl")
    if not records:
        raise UsageProblem(f"There is no record in this file; it was changed: {directory / 'records.jsonl'}")
    return CocoArtefacts(
        directory=directory,
        metrics=read_document(directory / "metrics.json"),
        curves=read_document(directory / "curves.json"),
        confusion=read_document(directory / "confusion.json"),
        environment=read_document(directory / "env.json", "command_line"),
        records=records,
    )


def read_predictions(directory: Path, image_ids: set[int]) -> dict[int, list[dict[str, Any]]]:
    """Return the predictions of some images from `predictions.json`, by image id, best score first."""
    chosen: dict[int, list[dict[str, Any]]] = {image_id: [] for image_id in image_ids}
    for prediction in read_json(directory / "predictions.json"):
        if prediction["image_id"] in chosen:
            chosen[prediction["image_id"]].append(prediction)
    return {image_id: sorted(found, key=lambda item: -item["score"]) for image_id, found in chosen.items()}


def read_ground_truth(annotations: Path, image_ids: set[int]) -> dict[int, list[dict[str, Any]]]:
    """Return the annotations of some images from a COCO annotation file, by image id."""
    chosen: dict[int, list[dict[str, Any]]] = {image_id: [] for image_id in image_ids}
    for annotation in read_json(annotations)["annotations"]:
        if annotation["image_id"] in chosen:
            chosen[annotation["image_id"]].append(annotation)
    return chosen
