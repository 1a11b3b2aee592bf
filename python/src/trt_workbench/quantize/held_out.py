"""Scores on a half of the calibration data: AP with annotations, WER of utterances, else likeness to floats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from trt_workbench.backends.preparation import Exif, Preparation
from trt_workbench.backends.registry import REFERENCE
from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.low_precision.kinds import RANDOM
from trt_workbench.model.opened import Model
from trt_workbench.quantize.data import (
    HALVES,
    CalibrationData,
    Half,
    calibration_data,
    drawn_utterances,
    spoken_in,
)
from trt_workbench.quantize.figures import FIGURE_NAMES, Figure, array_scores, score_samples
from trt_workbench.quantize.scores import ResampledScore, coco_scores
from trt_workbench.quantize.settings import CalibrationSettings, ScoreSettings
from trt_workbench.quantize.words import transcribe, word_scores
from trt_workbench.stream import RATES, Speech
from trt_workbench.vision import (
    CALIBRATION_SPLIT,
    TASK_KEYS,
    CocoDataset,
    CocoEvaluation,
    CocoRequest,
    family_of,
    image_files,
    read_dataset,
    read_form,
    task_of,
)

RANGES, HELD_OUT = HALVES
"""The halves of the calibration data: ranges are found on one, and candidates scored on the other."""


class Scorer(Protocol):
    """Scores models on one half."""

    @property
    def figure(self) -> str:
        """Name of the score, such as "AP"."""

    @property
    def unit(self) -> str:
        """What a sample is, in the plural."""

    def score(self, model: Path, folder: Path, baseline: Path | None) -> ResampledScore:
        """Score a model on ONNX Runtime's CPU provider.

        Args:
            model: the file.
            folder: an empty one.
            baseline: that of the float model's score; None of the float model itself.
        """


def scorer_of(
    model: Model, calibration: CalibrationSettings, settings: ScoreSettings, folder: Path, half: Half = HELD_OUT
) -> Scorer:
    """Return what scores candidates of a model.

    Args:
        model: the float model.
        calibration: the data.
        settings: how they are scored.
        folder: where the annotations of the half are written.
        half: that is scored.

    Raises:
        UsageProblem: there is no such score, or the data do not fit it.
    """
    if calibration.calibration == RANDOM:
        raise UsageProblem("Noise gives no score; pass data with --calibration.")
    if spoken := spoken_in(model.path, calibration):
        if settings.annotations is not None or settings.score not in (None, "wer"):
            raise UsageProblem("Utterances are scored by their words, --score wer.")
        drawn = replace(calibration, samples=settings.score_samples)
        return _Words(spoken.speech(drawn_utterances(spoken, drawn, half)), calibration.seed)
    if settings.score == "wer":
        raise UsageProblem("--score wer needs a streaming model, --contract, and a manifest of utterances.")
    data = calibration_data(model, replace(calibration, samples=settings.score_samples), half)
    if settings.annotations is not None:
        if settings.score is not None:
            raise UsageProblem("With --annotations the score is AP; remove --score.")
        listed = labels_of(settings, calibration)
        annotations = _of_half(listed, calibration.exif, data, folder / f"half-{half}.json")
        task = task_of(family_of(model, calibration).task)
        return _Detection(listed.folder, annotations, calibration, task.decided_by)
    if image_files(Path(calibration.calibration or "")) and settings.score is None:
        raise UsageProblem(
            "Images of a detector need --annotations for AP; --score cosine compares outputs with the float model's."
        )
    return _Likeness(data, settings.score or "cosine", calibration.seed)


@dataclass(frozen=True)
class _Detection:
    """A detector's AP, or what else models of its task are compared by."""

    images: Path
    annotations: Path
    calibration: CalibrationSettings
    figure: str
    unit: str = "images"

    def score(self, model: Path, folder: Path, baseline: Path | None) -> ResampledScore:  # noqa: ARG002 - AP needs none
        """Score by eval-coco's evaluation."""
        settings = self.calibration
        request = CocoRequest(
            model=model,
            images=self.images,
            annotations=self.annotations,
            backend=REFERENCE,
            **vars(Preparation.of(settings)),
            classes=settings.classes,
            threads=settings.threads,
            seed=settings.seed,
        )
        with CocoEvaluation(request) as evaluation:
            evaluation.run(folder)
        return coco_scores(folder, settings.seed)


@dataclass(frozen=True)
class _Likeness:
    """How like the float model's the outputs are."""

    data: CalibrationData
    kind: Figure
    seed: int
    unit: str = "samples"

    @property
    def figure(self) -> str:
        return FIGURE_NAMES[self.kind]

    def score(self, model: Path, folder: Path, baseline: Path | None) -> ResampledScore:
        score_samples(model, self.data, folder, baseline, backend=REFERENCE)
        return array_scores(folder, self.kind, self.seed)


@dataclass(frozen=True)
class _Words:
    """Errors in the words of utterances."""

    speech: Speech
    seed: int
    figure: str = RATES[0]
    unit: str = "utterances"

    def score(self, model: Path, folder: Path, baseline: Path | None) -> ResampledScore:  # noqa: ARG002 - texts are known
        """Transcribe."""
        transcribe(self.speech, model, folder, REFERENCE)
        return word_scores(folder, self.seed)


def labels_of(settings: ScoreSettings, calibration: CalibrationSettings) -> CocoDataset:
    """Return the calibration images that have annotations.

    Raises:
        UsageProblem: the annotations cannot be used.
    """
    images, annotations = Path(calibration.calibration or ""), settings.annotations
    assert annotations is not None  # as the score is AP
    if not images.is_dir():
        raise UsageProblem(f"With --annotations, --calibration must be the folder of their images: {images}")
    split = settings.split or CALIBRATION_SPLIT
    return read_dataset(images, annotations, split=split, exif=calibration.exif, allow_missing=True)


def _of_half(listed: CocoDataset, exif: Exif, data: CalibrationData, path: Path) -> Path:
    """Write the annotations of the images of one half into `path`, which is returned."""
    names = {Path(name).resolve() for name in data.names}
    ids = {image.id for image in listed.images if listed.path(image).resolve() in names}
    if not ids:
        raise UsageProblem(f"The annotations list none of the calibration images: {listed.annotations}")
    document = read_form(listed.folder, listed.annotations, listed.split, exif, TASK_KEYS).document
    images = [one for one in document["images"] if one["id"] in ids]
    rows = [one for one in document["annotations"] if one["image_id"] in ids]
    marked = {"of_images": True} if listed.of_images else {}
    write_json(path, {**document, **marked, "images": images, "annotations": rows})
    return path
