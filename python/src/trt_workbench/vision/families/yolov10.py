"""YOLOv10 and other end-to-end heads: `[N, K, 6]` as x1, y1, x2, y2, score, class, in input pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.vision.families.base import (
    Detections,
    DetectorFacts,
    DoesNotFit,
    Family,
    cell_counts,
    refuse_other_heads,
    row_detections,
)


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
        certain = facts.forced or facts.end_to_end
        if len(output.shape) != 3 or output.shape[2] not in (6, None if certain else 6):
            text = f"the shape is not {cls.shape_text}"
            raise DoesNotFit(text)
        if not facts.forced and output.shape[1] in cell_counts(*facts.input_size):
            text = f"{output.shape[1]} rows are one per grid cell"
            raise DoesNotFit(text)
        return cls(output, None if facts.names is None else len(facts.names), facts)

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        rows, scores, labels = row_detections(self, image, conf)
        return Detections(rows[:, :4], scores, labels)
