"""YOLOv10 and other end-to-end heads: `[N, K, 6]` as x1, y1, x2, y2, score, class, in input pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.errors import UsageProblem
from trt_workbench.pipeline.families.base import Detections, DoesNotFit, Family, ModelFacts
from trt_workbench.pipeline.families.grid import cell_counts


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
    def create(cls, output: TensorSpec, facts: ModelFacts) -> Self:
        """Return the family, or raise DoesNotFit."""
        if len(output.shape) != 3 or output.shape[2] not in (6, None if facts.forced else 6):
            text = f"the shape is not {cls.shape_text}"
            raise DoesNotFit(text)
        if not facts.forced and output.shape[1] in cell_counts(*facts.input_size):
            text = f"{output.shape[1]} rows are one for every cell of a grid"
            raise DoesNotFit(text)
        return cls(output, None if facts.names is None else len(facts.names), facts)

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        if image.shape[1] != 6:
            msg = f"Output {self.output.name} has rows of {image.shape[1]} values; {self.name} takes {self.shape_text}."
            raise UsageProblem(msg)
        scores = image[:, 4]
        self._check_scores(scores)
        rows = image.compress(scores > conf, axis=0)
        classes = rows[:, 5]
        labels = classes.astype(np.int64)
        if not (labels == classes).all() or labels.min(initial=0) < 0:
            msg = f"The sixth column of output {self.output} does not hold classes; it takes {self.shape_text}."
            raise UsageProblem(msg)
        if self.class_count is not None and labels.max(initial=0) >= self.class_count:
            msg = f"Output {self.output} holds class {labels.max()}, but the model names {self.class_count} classes."
            raise UsageProblem(msg)
        return Detections(rows[:, :4], rows[:, 4], labels)
