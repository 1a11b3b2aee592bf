"""What a model is scored by: AP of a detector, WER of a streaming encoder, agreement or likeness of any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS, Preparation
from trt_workbench.decide.settings import AP, DecideSettings
from trt_workbench.decide.tried import DraftRow
from trt_workbench.model.opened import Model
from trt_workbench.quantize import (
    FIGURE_NAMES,
    CalibrationSettings,
    Figure,
    ResampledScore,
    Sample,
    array_scores,
    calibration_data,
    coco_scores,
    word_scores,
)
from trt_workbench.stream import RATES, Spoken
from trt_workbench.vision import SCORE_THRESHOLD, at_threshold, calibration_images, read_dataset, threshold_in

TRANSCRIPTION = "transcription"
SCORED_SAMPLES = 64
"""Of texts and arrays, where --limit says no number."""


class Task(Protocol):
    """What is scored, and on what."""

    @property
    def name(self) -> str:
        """Of the task, such as "detection"."""

    @property
    def figure(self) -> str:
        """Name of the score, such as "AP"."""

    @property
    def keep(self) -> tuple[str, ...]:
        """Names of the scores that are to be kept, that one first."""

    @property
    def unit(self) -> str:
        """What is resampled, in the plural, such as "images"."""

    @property
    def data(self) -> str:
        """Where the samples are."""

    @property
    def overlap(self) -> bool:
        """Whether ranges are found on the samples that are scored."""

    def request(
        self, one: DraftRow, asked: SessionOptions, settings: DecideSettings, baseline: Path | None
    ) -> dict[str, Any]:
        """Return what the worker is asked for to score a row.

        Args:
            one: the row.
            asked: of its session.
            settings: what was requested.
            baseline: folder of the baseline's score; None of the baseline itself.
        """

    def scores(self, one: DraftRow, seed: int) -> ResampledScore:
        """Return the score that the worker has written. Raises UsageProblem."""

    def samples_of(self, model: Model) -> Iterator[Sample]:
        """Yield some of what is scored, as a model takes it. Raises UsageProblem."""

    @property
    def contract(self) -> Path | None:
        """Of a streaming model: a timed call is then a chunk of streams."""

    def sizes(self) -> dict[str, Any]:
        """Return what a timed call is besides its batch: fields of the bench's `ScenarioEntry`."""


