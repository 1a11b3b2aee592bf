"""eval-coco: check what was asked, run the detector over the dataset, score it, write the run's files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Backend, Session, SessionOptions
from trt_workbench.backends.images import ImageTransform
from trt_workbench.backends.registry import AUTO, require_backend
from trt_workbench.engine.hashing import hash_model
from trt_workbench.engine.verification import Shapes
from trt_workbench.errors import UsageProblem
from trt_workbench.evaluate.class_map import map_classes
from trt_workbench.evaluate.coco_dataset import NAMES_SHOWN, read_dataset
from trt_workbench.evaluate.coco_files import write_run
from trt_workbench.evaluate.coco_matches import CocoMatches
from trt_workbench.evaluate.coco_scores import score_detections
from trt_workbench.evaluate.coco_settings import CocoSettings
from trt_workbench.evaluate.confusion import confuse
from trt_workbench.evaluate.detections import DetectionStore
from trt_workbench.evaluate.feed import Feed, make_feed
from trt_workbench.evaluate.loop import EvaluationLoop, LoopResult, LoopSettings
from trt_workbench.pipeline.families import DecodeSettings, Family, recognise
from trt_workbench.runs.bootstrap import draw_counts
from trt_workbench.system.environment import available_processors
from trt_workbench.verify.gate import require_verified

COMPARABLE_CONF = 0.05
"""Above this score threshold AP is not comparable with published figures: the curve's tail is cut off."""

# Threads beyond these bring nothing: readers share the interpreter, runs share the memory bandwidth.
_MOST_WORKERS, _MOST_CONCURRENT = 8, 16
# One image a run is fastest on a processor, where images in flight at once use the cores better than batches do.
_DYNAMIC_BATCH_ON_CPU, _DYNAMIC_BATCH = 1, 8

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class CocoRequest(CocoSettings):
    """What the user asked for.

    Attributes:
        model: the model file.
        images: folder of the images.
        annotations: COCO annotation file.
    """

    model: Path
    images: Path
    annotations: Path


@dataclass(frozen=True)
class CocoOutcome:
    """How an evaluation ended: "partial" if it was interrupted, and the content of `metrics.json`."""

    status: Literal["complete", "partial"]
    metrics: dict[str, Any]


