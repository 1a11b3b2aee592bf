"""What a model is scored by: AP of a detector, likeness of any other, a function; a plug-in adds the WER of words.

One protocol for decisions, searches and groups alone; `worker.py` does what a task asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS, Preparation
from trt_workbench.backends.registry import REFERENCE
from trt_workbench.engine.calibration import hash_data
from trt_workbench.model.opened import Model
from trt_workbench.quantize import worker
from trt_workbench.quantize.data import Half, Sample, calibration_data, data_hash
from trt_workbench.quantize.figures import COSINE
from trt_workbench.quantize.scores import ANNOTATED, ResampledScore
from trt_workbench.quantize.settings import AP, ArrayMetric, CalibrationSettings, Metric
from trt_workbench.vision import SCORE_THRESHOLD, at_threshold, calibration_images, read_dataset, threshold_in

TRANSCRIPTION = "transcription"
SCORED_SAMPLES = 64
"""Of texts and arrays, where --limit says no number."""


class Task(Protocol):
    """What is scored, and on what: of a decision, of a search, and of groups alone."""

    @property
    def name(self) -> str:
        """Of the task, such as "detection"."""

    @property
    def keep(self) -> tuple[str, ...]:
        """Names of the scores that are to be kept, the one that is shown everywhere first, such as "AP"."""

    @property
    def figure(self) -> str:
        """Name of the score."""
        return self.keep[0]

    @property
    def published(self) -> tuple[str, ...]:
        """Names of its scores that other evaluations of the same model give, too."""
        return self.keep

    @property
    def metric(self) -> Metric:
        """What `--score` asks for."""

    @property
    def data(self) -> str:
        """Where the samples are."""

    @property
    def overlap(self) -> bool:
        """Whether ranges are found on the samples that are scored."""

    @property
    def asks(self) -> dict[str, Any]:
        """What `quantize/worker.py` is asked for: its verb and the data."""

    def request(
        self,
        model: Path,
        folder: Path,
        baseline: Path | None,
        backend: str,
        options: SessionOptions,
        batch: int = 1,
        *,
        allow_unverified: bool = False,
    ) -> dict[str, Any]:
        """Return what the worker is asked for to score a model.

        Args:
            model: the file.
            folder: an empty one.
            baseline: folder of the baseline's score; None of the baseline itself.
            backend: that executes it.
            options: of its session.
            batch: samples of a call.
            allow_unverified: whether engines that are wrong or not verified may run.
        """
        return {
            "model": str(model),
            "folder": str(folder),
            "baseline": None if baseline is None else str(baseline),
            "backend": backend,
            "precision": options.precision,
            "options": options.extra,
            "shapes": options.shapes and str(options.shapes),
            "batch": batch,
            "allow_unverified": allow_unverified,
            **self.asks,
        }

    def score(self, model: Path, folder: Path, baseline: Path | None, seed: int) -> ResampledScore:
        """Score a model here, on ONNX Runtime's CPU provider, in a folder that is made.

        Raises:
            UsageProblem: the samples do not fit the model, or a function as score fails.
            CheckFailed: an output is NaN or infinite.
        """
        folder.mkdir()
        self.run(self.request(model, folder, baseline, REFERENCE, SessionOptions()))
        return self.scores(folder, seed)

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do in this process what `request` says, and return what executed the model. Raises as `score`."""
        answer: dict[str, Any] = getattr(worker, request["verb"])(request)
        return answer

    def scores(self, folder: Path, seed: int) -> ResampledScore:
        """Return the score that the worker has written. Raises UsageProblem."""
        return self.metric.read(folder, seed, self.published)

    def samples_of(self, model: Model) -> Iterator[Sample]:
        """Yield some of what is scored, as a model takes it. Raises UsageProblem."""

    @property
    def contract(self) -> Path | None:
        """Of a streaming model: a timed call is then a chunk of streams."""
        return None

    def sizes(self) -> dict[str, Any]:
        """Return what a timed call is besides its batch: fields of the bench's `ScenarioEntry`."""


