"""YOLOv8, v9 and v11 raw heads: `[N, 4 + C, A]`, centre and size in input pixels, then one score a class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.extras import Columns
from trt_workbench.vision.families.base import (
    DecodeSettings,
    Detections,
    DetectorFacts,
    DoesNotFit,
    Family,
    cell_counts,
    corners,
    refuse_other_heads,
    shape_of,
)
from trt_workbench.vision.families.prototypes import prototypes_of, with_masks
from trt_workbench.vision.families.rotated_rows import rotated_detections, rotated_survivors
from trt_workbench.vision.keypoints import Keypoints
from trt_workbench.vision.tasks.names import TaskName

# Candidates that enter suppression, best first: `max_nms` of Ultralytics' `non_max_suppression`.
_MAX_CANDIDATES = 30_000


@dataclass(frozen=True)
class YoloV8(Family):
    """Every pair of anchor and class whose score is above the threshold is a candidate.

    Source: `non_max_suppression(multi_label=True, iou_thres=0.7)`, as Ultralytics' validator calls it. Unlike that
    validator, which divides both axes by the height's scale, boxes are mapped back axis by axis.

    Attributes:
        transposed: the output is `[N, A, 4 + C]`.
    """

    name: ClassVar[str] = "yolov8"
    default_iou: ClassVar[float | None] = 0.7
    clips_boxes: ClassVar[bool] = True
    shape_text: ClassVar[str] = "[N, 4 + classes, A] (centre x, centre y, width, height, scores)"

    transposed: bool = False

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family, or raise DoesNotFit. `[N, A, 4 + C]` is taken only if names or the user confirm it."""
        if not facts.forced:
            refuse_other_heads(cls.name, facts)
        if len(output.shape) != 3:
            text = f"the shape is not {cls.shape_text}"
            raise DoesNotFit(text)
        _, rows, columns = output.shape
        more = cls.more(output, facts)
        try:
            return cls(output, _class_count(rows, columns, facts, more, any_grid=facts.forced), facts)
        except DoesNotFit as plain:
            if facts.names is None and not facts.forced:
                raise
            try:
                return cls(output, _class_count(columns, rows, facts, more, any_grid=False), facts, transposed=True)
            except DoesNotFit:
                raise plain from None

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:  # noqa: ARG003 - for those that override it
        """Return how many channels follow those of the scores, or raise DoesNotFit."""
        return 0

    def _made(
        self,
        boxes: NDArray[np.float32],
        scores: NDArray[np.float32],
        labels: NDArray[np.int64],
        more: NDArray[np.float32],
    ) -> Detections:
        """Return candidates of boxes [K, 4] and further values [K, more], as the output has them."""
        return Detections(corners(*boxes.T), scores, labels, Columns(more) if more.shape[1] else None)

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        head, more = image.T if self.transposed else image, self.more(self.output, self.facts)
        if self.class_count is None or head.shape[0] != 4 + self.class_count + more:
            raise UsageProblem(
                f"Output {self.output.name} has shape {list(image.shape)} per image; {self.name} expects {self.output}."
            )
        scores = head[4 : 4 + self.class_count]
        self.check_scores(scores)
        if self.transposed:
            anchors, labels = np.nonzero(conf < scores.T)
        else:
            labels, anchors = np.divmod(np.flatnonzero(scores > conf), head.shape[1])
        found = scores[labels, anchors]
        if len(found) > _MAX_CANDIDATES:
            best = np.sort(np.argpartition(-found, _MAX_CANDIDATES - 1)[:_MAX_CANDIDATES])
            anchors, labels, found = anchors[best], labels[best], found[best]
        labels = labels.astype(np.int64, copy=False)
        return self._made(head[:4, anchors].T, found, labels, head[4 + self.class_count :, anchors].T)


@dataclass(frozen=True)
class YoloV8Masks(YoloV8):
    """The same with the mask coefficients of each anchor after its scores."""

    name: ClassVar[str] = "yolov8-seg"
    task: ClassVar[TaskName] = "masks"
    reads: ClassVar[int] = 2
    shape_text: ClassVar[str] = "[N, 4 + classes + M, A] (centre x, centre y, width, height, scores, mask coefficients)"

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:
        """Return how many prototypes there are, or raise DoesNotFit."""
        return prototypes_of(output, facts).shape[1] or 0

    def decode(self, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings | None = None) -> list[Detections]:
        """Return boxes with what makes masks of them, as `Family.decode`."""
        prototypes = prototypes_of(self.output, self.facts)
        return with_masks(self, super().decode(outputs, settings), outputs, prototypes)


@dataclass(frozen=True)
class YoloV8Keypoints(YoloV8):
    """The same with the keypoints of each box, in input pixels; their number is in the metadata (`kpt_shape`)."""

    name: ClassVar[str] = "yolov8-pose"
    task: ClassVar[TaskName] = "keypoints"
    by_shape: ClassVar[bool] = False
    shape_text: ClassVar[str] = "[N, 4 + classes + n * d, A] (centre x, centre y, width, height, scores, keypoints)"

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
class YoloV8Rotated(YoloV8):
    """The same with boxes as centre and size, at an angle in radians, which stands last; they are not clipped.

    Source: `non_max_suppression(rotated=True)`: a better box of a probabilistic IoU above the threshold drops another.
    """

    name: ClassVar[str] = "yolov8-obb"
    task: ClassVar[TaskName] = "rotated"
    by_shape: ClassVar[bool] = False
    clips_boxes: ClassVar[bool] = False
    shape_text: ClassVar[str] = "[N, 4 + classes + 1, A] (centre x, centre y, width, height, scores, angle)"

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

    def _survivors(self, found: Detections, iou: float, limit: int) -> NDArray[np.intp]:
        return rotated_survivors(found, iou, limit)


def _class_count(channels: int | None, anchors: int | None, facts: DetectorFacts, more: int, *, any_grid: bool) -> int:
    """Return C if `[N, channels, anchors]` can be this head with `more` channels at its end, or raise DoesNotFit.

    `any_grid` takes anchors that are not the cells of a usual grid, as long as there are more of them than channels.
    """
    named = None if facts.names is None else len(facts.names)
    if channels is None and named is None:
        text = "the shape has no class count, and the model has no class names"
        raise DoesNotFit(text)
    count = named if channels is None else channels - 4 - more
    if count is None or count < 1:
        text = f"{channels} channels leave no class after the box"
        raise DoesNotFit(text)
    if named is not None and count != named:
        text = f"{channels} channels make {counted(count, 'class', 'classes')}, but the model names {named}"
        raise DoesNotFit(text)
    usual = anchors is None or (facts.fixed_size and anchors in cell_counts(*facts.input_size))
    many = anchors is not None and channels is not None and anchors > channels
    if not usual and not (any_grid and many):
        text = f"{anchors} anchors do not match the grid cells of a {facts.input_size[0]}x{facts.input_size[1]} input"
        raise DoesNotFit(text)
    return count
