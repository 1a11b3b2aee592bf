"""What the heads of YOLO share: rows of a box, scores and, of poses and rotated boxes, further values."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import FoundBoxes, Head, Place
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.extras import Columns, TaskName
from trt_workbench.vision.families.base import Detections, DetectorFacts, DoesNotFit, Family, not_finite
from trt_workbench.vision.keypoints import Keypoints
from trt_workbench.vision.rotated import RotatedBoxes, rotated_nms


class HeadRows(NamedTuple):
    """Candidates as the output has them: boxes [K, 4], scores [K], labels [K] and further values [K, more]."""

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    more: NDArray[np.float32]


@dataclass(frozen=True)
class YoloHead(Family):
    """A family of rows, each of which may end in further values."""

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:  # noqa: ARG003 - for those that override it
        """Return how many further values a row has, or raise DoesNotFit."""
        return 0

    def with_more(self, head: Head, place: Place, shapes: Mapping[str, tuple[int, ...]]) -> Head | None:  # noqa: ARG002
        """Return the head of a device with the further values of each row, of which `place` is the first.

        None where only the processor can do what the task needs of outputs of these shapes.
        """
        values = self.more(self.output, self.facts)
        return dataclasses.replace(head, more=place, values=values) if values else head

    @abc.abstractmethod
    def _corners(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return boxes of the output as x1, y1, x2, y2."""

    def _made(self, rows: HeadRows) -> Detections:
        """Return candidates with their further values. Raises CheckFailed where these are NaN or infinite."""
        if not np.isfinite(rows.more).all():
            raise not_finite(self.output)
        extra = Columns(rows.more) if rows.more.shape[1] else None
        return Detections(self._corners(rows.boxes), rows.scores, rows.labels, extra)


@dataclass(frozen=True)
class WithKeypoints(YoloHead):
    """A head with the keypoints of each box, in input pixels; their number is in the metadata (`kpt_shape`)."""

    task: ClassVar[TaskName] = "keypoints"
    by_shape: ClassVar[bool] = False

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:  # noqa: ARG003 - as of every head
        """Return how many values the keypoints of a box have, or raise DoesNotFit."""
        return math.prod(_keypoints_of(facts))

    def completed(self, found: Sequence[FoundBoxes]) -> list[Detections]:
        """Return boxes that a device found, with their keypoints, as `Family.completed`."""
        shape, made = _keypoints_of(self.facts), []
        for one in found:
            assert one.more is not None  # as the head names them
            made.append(Detections(one.boxes, one.scores, one.labels, Keypoints.of_model(one.more, shape)))
        return made

    def _made(self, rows: HeadRows) -> Detections:
        return super()._made(rows)._replace(extra=Keypoints.of_model(rows.more, _keypoints_of(self.facts)))


def _keypoints_of(facts: DetectorFacts) -> tuple[int, int]:
    """Return how many keypoints there are and the values of each, or raise DoesNotFit."""
    if facts.keypoints is None:
        raise DoesNotFit("the metadata does not say how many keypoints there are (`kpt_shape`)")
    return facts.keypoints


# Radians of trained heads lie within a turn; of angles in degrees most do not.
_TURN, _TOO_MANY = 2 * np.pi, 0.5


@dataclass(frozen=True)
class WithAngles(YoloHead):
    """A head with boxes as centre and size at an angle; they are not clipped, and those of `Detections` enclose them.

    Source: `non_max_suppression(rotated=True)`: a better box of a probabilistic IoU above the threshold drops another.
    """

    task: ClassVar[TaskName] = "rotated"
    by_shape: ClassVar[bool] = False
    clips_boxes: ClassVar[bool] = False

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:  # noqa: ARG003 - as of every head
        """Return that there is an angle."""
        return 1

    def completed(self, found: Sequence[FoundBoxes]) -> list[Detections]:
        """Return rotated boxes that a device found, as `Family.completed`."""
        made = []
        for one in found:
            assert one.more is not None  # as the head names them
            made.append(self._made(HeadRows(one.boxes, one.scores, one.labels, one.more)))
            if not np.isfinite(made[-1].boxes).all():
                raise not_finite(self.output)
        return made

    def _made(self, rows: HeadRows) -> Detections:
        if not np.isfinite(rows.more).all():
            raise not_finite(self.output)
        if len(rows.more) and (np.abs(rows.more) > _TURN).mean() > _TOO_MANY:
            raise UsageProblem(
                f"Most angles in output {self.output} are beyond a turn, up to {np.abs(rows.more).max():.4g}: they "
                f"look like degrees, but family {self.name} expects radians."
            )
        extra = RotatedBoxes(np.concatenate([rows.boxes, rows.more], axis=1))
        return Detections(extra.enclosing(), rows.scores, rows.labels, extra)

    def _survivors(self, found: Detections, iou: float, limit: int) -> NDArray[np.intp]:
        assert isinstance(found.extra, RotatedBoxes)  # as above
        return rotated_nms(found.extra.boxes, found.scores, found.labels, iou, limit)
