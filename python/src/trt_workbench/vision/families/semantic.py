"""Semantic segmentation: logits of every class at each place of the image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.extras import Extra, Restored, TaskName
from trt_workbench.vision.families.base import DecodeSettings, Detections
from trt_workbench.vision.families.per_class import PerClass
from trt_workbench.vision.letterbox import Geometry
from trt_workbench.vision.masks import Masks, axis, interpolated, run_lengths, tight_box


@dataclass(frozen=True)
class Semantic(PerClass):
    """Each pixel of the image is of the class whose logit, interpolated there, is the greatest: a mask a class.

    Source: `post_process_semantic_segmentation` of transformers and MMSegmentation's `postprocess_result`, which
    enlarge logits to the image (bilinear, centres at halves) before the greatest is taken. Ultralytics scores at the
    size of the letterboxed image instead. Of one class alone, pixels above 0 are it, as with Ultralytics.
    """

    name: ClassVar[str] = "semantic"
    task: ClassVar[TaskName] = "semantic"
    rank: ClassVar[int] = 4
    shape_text: ClassVar[str] = "[N, classes, h, w], logits of each class"

    def decode(self, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings | None = None) -> list[Detections]:  # noqa: ARG002
        """Return the logits of each image, whatever the thresholds; see `Family.decode`."""
        empty = Detections(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int64))
        return [empty._replace(extra=ClassLogits(image, self.input_size)) for image in self.batch_of(outputs)]

    def restore(self, found: Detections, geometry: Geometry) -> Detections:
        """Return the classes that the image has, each with its mask and the box around it; all are certain."""
        assert isinstance(found.extra, ClassLogits)  # as above
        plane = found.extra.classes(geometry)
        labels = np.unique(plane[plane >= 0])
        parts = [plane == label for label in labels]
        counts = tuple(run_lengths(one, 0, 0, geometry.source) for one in parts)
        boxes = np.array([tight_box(one) for one in parts], np.float32).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        sizes = np.tile(np.array(geometry.source, np.int32), (len(labels), 1))
        return Detections(boxes, np.ones(len(labels), np.float32), labels.astype(np.int64), Masks(sizes, counts))


@dataclass(frozen=True)
class ClassLogits(Extra):
    """Logits float32 [classes, h, w] of an image in a model's input of a size (height, width)."""

    logits: NDArray[np.float32]
    input_size: tuple[int, int]

    def take(self, rows: NDArray[np.intp]) -> ClassLogits:  # noqa: ARG002 - it has no rows yet
        """Return them all: they are of the image."""
        return self

    def restore(self, boxes: NDArray[np.float32], geometry: Geometry) -> Restored:
        """Refuse: its family makes masks of them."""
        raise NotImplementedError

    def classes(self, geometry: Geometry) -> NDArray[np.int32]:
        """Return the class of each pixel of the image, -1 for none; one plane of logits is enlarged at a time."""
        sizes = zip(self.logits.shape[1:], self.input_size, strict=True)
        shares = [logits / whole for logits, whole in sizes]
        pads = (geometry.top, geometry.left)
        sides = zip(self.logits.shape[1:], geometry.source, geometry.resized, pads, shares, strict=True)
        rows, columns = (
            axis(logits, source, pad * share, resized * share) for logits, source, resized, pad, share in sides
        )
        best = np.full(geometry.source, 0.0 if len(self.logits) == 1 else -np.inf, np.float32)
        found = np.full(geometry.source, -1, np.int32)
        for label, logits in enumerate(self.logits):
            plane = interpolated(logits, rows, columns)
            better = plane > best
            best[better], found[better] = plane[better], label
        return found
