"""YOLOv10 and other end-to-end heads: `[N, K, 6]` as x1, y1, x2, y2, score, class, in input pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import Head, Place
from trt_workbench.vision.families.base import (
    DecodeSettings,
    Detections,
    DetectorFacts,
    DoesNotFit,
    cell_counts,
    refuse_other_heads,
    row_detections,
    rows_head,
)
from trt_workbench.vision.families.head import HeadRows, WithAngles, WithKeypoints, YoloHead
from trt_workbench.vision.families.prototypes import WithMasks


@dataclass(frozen=True)
class YoloV10(YoloHead):
    """One box per query, no suppression: the reference evaluation keeps every score above the threshold.

    Source: the `end2end` branch of Ultralytics' `non_max_suppression`.
    """

    name: ClassVar[str] = "yolov10"
    default_iou: ClassVar[float | None] = None
    clips_boxes: ClassVar[bool] = True
    shape_text: ClassVar[str] = "[N, K, 6] (x1, y1, x2, y2, score, class)"

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family, or raise DoesNotFit."""
        if not facts.forced:
            refuse_other_heads(facts, end_to_end=True)
        certain, columns = facts.forced or facts.end_to_end, 6 + cls.more(output, facts)
        if len(output.shape) != 3 or output.shape[2] not in (columns, None if certain else columns):
            raise DoesNotFit(f"the shape is not {cls.shape_text}")
        if not facts.forced and output.shape[1] in cell_counts(*facts.input_size):
            raise DoesNotFit(f"{output.shape[1]} rows are one per grid cell")
        return cls(output, facts.named, facts)

    def _corners(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        return boxes

    def head(self, shapes: Mapping[str, tuple[int, ...]], settings: DecodeSettings) -> Head | None:
        """Return what is done with outputs of these shapes, as `Family.head`."""
        _, rows, columns = shapes[self.output.name]
        if columns != 6 + self.more(self.output, self.facts):
            return None
        head = rows_head(self, self.output.name, columns, rows, settings)
        return self.with_more(head, Place(self.output.name, 6, columns), shapes)

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        rows, scores, labels = row_detections(self, image, conf, self.more(self.output, self.facts))
        return self._made(HeadRows(rows[:, :4], scores, labels, rows[:, 6:]))


@dataclass(frozen=True)
class YoloV10Masks(WithMasks, YoloV10):
    """The same for instance segmentation, as YOLO26-seg exports it."""

    name: ClassVar[str] = "yolov10-seg"
    shape_text: ClassVar[str] = "[N, K, 6 + M] (x1, y1, x2, y2, score, class, mask coefficients)"


@dataclass(frozen=True)
class YoloV10Keypoints(WithKeypoints, YoloV10):
    """The same for poses."""

    name: ClassVar[str] = "yolov10-pose"
    shape_text: ClassVar[str] = "[N, K, 6 + n * d] (x1, y1, x2, y2, score, class, keypoints)"


@dataclass(frozen=True)
class YoloV10Rotated(WithAngles, YoloV10):
    """The same for oriented boxes."""

    name: ClassVar[str] = "yolov10-obb"
    shape_text: ClassVar[str] = "[N, K, 7] (centre x, centre y, width, height, score, class, angle)"
