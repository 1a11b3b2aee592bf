"""Keypoints of Ultralytics' heads, at the end of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import FoundBoxes
from trt_workbench.vision.families.base import Detections, DetectorFacts, DoesNotFit
from trt_workbench.vision.families.head import HeadRows, YoloHead
from trt_workbench.vision.keypoints import Keypoints
from trt_workbench.vision.tasks.names import TaskName


@dataclass(frozen=True)
class WithKeypoints(YoloHead):
    """A head with the keypoints of each box, in input pixels; their number is in the metadata (`kpt_shape`)."""

    task: ClassVar[TaskName] = "keypoints"
    by_shape: ClassVar[bool] = False

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:  # noqa: ARG003 - as of every head
        """Return how many values the keypoints of a box have, or raise DoesNotFit."""
        return math.prod(_shape(facts))

    def completed(self, found: Sequence[FoundBoxes]) -> list[Detections]:
        """Return boxes that a device found, with their keypoints, as `Family.completed`."""
        shape, made = _shape(self.facts), []
        for one in found:
            assert one.more is not None  # as the head names them
            made.append(Detections(one.boxes, one.scores, one.labels, Keypoints.of_model(one.more, shape)))
        return made

    def _made(self, rows: HeadRows) -> Detections:
        return super()._made(rows)._replace(extra=Keypoints.of_model(rows.more, _shape(self.facts)))


def _shape(facts: DetectorFacts) -> tuple[int, int]:
    """Return how many keypoints there are and the values of each, or raise DoesNotFit."""
    if facts.keypoints is None:
        raise DoesNotFit("the metadata does not say how many keypoints there are (`kpt_shape`)")
    return facts.keypoints
