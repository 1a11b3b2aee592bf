"""The files of an eval-coco run directory, read back and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trt_workbench.bench.artefacts import read_json_object
from trt_workbench.errors import UsageProblem

SCHEMA_VERSION = 1


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
        """Names by category id."""
        return {row["category_id"]: row["name"] for row in self.metrics["per_class"]}


def read_artefacts(directory: Path) -> CocoArtefacts:
    """Read the run directory of eval-coco.

    Raises:
        UsageProblem: a file is missing, cut short, or of another schema version.
    """
    lines = _read(directory / "records.jsonl").splitlines()
    records = [_parse(line, directory / "records.jsonl") for line in lines]
    return CocoArtefacts(
        directory=directory,
        metrics=_document(directory / "metrics.json"),
        curves=_document(directory / "curves.json"),
        confusion=_document(directory / "confusion.json"),
        environment=_document(directory / "env.json"),
        records=records,
    )


def read_predictions(directory: Path, image_ids: set[int]) -> dict[int, list[dict[str, Any]]]:
    """Return the predictions of some images from `predictions.json`, by image id, best score first."""
    path = directory / "predictions.json"
    chosen: dict[int, list[dict[str, Any]]] = {image_id: [] for image_id in image_ids}
    for prediction in _parse(_read(path), path):
        if prediction["image_id"] in chosen:
            chosen[prediction["image_id"]].append(prediction)
    return {image_id: sorted(found, key=lambda item: -item["score"]) for image_id, found in chosen.items()}


def read_ground_truth(annotations: Path, image_ids: set[int]) -> dict[int, list[dict[str, Any]]]:
    """Return the annotations of some images from a COCO annotation file, by image id."""
    chosen: dict[int, list[dict[str, Any]]] = {image_id: [] for image_id in image_ids}
    for annotation in _parse(_read(annotations), annotations)["annotations"]:
        if annotation["image_id"] in chosen:
            chosen[annotation["image_id"]].append(annotation)
    return chosen


def _document(path: Path) -> dict[str, Any]:
    document = read_json_object(path)
    found = document.get("schema_version")
    if found != SCHEMA_VERSION:
        msg = f"Schema version {found} is not {SCHEMA_VERSION}, which this release reads: {path}"
        raise UsageProblem(msg)
    return document


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        msg = f"The run directory is incomplete, a file is missing: {path}"
        raise UsageProblem(msg) from error


def _parse(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        msg = f"Not valid JSON ({error}); the file is cut short or was changed: {path}"
        raise UsageProblem(msg) from error