@dataclass(frozen=True)
class Detection(Task):
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
        shown: scores at the threshold that are shown besides.
        limit: most images; None for all.
        threads: CPU cores of a session; None for all.
        seed: of the evaluation.
    """

    images: Path
    annotations: Path
    preparation: Preparation = AS_THE_MODEL_SAYS
    overlap: bool = False
    classes: str | None = None
    name: str = "detection"
    decided_by: str = AP
    keep: tuple[str, ...] = (AP,)
    metric: Metric = ANNOTATED
    split: str | None = None
    shown: tuple[str, ...] = ("f1", "ece")
    limit: int | None = None
    threads: int | None = None
    seed: int = 0

    @classmethod
    def kept(cls, names: Sequence[str], decided_by: str) -> dict[str, Any]:
        """Return the fields that say what is kept."""
        return {"decided_by": decided_by, "keep": tuple(decided_by if name == AP else name for name in names)}

    @property
    def threshold(self) -> float:
        """Score that the model is shipped with."""
        return next((at for name in self.keep if (at := threshold_in(name)) is not None), SCORE_THRESHOLD)

    @property
    def published(self) -> tuple[str, ...]:
        """Names of all scores that are compared, those to be kept first."""
        shown = (at_threshold(name, self.threshold) for name in self.shown)
        return tuple(dict.fromkeys((*self.keep, self.decided_by, *shown)))

    @property
    def data(self) -> str:
        """Where the samples are."""
        return str(self.annotations)

    @property
    def asks(self) -> dict[str, Any]:
        """What the worker is asked for."""
        return {
            "verb": "coco",
            "images": str(self.images),
            "annotations": str(self.annotations),
            "settings": {
                **vars(self.preparation),
                "split": self.split,
                "classes": self.classes,
                "limit": self.limit,
                "allow_missing": True,
                "threshold": self.threshold,
                "threads": self.threads,
                "seed": self.seed,
            },
        }

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
class Likeness(Task):
    """How like the baseline's the outputs are, of any model on arrays or tokens, or what a function makes of them.

    Attributes:
        model: whose samples they are.
        samples: .npy or .npz files or a text, as calibration takes them.
        metric: what is counted.
        overlap: whether ranges are found on the samples that are scored.
        annotations: targets of a function, where they lie apart from the samples.
        half: of the samples; None for all.
    """

    model: Model
    samples: CalibrationSettings
    metric: ArrayMetric = COSINE
    overlap: bool = False
    annotations: Path | None = None
    half: Half | None = None
    name: str = "likeness"

    @classmethod
    def checked(
        cls,
        model: Model,
        samples: CalibrationSettings,
        metric: ArrayMetric,
        annotations: Path | None = None,
        half: Half | None = None,
    ) -> Likeness:
        """Return what is scored; what does not fit is refused before anything is made for many minutes.

        Args:
            model: whose samples they are.
            samples: which ones.
            metric: the score.
            annotations: targets of a function.
            half: of the samples.

        Raises:
            UsageProblem: the samples fit neither the score nor the model.
        """
        found = calibration_data(model, samples, half)
        next(iter(found.read()))
        ready = metric.ready(model, found)
        if ready.takes_targets:
            found.targets(annotations)
        return cls(model, samples, ready, annotations=annotations, half=half)

    @property
    def keep(self) -> tuple[str, ...]:
        """That one alone."""
        return (self.metric.name,)

    @property
    def published(self) -> tuple[str, ...]:
        """None where the outputs are compared with those of the baseline."""
        return () if self.metric.elsewhere else self.keep

    @property
    def data(self) -> str:
        """Where the samples are."""
        return str(self.samples.calibration)

    @property
    def asks(self) -> dict[str, Any]:
        """What the worker is asked for."""
        return {
            "verb": "arrays",
            "source": str(self.model.path),
            "data": asdict(self.samples),
            "half": self.half,
            "score": asdict(self.metric),
            "annotations": self.annotations and str(self.annotations),
            # what a later run compares
            "sha256": [data_hash(self.model.path, self.samples), self.annotations and hash_data(self.annotations)],
        }

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
