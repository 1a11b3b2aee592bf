"""YOLOv8, v9 and v11 raw heads: `[N, 4 + C, A]`, centre and size in input pixels, then one score a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import Head, Place
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families.base import (
    DecodeSettings,
    Detections,
    DetectorFacts,
    DoesNotFit,
    cell_counts,
    class_count,
    corners,
    refuse_other_heads,
)
from trt_workbench.vision.families.head import HeadRows, WithAngles, WithKeypoints, YoloHead
from trt_workbench.vision.families.prototypes import WithMasks

# Candidates that enter suppression, best first: `max_nms` of Ultralytics' `non_max_suppression`.
_MAX_CANDIDATES = 30_000


@dataclass(frozen=True)
class YoloV8(YoloHead):
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
            refuse_other_heads(facts, end_to_end=False)
        if len(output.shape) != 3:
            raise DoesNotFit(f"the shape is not {cls.shape_text}")
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

    def _corners(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        return corners(*boxes.T)

    def head(self, shapes: Mapping[str, tuple[int, ...]], settings: DecodeSettings) -> Head | None:
        """Return what is done with outputs of these shapes, as `Family.head`."""
        _, rows, columns = shapes[self.output.name]
        channels, anchors = (columns, rows) if self.transposed else (rows, columns)
        # a rotated box is dropped by better ones that are dropped themselves, and by float32 functions of numpy's own
        if self.task == "rotated" or self.class_count is None:
            return None
        more = 4 + self.class_count
        if channels != more + self.more(self.output, self.facts):
            return None
        item, inner = (channels, 1) if self.transposed else (1, anchors)
        head = Head(
            *self.input_size,
            items=anchors,
            classes=self.class_count,
            kind="pairs",
            boxes=Place(self.output.name, 0, item, inner),
            scores=Place(self.output.name, 4 * inner, item, inner),
            form="centre",
            label_major=not self.transposed,
            conf=settings.conf,
            iou=self.overlap(settings),
            most=_MAX_CANDIDATES,
            max_dets=settings.max_dets,
        )
        return self.with_more(head, Place(self.output.name, more * inner, item, inner), shapes)

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
            best = _best(found, _MAX_CANDIDATES)
            anchors, labels, found = anchors[best], labels[best], found[best]
        labels = labels.astype(np.int64, copy=False)
        return self._made(HeadRows(head[:4, anchors].T, found, labels, head[4 + self.class_count :, anchors].T))


@dataclass(frozen=True)
class YoloV8Masks(WithMasks, YoloV8):
    """The same for instance segmentation."""

    name: ClassVar[str] = "yolov8-seg"
    shape_text: ClassVar[str] = "[N, 4 + classes + M, A] (centre x, centre y, width, height, scores, mask coefficients)"


@dataclass(frozen=True)
class YoloV8Keypoints(WithKeypoints, YoloV8):
    """The same for poses."""

    name: ClassVar[str] = "yolov8-pose"
    shape_text: ClassVar[str] = "[N, 4 + classes + n * d, A] (centre x, centre y, width, height, scores, keypoints)"


@dataclass(frozen=True)
class YoloV8Rotated(WithAngles, YoloV8):
    """The same for oriented boxes."""

    name: ClassVar[str] = "yolov8-obb"
    shape_text: ClassVar[str] = "[N, 4 + classes + 1, A] (centre x, centre y, width, height, scores, angle)"


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Return the ascending indices of the best scores, of equal ones the first. There are more than `count`."""
    last = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = scores > last
    of_last = np.flatnonzero(scores == last)[: count - np.count_nonzero(above)]
    return np.sort(np.concatenate([np.flatnonzero(above), of_last]))


def _class_count(channels: int | None, anchors: int | None, facts: DetectorFacts, more: int, *, any_grid: bool) -> int:
    """Return C if `[N, channels, anchors]` can be this head with `more` channels at its end, or raise DoesNotFit.

    `any_grid` takes anchors that are not the cells of a usual grid, as long as there are more of them than channels.
    """
    count = class_count(channels, 4 + more, facts, f"{channels} channels", "the box")
    usual = anchors is None or (facts.fixed_size and anchors in cell_counts(*facts.input_size))
    many = anchors is not None and channels is not None and anchors > channels
    if not usual and not (any_grid and many):
        text = f"{anchors} anchors do not match the grid cells of a {facts.input_size[0]}x{facts.input_size[1]} input"
        raise DoesNotFit(text)
    return count
