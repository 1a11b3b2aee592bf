"""predict: detects objects in images and videos without annotations, by the steps that eval-coco scores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from trt_workbench.backends.registry import require_backend
from trt_workbench.core.documents import append_lines
from trt_workbench.core.files import require_file
from trt_workbench.core.statistics.summary import summarize
from trt_workbench.model.opened import sha256_of
from trt_workbench.vision.detector import Detector, Note
from trt_workbench.vision.document import DetectionRecord, Prediction
from trt_workbench.vision.image_sources import SourceImage, Sources, find_sources
from trt_workbench.vision.loaded import single_options
from trt_workbench.vision.looking import Looker, records_of
from trt_workbench.vision.settings import PredictSettings

DETECTIONS = "detections.jsonl"
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
        require_file("model file", request.model)
        backend = require_backend(request.backend, request.model.suffix, note)
        self._sources: Sources = find_sources(request.sources)
        self.total = min(self._sources.count, request.limit or self._sources.count)
        self.detector = Detector(request.model, request, backend, single_options(request, backend, note), note)
        try:
            self._looker = Looker(self.detector, request, self.total)
        except BaseException:
            self.detector.session.close()
            raise
        self.task = self._looker.task
        self.notes = self._looker.notes + self.detector.notes

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
        counts, milliseconds, empty = Counter[str](), list[float](), 0
        images, task = self.detector.reader(), self.task
        (folder / DETECTIONS).touch()
        status = "complete"
        try:
            for picture in islice(self._sources.pictures(self.notes.append, images), self.request.limit):
                start = time.perf_counter()
                found = self._looker.look(picture.pixels)
                milliseconds.append((time.perf_counter() - start) * 1e3)
                names = map(self._looker.name, found.labels.tolist())
                lines = records_of(found, names, str(picture.path), picture.frame)
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
        self._looker.finish()
        self.notes += images.notes()
        done = {"status": status, "images": len(milliseconds), "images_without": empty}
        done |= {"by_class": dict(counts.most_common()), "detect": summarize(milliseconds)}
        return self._document(done)

    def _document(self, outcome: dict[str, Any]) -> Prediction:
        request, detector = self.request, self.detector
        record, settings = detector.session.record(), asdict(request)
        left_out = ("model", "sources", "backend")
        document: Prediction = {
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
        return document