@dataclass(frozen=True)
class Detection:
    """A detector's AP, or what else models of its task are compared by.

    Attributes:
        images: folder of the images.
        annotations: COCO annotation file.
        preparation: what the user says of the images.
        overlap: whether ranges are found on the images that are scored.
        classes: how classes meet categories; None for the default.
        decided_by: figure of metrics.json that models of the task are compared by.
        keep: names of the scores that are to be kept, the first of which is shown everywhere.
        split: of `data.yaml`.
    """

    images: Path
    annotations: Path
    preparation: Preparation = AS_THE_MODEL_SAYS
    overlap: bool = False
    classes: str | None = None
    name: str = "detection"
    decided_by: str = AP
    keep: tuple[str, ...] = (AP,)
    unit: str = "images"
    split: str | None = None
    contract: Path | None = None

    @classmethod
    def kept(cls, names: Sequence[str], decided_by: str) -> dict[str, Any]:
        """Return the fields that say what is kept."""
        return {"decided_by": decided_by, "keep": tuple(decided_by if name == AP else name for name in names)}

    @property
    def figure(self) -> str:
        """Name of the score."""
        return self.keep[0]

    @property
    def threshold(self) -> float:
        """Score that the model is shipped with."""
        return next((at for name in self.keep if (at := threshold_in(name)) is not None), SCORE_THRESHOLD)

    @property
    def scored(self) -> tuple[str, ...]:
        """Names of all scores that are compared, those to be kept first."""
        shown = (at_threshold(name, self.threshold) for name in ("f1", "ece"))
        return tuple(dict.fromkeys((*self.keep, self.decided_by, *shown)))

    @property
    def data(self) -> str:
        """Where the samples are."""
        return str(self.annotations)

    def request(
        self, one: DraftRow, asked: SessionOptions, settings: DecideSettings, baseline: Path | None
    ) -> dict[str, Any]:
        """Return the request for `quantize/worker.py`."""
        del baseline  # AP needs none
        return {
            "verb": "coco",
            "model": str(one.path),
            "images": str(self.images),
            "annotations": str(self.annotations),
            "folder": str(one.folder),
            "shapes": asked.shapes and str(asked.shapes),
            "settings": {
                "backend": one.backend,
                "precision": asked.precision,
                "options": asked.extra,
                **vars(self.preparation),
                "split": self.split,
                "classes": self.classes,
                "limit": settings.limit,
                "threshold": self.threshold,
                "allow_unverified": settings.allow_unverified,
                "seed": settings.seed,
            },
        }

    def scores(self, one: DraftRow, seed: int) -> ResampledScore:
        """Return the score that the worker has written."""
        assert one.folder is not None  # as it was scored
        return coco_scores(one.folder, seed, self.scored)

    def samples_of(self, model: Model) -> Iterator[Sample]:
        """Yield images of the set, evenly chosen, as inference prepares them."""
        listed = read_dataset(self.images, self.annotations, split=self.split, allow_missing=True)
        prepared = calibration_images(model, listed.folder, self.preparation)
        files = [file for image in listed.images if (file := listed.path(image)).is_file()]
        if prepared is not None:
            for file in files[:: max(1, len(files) // SCORED_SAMPLES)]:
                yield prepared.read(file)

    def sizes(self) -> dict[str, Any]:
        """Return the size of the images that a model of any size takes."""
        return {"kind": "arrays"} | ({"imgsz": self.preparation.imgsz} if self.preparation.imgsz else {})


@dataclass(frozen=True)
class Likeness:
    """How like the baseline's the outputs are, of any model on arrays or tokens.

    Attributes:
        model: whose samples they are.
        samples: .npy or .npz files or a text, as calibration takes them.
        kind: what is counted.
        overlap: whether ranges are found on the samples that are scored.
    """

    model: Model
    samples: CalibrationSettings
    kind: Figure
    overlap: bool = False
    name: str = "likeness"
    unit: str = "samples"
    contract: Path | None = None

    @property
    def figure(self) -> str:
        """Name of the score."""
        return FIGURE_NAMES[self.kind]

    @property
    def keep(self) -> tuple[str, ...]:
        """That one alone."""
        return (self.figure,)

    @property
    def data(self) -> str:
        """Where the samples are."""
        return str(self.samples.calibration)

    def request(
        self, one: DraftRow, asked: SessionOptions, settings: DecideSettings, baseline: Path | None
    ) -> dict[str, Any]:
        """Return the request for `quantize/worker.py`."""
        return {
            "verb": "arrays",
            "model": str(one.path),
            "source": str(self.model.path),
            "folder": str(one.folder),
            "baseline": None if baseline is None else str(baseline),
            "backend": one.backend,
            "precision": asked.precision,
            "options": asked.extra,
            "shapes": asked.shapes and str(asked.shapes),
            "data": asdict(self.samples),
            "batch": settings.batch,
            "allow_unverified": settings.allow_unverified,
        }

    def scores(self, one: DraftRow, seed: int) -> ResampledScore:
        """Return the score that the worker has written."""
        assert one.folder is not None  # as it was scored
        return array_scores(one.folder, self.kind, seed)

    def samples_of(self, model: Model) -> Iterator[Sample]:
        """Yield all samples."""
        return calibration_data(model, self.samples).read()

    def sizes(self) -> dict[str, Any]:
        """Return the dynamic dimensions of a sample."""
        sample = next(iter(calibration_data(self.model, self.samples).read()))
        found = {}
        for tensor in self.model.facts.inputs:
            for axis, dim in enumerate(tensor.shape or ()):
                if axis and not isinstance(dim, int):
                    found[dim or f"{tensor.name}.{axis}"] = sample[tensor.name].shape[axis - 1]
        return {"kind": "arrays", "dims": found}


@dataclass(frozen=True)
class WordsTask:
    """The error rates of a streaming encoder whose frames become words.

    Attributes:
        spoken: the utterances.
        overlap: whether ranges are found on the utterances that are scored.
        keep: names of the rates that are to be kept, the first of which is shown everywhere.
        limit: most utterances.
    """

    spoken: Spoken
    overlap: bool = False
    keep: tuple[str, ...] = RATES[:1]
    limit: int | None = None
    name: str = TRANSCRIPTION
    unit: str = "utterances"

    @property
    def figure(self) -> str:
        """Name of the score."""
        return self.keep[0]

    @property
    def data(self) -> str:
        """Where the samples are."""
        return self.spoken.source

    @property
    def contract(self) -> Path:
        """Of the encoder."""
        return self.spoken.contract_path

    def request(
        self, one: DraftRow, asked: SessionOptions, settings: DecideSettings, baseline: Path | None
    ) -> dict[str, Any]:
        """Return the request for `quantize/worker.py`."""
        del baseline  # errors are counted from the right texts
        return {
            "verb": "words",
            "model": str(one.path),
            "contract": str(self.contract),
            "source": self.spoken.source,
            "sha256": self.spoken.sha256,  # what a later run compares
            "plain_texts": self.spoken.plain_texts,
            "tail_ms": self.spoken.tail_ms,
            "limit": self.limit,
            "folder": str(one.folder),
            "backend": one.backend,
            "precision": asked.precision,
            "options": asked.extra,
            "shapes": asked.shapes and str(asked.shapes),
            "allow_unverified": settings.allow_unverified,
        }

    def scores(self, one: DraftRow, seed: int) -> ResampledScore:
        """Return the score that the worker has written."""
        assert one.folder is not None  # as it was scored
        return word_scores(one.folder, seed, tuple(dict.fromkeys((*self.keep, *RATES))))

    def samples_of(self, model: Model) -> Iterator[Sample]:
        """Yield the signals of some utterances: what calibration feeds of them is compared, not the states."""
        del model
        name, _ = self.spoken.contract.signal
        for one in self.spoken.utterances[: self.limit][:SCORED_SAMPLES]:
            yield from ({name: piece.ravel()} for piece in self.spoken.pieces(one))

    def sizes(self) -> dict[str, Any]:
        """Return that a call is a chunk of streams, whose sizes the contract says."""
        return {"kind": "stream"}
