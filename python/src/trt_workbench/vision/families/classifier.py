"""Classifiers: a score or a logit of each class, for the whole image."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import ImageTransform
from trt_workbench.vision.extras import TaskName
from trt_workbench.vision.families.base import DecodeSettings, Detections, DetectorFacts, DoesNotFit
from trt_workbench.vision.families.per_class import PerClass
from trt_workbench.vision.letterbox import Geometry

# torchvision's evaluation resizes to 256 and takes 224 of them.
_IMAGENET_CROP = 0.875
# How far a softmax in reduced precision may be from a sum of 1.
_SUM_SLACK = 0.02


@dataclass(frozen=True)
class Classifier(PerClass):
    """A classifier as Ultralytics, torchvision and timm export it: every class of an image, the best first.

    The image is resized by its shorter side and cropped in the centre: to the input's size where pixels are not
    normalised (Ultralytics), to 8/7 of it where they are (torchvision, timm); `crop_pct` in the metadata sets another
    share. Rows that are no probabilities are logits, of which the softmax is taken.

    Source: `classify_transforms` of Ultralytics; `ImageClassification` of torchvision.transforms._presets.
    """

    name: ClassVar[str] = "classifier"
    task: ClassVar[TaskName] = "classes"
    rank: ClassVar[int] = 2
    shape_text: ClassVar[str] = "[N, classes], a score or a logit of each class"

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family for this output, or raise DoesNotFit."""
        made = super().create(output, facts)
        if made.class_count == 1:
            raise DoesNotFit("it has one value an image; a classifier has one for each of two or more classes")
        return made

    def transform(self, height: int | None = None, width: int | None = None) -> ImageTransform:
        """Return its preprocessing: resized with antialiasing and cropped."""
        share = self.facts.crop or (_IMAGENET_CROP if self.facts.said.normalize == "imagenet" else 1.0)
        return dataclasses.replace(super().transform(height, width), placement="crop", antialias=True, crop=share)

    def decode(self, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings | None = None) -> list[Detections]:  # noqa: ARG002
        """Return every class of each image, the best first, whatever the thresholds; see `Family.decode`."""
        return [self._ranked(row) for row in self.batch_of(outputs)]

    def restore(self, found: Detections, geometry: Geometry) -> Detections:
        """Return the classes with the whole image as their box."""
        height, width = geometry.source
        return found._replace(boxes=_whole(len(found.scores), height, width))

    def _ranked(self, row: NDArray[np.float32]) -> Detections:
        order = (-row).argsort(kind="stable")
        return Detections(_whole(len(row), *self.input_size), _probabilities(row)[order], order.astype(np.int64))


def _probabilities(row: NDArray[np.float32]) -> NDArray[np.float32]:
    if row.min() >= 0 and abs(float(row.sum()) - 1) <= _SUM_SLACK:
        return row
    powers = np.exp(row - row.max())
    return np.asarray(powers / powers.sum(), np.float32)


def _whole(count: int, height: int, width: int) -> NDArray[np.float32]:
    return np.broadcast_to(np.array([0, 0, width, height], np.float32), (count, 4))
