"""What the heads of YOLO share: rows of a box, scores and, of some tasks, further values."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import Head, Place
from trt_workbench.vision.extras import Columns
from trt_workbench.vision.families.base import Detections, DetectorFacts, Family, not_finite


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
