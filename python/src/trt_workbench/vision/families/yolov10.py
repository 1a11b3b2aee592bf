"""YOLOv10 and other end-to-end heads: `[N, K, 6]` as x1, y1, x2, y2, score, class, in input pixels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.vision.extras import Columns
from trt_workbench.vision.families.base import (
    DecodeSettings,
    Detections,
    DetectorFacts,
    DoesNotFit,
    Family,
    cell_counts,
    refuse_other_heads,
    row_detections,
    shape_of,
)
from trt_workbench.vision.families.prototypes import prototypes_of, with_masks
from trt_workbench.vision.families.rotated_rows import rotated_detections
from trt_workbench.vision.keypoints import Keypoints
from trt_workbench.vision.tasks.names import TaskName


@dataclass(frozen=True)
class YoloV10(Family):
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
            refuse_other_heads(cls.name, facts)
        certain, columns = facts.forced or facts.end_to_end, 6 + cls.more(output, facts)
        if len(output.shape) != 3 or output.shape[2] not in (columns, None if certain else columns):
            text = f"the shape is not {cls.shape_text}"
            raise DoesNotFit(text)
        if not facts.forced and output.shape[1] in cell_counts(*facts.input_size):
            text = f"{output.shape[1]} rows are one per grid cell"
            raise DoesNotFit(text)
        return cls(output, None if facts.names is None else len(facts.names), facts)

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:  # noqa: ARG003 - for those that override it
        """Return how many values of a row follow score and class, or raise DoesNotFit."""
        return 0

    def _made(
        self,
        boxes: NDArray[np.float32],
        scores: NDArray[np.float32],
        labels: NDArray[np.int64],
        more: NDArray[np.float32],
    ) -> Detections:
        """Return candidates of boxes [K, 4] and further values [K, more], as the output has them."""
        return Detections(boxes, scores, labels, Columns(more) if more.shape[1] else None)

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        rows, scores, labels = row_detections(self, image, conf, self.more(self.output, self.facts))
        return self._made(rows[:, :4], scores, labels, rows[:, 6:])


@dataclass(frozen=True)
class YoloV10Masks(YoloV10):
    """The same with the mask coefficients of each box after its class, as YOLO26-seg exports it."""

    name: ClassVar[str] = "yolov10-seg"
    task: ClassVar[TaskName] = "masks"
    reads: ClassVar[int] = 2
    shape_text: ClassVar[str] = "[N, K, 6 + M] (x1, y1, x2, y2, score, class, mask coefficients)"

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:
        """Return how many prototypes there are, or raise DoesNotFit."""
        return prototypes_of(output, facts).shape[1] or 0

    def decode(self, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings | None = None) -> list[Detections]:
        """Return boxes with what makes masks of them, as `Family.decode`."""
        prototypes = prototypes_of(self.output, self.facts)
        return with_masks(self, super().decode(outputs, settings), outputs, prototypes)


@dataclass(frozen=True)
class YoloV10Keypoints(YoloV10):
    """The same with the keypoints of each box, in input pixels; their number is in the metadata (`kpt_shape`)."""

    name: ClassVar[str] = "yolov10-pose"
    task: ClassVar[TaskName] = "keypoints"
    by_shape: ClassVar[bool] = False
    shape_text: ClassVar[str] = "[N, K, 6 + n * d] (x1, y1, x2, y2, score, class, keypoints)"

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:  # noqa: ARG003 - as of every family
        """Return how many values the keypoints of a box have, or raise DoesNotFit."""
        return math.prod(shape_of(facts))

    def _made(
        self,
        boxes: NDArray[np.float32],
        scores: NDArray[np.float32],
        labels: NDArray[np.int64],
        more: NDArray[np.float32],
    ) -> Detections:
        plain = super()._made(boxes, scores, labels, more)
        return plain._replace(extra=Keypoints.of_model(more, shape_of(self.facts)))


@dataclass(frozen=True)
class YoloV10Rotated(YoloV10):
    """The same with boxes as centre and size, at an angle in radians, which stands last; they are not clipped."""

    name: ClassVar[str] = "yolov10-obb"
    task: ClassVar[TaskName] = "rotated"
    by_shape: ClassVar[bool] = False
    clips_boxes: ClassVar[bool] = False
    shape_text: ClassVar[str] = "[N, K, 7] (centre x, centre y, width, height, score, class, angle)"

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:  # noqa: ARG003 - as of every family
        """Return that there is an angle."""
        return 1

    def _made(
        self,
        boxes: NDArray[np.float32],
        scores: NDArray[np.float32],
        labels: NDArray[np.int64],
        more: NDArray[np.float32],
    ) -> Detections:
        return rotated_detections(self, boxes, scores, labels, more)
