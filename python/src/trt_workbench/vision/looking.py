"""A vision model that is given one image after the other, and the names of what it finds: of `predict` and the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from trt_workbench.backends.images import Pixels
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem, did_you_mean, whole_number
from trt_workbench.vision.class_map import COCO_IDS, COCO_NAMES, COCO_SLOTS
from trt_workbench.vision.detector import Detector
from trt_workbench.vision.document import DetectionRecord
from trt_workbench.vision.extras import Restored
from trt_workbench.vision.families import Detections, DetrLogits
from trt_workbench.vision.plausible import BoxCheck
from trt_workbench.vision.settings import PredictSettings
from trt_workbench.vision.tasks.registry import task_of


def records_of(
    found: Detections, names: Iterable[str], image: str = "", frame: int | None = None
) -> list[DetectionRecord]:
    """Return what was found on an image as lines of detections.jsonl.

    Args:
        found: by `Looker.look`.
        names: of the classes of its labels.
        image: path of the image or video.
        frame: of a video.
    """
    extra = found.extra
    assert extra is None or isinstance(extra, Restored)  # as `Family.restore` leaves it
    more: list[Any] = extra.entries(slice(None)) if extra else [{}] * len(found.scores)
    columns = (found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), names, more)
    lines: list[Any] = [
        {
            "schema_version": 1,
            "image": image,
            "frame": frame,
            "box": tuple(box),
            "score": score,
            "class_id": label,
            "class_name": name,
            **added,
        }
        for box, score, label, name, added in zip(*columns, strict=True)
    ]
    return lines


class Looker:
    """A loaded detector, prepared for single images.

    Attributes:
        task: what the model finds.
        names: of the model's classes; None where it does not name them and they are not COCO's by their number.
        notes: what the user should know, in sentences.
    """

    def __init__(self, detector: Detector, settings: PredictSettings, images: int) -> None:
        """Prepare the detector.

        Args:
            detector: the loaded model, which the caller closes.
            settings: which classes are kept.
            images: how many there will be.

        Raises:
            UsageProblem: the model has no such class, or cannot run single images.
            CheckFailed: the TensorRT engine is wrong, or not verified for single images.
            DeviceFailure: the device failed.
        """
        self.notes = list[str]()
        self._detector, self.task = detector, task_of(detector.family.task)
        self.names = self._names()
        self._kept = self._classes(settings.classes)
        detector.prepare(1, images)
        self._room = detector.feed.new_batch()
        self._check = BoxCheck(detector.family)

    def look(self, pixels: Pixels) -> Detections:
        """Return what is kept of what is on an image, BGR [height, width, 3]; boxes are in its pixels.

        Raises:
            UsageProblem: the model's outputs or boxes do not fit the family.
            CheckFailed: the model returned NaN or infinite values.
            DeviceFailure: the device failed.
        """
        family, feed = self._detector.family, self._detector.feed
        geometry = feed.fill(self._room, 0, pixels)
        ran = feed.run(self._room, 1)
        boxes = ran.boxes(family, self._detector.decoding)
        if len(boxes) != 1:
            raise UsageProblem(f"The model returned boxes for {counted(len(boxes), 'image')} from a batch of 1.")
        self._check.add(boxes, ran.outputs)
        found = family.restore(boxes[0], geometry)
        if self._kept is not None:
            found = found.take(np.flatnonzero(np.isin(found.labels, sorted(self._kept))))
        return found if self.task.most is None else found.take(np.arange(len(found.labels))[: self.task.most])

    def finish(self) -> None:
        """Judge the boxes of few images. Raises UsageProblem if they cannot be right."""
        self._check.finish()

    def name(self, label: int) -> str:
        """Return the name of a class."""
        return self.names[label] if self.names and label < len(self.names) else f"class {label}"

    def _names(self) -> tuple[str, ...] | None:
        family = self._detector.family
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

    def _classes(self, asked: Sequence[str]) -> frozenset[int] | None:
        """Return the indices of the classes that are kept; None for all."""
        if not asked:
            return None
        known = {name.casefold(): index for index, name in enumerate(self.names or ())}
        count = self._detector.family.class_count or np.inf
        kept = set()
        for text in asked:
            index = known.get(text.casefold(), whole_number(text))
            if index is None or index >= count:
                hint = did_you_mean(text, self.names) if self.names else "it has no class names, so give indices."
                raise UsageProblem(f"The model has no class {text!r}; {hint}")
            kept.add(index)
        return frozenset(kept)