class CocoEvaluation(AbstractContextManager["CocoEvaluation"]):
    """A checked request with its model loaded; nothing has been written yet. A context manager.

    Attributes:
        request: what was asked.
        backend: name of the backend that was chosen.
        dataset: the images and their annotations.
        session: the loaded model.
        family: of the model.
        transform: how images become its input.
        feed: how images get into the model.
        decoding: thresholds.
        settings: how the loop spreads the work.
        mark: how the engine is verified; None for other runtimes.
        notes: what the user should know about this evaluation, in sentences.
    """

    def __init__(self, request: CocoRequest, on_note: Callable[[str], None] | None = None) -> None:
        """Check everything that can be checked before the first image is read, load the model and run it once.

        Args:
            request: what was asked.
            on_note: called with what a person should know at once, such as an engine build that starts.

        Raises:
            UsageProblem: the model, dataset or an option cannot be used, or they do not fit each other.
            CheckFailed: the TensorRT engine is wrong, or not verified for the shapes that are used.
            ComponentMissing: the backend cannot serve here.
            DeviceFailure: the device failed while loading the model.
        """
        self.request = request
        self.decoding = DecodeSettings(request.conf, request.iou, request.max_dets)
        backend = require_backend(request.backend, request.model.suffix, on_note)
        self.backend = backend.name
        self.dataset = read_dataset(
            request.images, request.annotations, limit=request.limit, allow_missing=request.allow_missing
        )
        self._backend = backend
        self.session: Session = backend.load(request.model, _session_options(request, backend, on_note))
        self._model_sha256 = hash_model(request.model)
        try:
            self.family: Family = recognise(
                self.session.inputs,
                self.session.outputs,
                self.session.metadata,
                family=request.family,
                imgsz=request.imgsz,
            )
            self.transform: ImageTransform = self.family.transform()
            self.category_ids: NDArray[np.int64] = map_classes(
                self.family.class_count, self.family.names, self.dataset.categories
            )
            self.settings = self._loop_settings()
            self.feed, refusal = self._make_feed()
            self.mark = require_verified(
                self.session.provenance,
                request.model,
                self._shapes(),
                allow_unverified=request.allow_unverified,
                device=int(request.options.get("device", 0)) if backend.plans else 0,
                note=on_note or (lambda _: None),
            )
        except BaseException:
            self.session.close()
            raise
        self.notes = self._notes() + ([refusal] if refusal else [])

    def __enter__(self) -> Self:
        """Return the evaluation itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the model."""
        self.session.close()

    def run(self, folder: Path, on_images: Progress | None = None) -> CocoOutcome:
        """Evaluate, score and write the run's files into `folder`. Once per object.

        Args:
            folder: an existing folder, such as the staging folder of a run directory.
            on_images: called with the images done and their total while the loop runs.

        Raises:
            UsageProblem: an image is missing or corrupt, the model's outputs do not fit, or a file cannot be written.
            CheckFailed: the model returned NaN or infinite values.
            DeviceFailure: the device failed.
            KeyboardInterrupt: interrupted before any image was done, twice, or while scoring.
        """
        image_ids = np.array([image.id for image in self.dataset.images], np.int64)
        store = DetectionStore(image_ids, self.category_ids)
        paths = [self.dataset.path(image) for image in self.dataset.images]
        loop = EvaluationLoop(self.feed, self.family, self.decoding, paths, store, self.settings)
        result = loop.run(on_images)
        self.notes += self._notes_after(result)
        dataset = self.dataset.subset(image_ids[result.done])
        detections = store.collect()
        if not len(detections):
            self.notes.append("The model detected nothing, so AP is 0; check the preprocessing, the family and --conf.")
        scores = score_detections(dataset.truth, dataset.categories, detections)
        done = image_ids[result.done]
        matches = CocoMatches(done, dataset.truth, dataset.categories, detections)
        resampled = matches.figures(draw_counts(len(done), self.request.seed))
        confusion = confuse(done, dataset.categories, dataset.truth, detections)
        status: Literal["complete", "partial"] = "complete" if result.done.all() else "partial"
        metrics = write_run(folder, dataset, result, detections, scores, resampled, confusion, self._facts(status))
        return CocoOutcome(status, metrics)

    def _loop_settings(self) -> LoopSettings:
        fixed, asked = self.session.inputs[0].shape[0], self.request.batch
        if fixed is not None and asked is not None and asked > fixed:
            raise UsageProblem(
                f"The model takes batches of exactly {fixed}; --batch {asked} needs a model exported with a dynamic "
                f"batch: {self.request.model}"
            )
        workers = self.request.workers or min(_MOST_WORKERS, available_processors())
        return LoopSettings(_batch(self.request, self._backend, fixed), workers)

    def _shapes(self) -> list[Shapes]:
        """Return the input shapes that are used: of whole batches, and of the last one."""
        tensor, images = self.session.inputs[0], len(self.dataset.images)
        whole = self.settings.batch
        sizes = [min(whole, images), images % whole or whole] if tensor.shape[0] is None else [tensor.shape[0]]
        return [{tensor.name: (size, *self.transform.shape)} for size in dict.fromkeys(sizes)]

    def _make_feed(self) -> tuple[Feed[Any], str | None]:
        fixed = self.session.inputs[0].shape[0]
        return make_feed(self.session, self.transform, self.settings.batch, fixed, self.request.preprocess)

    def _notes(self) -> list[str]:
        notes = []
        if self.request.backend == AUTO and "cuda" in self._backend.devices and not self._backend.plans:
            notes.append("auto starts no engine build; pass --backend trt to evaluate the model in TensorRT.")
        if self.request.conf > COMPARABLE_CONF:
            notes.append(f"AP at --conf {self.request.conf} is not comparable with figures at 0.001; it is lower.")
        if self.request.iou is not None and self.family.default_iou is None:
            notes.append(f"--iou has no effect: family {self.family.name} needs no suppression.")
        if self.dataset.missing:
            notes.append(f"{len(self.dataset.missing)} absent images are left out.")
        return notes

    def _notes_after(self, result: LoopResult) -> list[str]:
        other = [
            image.file_name
            for image, (height, width), done in zip(self.dataset.images, result.sizes, result.done, strict=True)
            if done and (image.height or height, image.width or width) != (height, width)
        ]
        if not other:
            return []
        named = ", ".join(other[:NAMES_SHOWN])
        return [
            f"{len(other)} images are not of the size that the annotations give ({named}): are they the right ones?"
        ]

    def _facts(self, status: str) -> dict[str, Any]:
        """What was asked and chosen: the part of `metrics.json` that does not depend on the result."""
        request, settings, record = self.request, self.settings, self.session.record()
        iou = self.decoding.iou if self.decoding.iou is not None else self.family.default_iou
        return {
            "status": status,
            "model": {
                "path": str(request.model.absolute()),
                "sha256": self._model_sha256,
                "family": self.family.name,
                "class_count": len(self.category_ids),
            },
            "backend": self.backend,
            "backend_requested": request.backend,
            "precision_ran": record["precision_ran"],
            "provenance": record,
            "verification": self.mark,
            "allow_unverified": request.allow_unverified,
            "settings": {
                "conf": self.decoding.conf,
                "iou": None if self.family.default_iou is None else iou,
                "max_dets": self.decoding.max_dets,
                "clip_boxes": self.family.clips_boxes,
                "batch": settings.batch,
                "imgsz": [self.transform.height, self.transform.width],
                "workers": settings.workers,
                "concurrency": self.session.concurrency,
                "precision": request.precision,
                "options": dict(request.options),
                "preprocess": self.feed.place,
                "limit": request.limit,
                "seed": request.seed,
                "transform": dataclasses.asdict(self.transform),
            },
            "notes": self.notes,
        }


def _batch(request: CocoRequest, backend: Backend, fixed: int | None = None) -> int:
    """Return the images per inference of a model that takes `fixed` images, or any number."""
    return request.batch or fixed or (_DYNAMIC_BATCH_ON_CPU if backend.devices == ("cpu",) else _DYNAMIC_BATCH)


def _session_options(request: CocoRequest, backend: Backend, on_note: Callable[[str], None] | None) -> SessionOptions:
    concurrency = request.concurrency
    if concurrency is None:
        # N runs of one thread each outrun one run of N threads: no layer waits for its slowest thread.
        processors = request.threads or available_processors()
        concurrency = min(_MOST_CONCURRENT, processors) if backend.devices == ("cpu",) else 1
    # which inputs it has is not known yet; the backend itself makes a profile of the largest batch
    extra = {"max_batch": _batch(request, backend)} if backend.plans else {}
    return SessionOptions(
        threads=request.threads,
        concurrency=concurrency,
        precision=request.precision,
        extra={**extra, **request.options},
        note=on_note,
    )
