"""DETR with a mask for each query: RF-DETR-Seg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.extras import Columns, Extra, TaskName
from trt_workbench.vision.families.base import DecodeSettings, Detections, DetectorFacts, DoesNotFit, not_finite
from trt_workbench.vision.families.detr_logits import DetrLogits
from trt_workbench.vision.letterbox import Geometry
from trt_workbench.vision.masks import Masks, axis, enlarged, run_lengths

_MASKS = ("masks", "pred_masks")


def masks_among(outputs: Sequence[TensorSpec]) -> TensorSpec | None:
    """Return the output with the masks, of floats and rank 4, by the names that exporters give it; None without one."""
    found = (one for one in outputs if one.name in _MASKS and len(one.shape) == 4)
    return next((one for one in found if one.dtype.startswith("float")), None)


@dataclass(frozen=True)
class DetrMasks(DetrLogits):
    """Boxes and logits as `detr-logits`, and mask logits of each query at a part of the input's size.

    Source: RF-DETR's `PostProcess`: mask logits are enlarged bilinearly to the image and count above 0, also outside of
    the box; boxes are clipped to the image.
    """

    name: ClassVar[str] = "detr-masks"
    task: ClassVar[TaskName] = "masks"
    by_shape: ClassVar[bool] = False
    clips_boxes: ClassVar[bool] = True
    shape_text: ClassVar[str] = f"{DetrLogits.shape_text}, and masks [N, Q, h, w]"

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family for the output with the boxes, or raise DoesNotFit."""
        if masks_among(facts.outputs) is None:
            raise DoesNotFit(f"no output of floats [N, Q, h, w] is named {' or '.join(_MASKS)}")
        return super().create(output, facts)

    def decode(self, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings | None = None) -> list[Detections]:
        """Return boxes with their queries' mask logits, as `Family.decode`."""
        spec = masks_among(self.facts.outputs)
        assert spec is not None  # as `create` found it
        boxes, planes = self.read(outputs, self.output.name, spec.name)
        if planes.ndim != 4 or planes.shape[:2] != boxes.shape[:2]:
            raise UsageProblem(
                f"Output {spec.name} has shape {list(planes.shape)} next to boxes {list(boxes.shape)}; {self.name} "
                f"takes {self.shape_text}."
            )
        if not np.isfinite(planes).all():
            raise not_finite(spec)
        made = []
        for one, image in zip(super().decode(outputs, settings), planes, strict=True):
            assert isinstance(one.extra, Columns)  # as below
            made.append(one._replace(extra=QueryMasks(one.extra.values[:, 0].astype(np.intp), image)))
        return made

    def _extra(self, queries: NDArray[np.intp]) -> Extra:
        return Columns(queries[:, None].astype(np.float32))


@dataclass(frozen=True)
class QueryMasks(Extra):
    """Masks before they are made.

    Attributes:
        queries: int [K], of each box.
        logits: float [Q, h, w], of the image's queries.
    """

    queries: NDArray[np.intp]
    logits: NDArray[Any]

    def take(self, rows: NDArray[np.intp]) -> QueryMasks:
        """Return those of some boxes."""
        return QueryMasks(self.queries.take(rows), self.logits)

    def restore(self, boxes: NDArray[np.float32], geometry: Geometry) -> Masks:
        """Make the masks one by one, those of one query once."""
        rows, columns = (axis(*pair) for pair in zip(self.logits.shape[1:], geometry.source, strict=True))
        made = {
            query: run_lengths(enlarged(self.logits[query].astype(np.float32), rows, columns), 0, 0, geometry.source)
            for query in np.unique(self.queries).tolist()
        }
        sizes = np.tile(np.array(geometry.source, np.int32), (len(boxes), 1))
        return Masks(sizes, tuple(made[query] for query in self.queries.tolist()))
