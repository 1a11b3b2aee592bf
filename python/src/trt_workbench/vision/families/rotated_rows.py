"""Rotated boxes of Ultralytics' heads: centre, size and, last in a row, an angle in radians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import FoundBoxes
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families.base import Detections, DetectorFacts, not_finite
from trt_workbench.vision.families.head import HeadRows, YoloHead
from trt_workbench.vision.rotated import RotatedBoxes, rotated_nms
from trt_workbench.vision.tasks.names import TaskName

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
