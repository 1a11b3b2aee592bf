"""How detectors are run and evaluated, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.settings import MORE, AllowUnverified, BackendOptions, Runtime, Seed, ServerUrl, Setting, names

_DATA, _DETECTOR, _SPEED = "Data", "Boxes", "Precision and speed"


SCORE_THRESHOLD = 0.25
"""Score that detectors are shipped with, and that boxes are shown from, unless another is given."""
AT_THRESHOLD: dict[str, Literal["falls", "rises"]] = {
    "f1": "falls",
    "precision": "falls",
    "recall": "falls",
    "ece": "rises",
}
"""Figures of a detector at a score threshold, and what makes each one worse."""
IOU_THRESHOLD = 0.5
"""From which on a box is on an object."""


def at_threshold(figure: str, threshold: float) -> str:
    """Return the name of a figure at a threshold, such as "f1@0.25"."""
    return f"{figure}@{threshold:g}"


def threshold_in(name: str) -> float | None:
    """Return the threshold that the name of a figure holds; None of a figure without one."""
    _, sign, text = name.partition("@")
    return float(text) if sign else None


BY_NAME, BY_ORDER, BY_ID = "by-name", "by-order", "by-id"
CLASSES = Setting(
    "How model classes map to categories: by-name, by-order, by-id, or a text file with the category of each class, "
    "one per line.",
    _DETECTOR,
    kind=str,
    metavar="by-name|by-order|by-id|FILE",
)


@dataclass(frozen=True)
class DataSettings:
    """Where images and their annotations are; None for the embedded data set."""

    data: Annotated[
        Path | None,
        Setting(
            "Data set: data.yaml, or a folder, of images with --annotations; the embedded one by default "
            "(docs/guides/eval-coco.md). With --score also arrays, JSON Lines or a text."
        ),
    ] = None
    annotations: Annotated[
        Path | None, Setting("COCO annotation file of the images of --data, or targets of --score.")
    ] = None
    split: Annotated[str | None, Setting("Split of --data; val by default.", _DATA)] = None


@dataclass(frozen=True)
class DetectorSettings(Preparation):
    """How a detector is run; None where the default is to be chosen."""

    backend: Runtime = "auto"
    conf: Annotated[float, Setting("Score threshold.", min=0.0, max=1.0)] = 0.001
    iou: Annotated[
        float | None, Setting("NMS IoU threshold; the family's own by default.", _DETECTOR, min=0.0, max=1.0)
    ] = None
    max_dets: Annotated[int, Setting("Maximum boxes per image.", _DETECTOR, min=1)] = 300
    precision: Annotated[str, Setting("Precision requested from the backend.", _SPEED)] = "fp32"
    threads: Annotated[int | None, Setting("CPUs that the runtime may use; all by default.", _SPEED, min=1)] = None
    options: BackendOptions = field(default_factory=dict)
    url: ServerUrl = None
    preprocess: Annotated[
        Literal["device", "host"] | None,
        Setting("Where images are letterboxed; on the device by default if the backend supports it.", _SPEED),
    ] = None
    postprocess: Annotated[
        Literal["device", "host"] | None,
        Setting("Where boxes are found in the outputs; on the device by default if it can.", _SPEED),
    ] = None
    allow_unverified: AllowUnverified = False


@dataclass(frozen=True)
class CocoSettings(DetectorSettings):
    """How a dataset is evaluated; None where the default is to be chosen."""

    limit: Annotated[
        int | None,
        Setting(
            "Evaluate at most this many images, lowest ids first; of classes of images some of each; with --score 64 "
            "samples at random by default.",
            _DATA,
            min=1,
        ),
    ] = None
    batch: Annotated[
        int | None,
        Setting(
            "Images per inference; by default the model's fixed batch, else 1 on ort-cpu and 8, or the engine's most, "
            "elsewhere.",
            _SPEED,
            min=1,
        ),
    ] = None
    workers: Annotated[
        int | None, Setting("Threads that read images; by default one per CPU, at most 8.", _SPEED, min=1)
    ] = None
    concurrency: Annotated[
        int | None, Setting("Concurrent inferences; by default one per CPU on ort-cpu, else 1.", _SPEED, min=1)
    ] = None
    classes: Annotated[str | None, CLASSES] = None
    allow_missing: Annotated[bool, Setting("Leave out images that are listed but missing, or refuse them.", MORE)] = (
        True
    )
    threshold: Annotated[
        float,
        Setting(
            "Score that the model is shipped with: F1, precision, recall and calibration are of boxes from it on.",
            _DETECTOR,
            min=0.0,
            max=1.0,
        ),
    ] = SCORE_THRESHOLD
    # Recorded, and used by the report to draw images at random.
    seed: Seed = 0


@dataclass(frozen=True)
class PredictSettings(DetectorSettings):
    """How objects are looked for; None where the default is to be chosen."""

    conf: Annotated[float, Setting("Score threshold of the boxes shown.", min=0.0, max=1.0)] = SCORE_THRESHOLD
    classes: Annotated[
        tuple[str, ...], Setting("Classes to keep, by name or index, such as person,2.", kind=str, read=names)
    ] = ()
    limit: Annotated[int | None, Setting("Process at most this many images and frames.", min=1)] = None
