"""predict: detects objects in images and videos without annotations, by the steps that eval-coco scores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.core.documents import append_lines
from trt_workbench.core.errors import UsageProblem, did_you_mean, whole_number
from trt_workbench.core.settings import with_flags
from trt_workbench.core.statistics.summary import summarize
from trt_workbench.model.opened import sha256_of
from trt_workbench.vision.class_map import COCO_IDS, COCO_SLOTS
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.detector import Detector, SingleImages
from trt_workbench.vision.document import DetectionRecord, Prediction
from trt_workbench.vision.extras import Restored
from trt_workbench.vision.families import Detections, DetrLogits
from trt_workbench.vision.image_sources import SourceImage, Sources, find_sources
from trt_workbench.vision.settings import PredictSettings
from trt_workbench.vision.tasks.registry import task_of

COCO_NAMES: Final = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator",
    "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip


DETECTIONS = "detections.jsonl"
Note = Callable[[str], None]
Show = Callable[[SourceImage, Sequence[DetectionRecord]], None]


@dataclass(frozen=True, kw_only=True)
class PredictRequest(PredictSettings):
    """The user's request: the model file, and images, folders of images and videos."""

    model: Path
    sources: tuple[Path, ...]


class Predictor(AbstractContextManager["Predictor"]):
    """A checked request with its model loaded. A context manager.

    Attributes:
        request: what was asked.
        detector: the loaded model, ready for images.
        task: what the model finds.
        names: of the model's classes; None where it does not name them and they are not COCO's by their number.
        total: how many pictures there are to look at, by what videos say.
        notes: what the user should know, in sentences.
    """

    def __init__(self, request: PredictRequest, note: Note | None = None) -> None:
        """Find the files, load the model and run it once.

        Raises:
            UsageProblem: a file, the model or a setting cannot be used.
            CheckFailed: the TensorRT engine is wrong, or not verified for single images.
            ComponentMissing: the backend cannot serve here.
            DeviceFailure: the device failed while loading the model.
        """
        self.request = request
        backend = require_backend(request.backend, request.model.suffix, note)
        self._sources: Sources = find_sources(request.sources)
        self.total = min(self._sources.count, request.limit or self._sources.count)
        # which inputs it has is not known yet; the backend itself makes a profile of the largest batch
        extra = {"max_batch": 1} if backend.plans else {}
        extra = with_flags({**extra, **request.options}, backend.url_option(request.url))
        options = SessionOptions(threads=request.threads, precision=request.precision, extra=extra, note=note)
        self.detector = Detector(request.model, request, backend, options, note)
        try:
            self.notes = list[str]()
            self.task = task_of(self.detector.family.task)
            self.names = self._names()
            self._kept = self._classes()
            self.detector.prepare(1, self.total)
        except BaseException:
            self.detector.session.close()
            raise
        self.notes += self.detector.notes

    def __enter__(self) -> Self:
        """Return the predictor itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the model."""
        self.detector.session.close()

    def run(self, folder: Path, show: Show | None, on_images: Callable[[int, int], None]) -> Prediction:
        """Look at every picture, and write what is found into `folder`/detections.jsonl. Once per object.

        Args:
            folder: an existing folder, such as the staging folder of a run directory.
            show: called with every picture and what is on it.
            on_images: called with the pictures done and their total.

        Returns:
            The content of predict.json. Its status is "partial" if Ctrl-C came after the first picture.

        Raises:
            UsageProblem: an image is missing or damaged, or the model's outputs do not fit.
            CheckFailed: the model returned NaN or infinite values.
            DeviceFailure: the device failed.
            KeyboardInterrupt: before any picture was done.
        """
        single, counts, milliseconds, empty = SingleImages(self.detector), Counter[str](), list[float](), 0
        images, task = ImageReader(self.request.exif), self.task
        (folder / DETECTIONS).touch()
        status = "complete"
        try:
            for picture in islice(self._sources.pictures(self.notes.append, images), self.request.limit):
                start = time.perf_counter()
                found = single.detect(picture.pixels)
                milliseconds.append((time.perf_counter() - start) * 1e3)
                lines = list(self._lines(picture, found))
                append_lines(folder / DETECTIONS, lines)
                frame = "" if picture.frame is None else f"-{picture.frame:06}"
                task.append(folder, picture.path.stem + frame, lines)
                counts.update(line["class_name"] for line in lines[: 1 if task.of_images else None])
                empty += not lines
                if show:
                    show(picture, lines)
                on_images(len(milliseconds), max(self.total, len(milliseconds)))
        except KeyboardInterrupt:
            if not milliseconds:
                raise
            status = "partial"
        single.finish()
        self.notes += images.notes()
        done = {"status": status, "images": len(milliseconds), "images_without": empty}
        return self._document({**done, "by_class": dict(counts.most_common()), "detect": summarize(milliseconds)})

    def _lines(self, picture: SourceImage, found: Detections) -> Iterator[DetectionRecord]:
        rows = np.arange(len(found.labels))
        if self._kept is not None:
            rows = np.flatnonzero(np.isin(found.labels, sorted(self._kept)))
        found = found.take(rows[: self.task.most])
        extra = found.extra
        assert extra is None or isinstance(extra, Restored)  # as `SingleImages` leaves it
        more: list[Any] = extra.entries(slice(None)) if extra else [{}] * len(found.scores)
        columns = (found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), more)
        for box, score, label, added in zip(*columns, strict=True):
            line: DetectionRecord = {
                "schema_version": 1,
                "image": str(picture.path),
                "frame": picture.frame,
                "box": tuple(box),
                "score": score,
                "class_id": label,
                "class_name": self._name(label),
            }
            line.update(added)
            yield line

    def _name(self, label: int) -> str:
        return self.names[label] if self.names and label < len(self.names) else f"class {label}"

    def _names(self) -> tuple[str, ...] | None:
        family = self.detector.family
        if family.names:
            return tuple(family.names)
        if isinstance(family, DetrLogits) and family.class_count == COCO_SLOTS:
            self.notes.append(f"The model has no class names; its {COCO_SLOTS} classes are interpreted as COCO's ids.")
            by_id = dict(zip(COCO_IDS, COCO_NAMES, strict=True))
            return tuple(by_id.get(place, f"class {place}") for place in range(COCO_SLOTS))
        if family.class_count != len(COCO_NAMES):
            return None
        self.notes.append(f"The model has no class names; its {family.class_count} classes are interpreted as COCO's.")
        return COCO_NAMES

    def _classes(self) -> frozenset[int] | None:
        """Return the indices of the classes that are kept; None for all."""
        if not self.request.classes:
            return None
        known = {name.casefold(): index for index, name in enumerate(self.names or ())}
        count = self.detector.family.class_count or np.inf
        kept = set()
        for text in self.request.classes:
            index = known.get(text.casefold(), whole_number(text))
            if index is None or index >= count:
                hint = did_you_mean(text, self.names) if self.names else "it has no class names, so give indices."
                raise UsageProblem(f"The model has no class {text!r}; {hint}")
            kept.add(index)
        return frozenset(kept)

    def _document(self, outcome: dict[str, Any]) -> Prediction:
        request, detector = self.request, self.detector
        record, settings = detector.session.record(), asdict(request)
        left_out = ("model", "sources", "backend")
        return {
            "schema_version": 1,
            "status": outcome["status"],
            "model": {
                "path": str(request.model.absolute()),
                "sha256": sha256_of(request.model),
                "family": detector.family.name,
                "task": detector.family.task,
                "class_count": detector.family.class_count,
            },
            "backend": detector.backend.name,
            "backend_requested": request.backend,
            "provenance": record,
            "precision_ran": record["precision_ran"],
            "verification": detector.mark,
            "settings": {
                **{name: value for name, value in settings.items() if name not in left_out},
                **detector.said,
                "imgsz": [detector.transform.height, detector.transform.width],
                "preprocess": detector.feed.place,
                "postprocess": detector.feed.boxes_place,
                "clip_boxes": detector.family.clips_boxes,
                "transform": asdict(detector.transform),
            },
            "sources": [str(path.absolute()) for path in request.sources],
            "images": outcome["images"],
            "images_requested": self.total,
            "images_without": outcome["images_without"],
            "detections": sum(outcome["by_class"].values()),
            "by_class": outcome["by_class"],
            "latency_ms": None if detector.session.simulated else {"detect": outcome["detect"]},
            "notes": self.notes,
        }
