"""What models for classes without objects share: classifiers and semantic segmentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families.base import Detections, DetectorFacts, DoesNotFit, Family, not_finite


@dataclass(frozen=True)
class PerClass(Family):
    """One output whose second axis is of classes.

    Attributes:
        rank: of the output.
    """

    by_shape: ClassVar[bool] = False
    default_iou: ClassVar[float | None] = None
    clips_boxes: ClassVar[bool] = False
    asks_normalize: ClassVar[bool] = True
    rank: ClassVar[int]

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family for this output, or raise DoesNotFit."""
        named = facts.named
        if len(output.shape) != cls.rank:
            raise DoesNotFit(f"its shape is not {cls.shape_text}")
        count = output.shape[1] or named
        if named and count != named:
            raise DoesNotFit(f"it has {count} classes, but the metadata names {named}")
        return cls(output, count, facts)

    def left_open(self) -> dict[str, tuple[str, ...]]:
        """Return what nobody says; Ultralytics, whose metadata names the task, does not normalise."""
        return {} if self.facts.task == self.task else super().left_open()

    def batch_of(self, outputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return the output as float32; raises as `decode`."""
        (batch,) = self.read(outputs, self.output.name)
        if batch.ndim != self.rank or self.class_count not in (None, batch.shape[1]):
            raise UsageProblem(
                f"Output {self.output.name} has shape {list(batch.shape)}; {self.name} expects {self.shape_text}."
            )
        batch = batch.astype(np.float32, copy=False)
        if not np.isfinite(batch).all():
            raise not_finite(self.output)
        return batch

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        raise NotImplementedError  # `decode` needs none
