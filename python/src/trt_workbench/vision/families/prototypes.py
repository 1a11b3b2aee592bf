"""Masks of Ultralytics' segmentation heads: each box weighs the prototypes of its image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import FoundBoxes
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.extras import Columns, Extra
from trt_workbench.vision.families.base import DecodeSettings, Detections, DetectorFacts, DoesNotFit, not_finite
from trt_workbench.vision.families.head import YoloHead
from trt_workbench.vision.letterbox import Geometry
from trt_workbench.vision.masks import Masks, axis, enlarged, run_lengths
from trt_workbench.vision.tasks.names import TaskName

# Masks whose logits are held at once.
_AT_ONCE = 32


def prototypes_of(output: TensorSpec, facts: DetectorFacts) -> TensorSpec:
    """Return the output with the prototypes, next to that of the boxes, or raise DoesNotFit."""
    found = [one for one in facts.outputs if one.name != output.name and len(one.shape) == 4]
    if len(found) != 1 or found[0].shape[1] is None or not found[0].dtype.startswith("float"):
        text = "there is no one further output of prototypes [N, M, H/4, W/4] whose number M is known"
        raise DoesNotFit(text)
    return found[0]


@dataclass(frozen=True)
class WithMasks(YoloHead):
    """A head with the mask coefficients of each box, and a second output with the prototypes that they weigh."""

    task: ClassVar[TaskName] = "masks"
    reads: ClassVar[int] = 2

    @classmethod
    def more(cls, output: TensorSpec, facts: DetectorFacts) -> int:
        """Return how many prototypes there are, or raise DoesNotFit."""
        return prototypes_of(output, facts).shape[1] or 0

    def decode(self, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings | None = None) -> list[Detections]:
        """Return boxes with what makes masks of them, as `Family.decode`."""
        return self._weighed(super().decode(outputs, settings), outputs)

    def also(self) -> tuple[str, ...]:
        """Return the output with the prototypes."""
        return (prototypes_of(self.output, self.facts).name,)

    def completed(self, found: Sequence[FoundBoxes], outputs: Mapping[str, NDArray[Any]]) -> list[Detections]:
        """Return boxes that a device found, with what makes masks of them, as `Family.completed`."""
        made = []
        for one in found:
            assert one.more is not None  # as the head names them
            made.append(Detections(one.boxes, one.scores, one.labels, Columns(one.more)))
        return self._weighed(made, outputs)

    def _weighed(self, found: list[Detections], outputs: Mapping[str, NDArray[Any]]) -> list[Detections]:
        prototypes = prototypes_of(self.output, self.facts)
        (planes,) = self.read(outputs, prototypes.name)
        if planes.ndim != 4 or planes.shape[:2] != (len(found), prototypes.shape[1]):
            raise UsageProblem(
                f"Output {prototypes.name} has shape {list(planes.shape)}; {self.name} expects [{len(found)}, "
                f"{prototypes.shape[1]}, H/4, W/4]."
            )
        if not np.isfinite(planes).all():
            raise not_finite(prototypes)
        made = []
        for one, image in zip(found, planes, strict=True):
            assert isinstance(one.extra, Columns)  # as every head leaves them
            made.append(one._replace(extra=PrototypeMasks(one.extra.values, image, self.input_size)))
        return made


@dataclass(frozen=True)
class PrototypeMasks(Extra):
    """Masks before they are made.

    Source: Ultralytics' `SegmentationValidator` where it writes COCO's JSON (`save_json`): `process_mask_native` at the
    size of the input (logits enlarged bilinearly, above 0, inside the box), then `scale_masks` to the image, which
    keeps a pixel only where all that it is interpolated from is in the mask. Without `save_json` it compares masks at a
    quarter of the input's size (`process_mask`), which is coarser.

    Attributes:
        coefficients: float32 [K, M].
        prototypes: float [M, H/4, W/4], of the image.
        input_size: (height, width) of the model's input.
    """

    coefficients: NDArray[np.float32]
    prototypes: NDArray[Any]
    input_size: tuple[int, int]

    def take(self, rows: NDArray[np.intp]) -> PrototypeMasks:
        """Return those of some boxes."""
        return PrototypeMasks(self.coefficients.take(rows, axis=0), self.prototypes, self.input_size)

    def restore(self, boxes: NDArray[np.float32], geometry: Geometry) -> Masks:
        """Make the masks one by one, so that only their run lengths stay."""
        planes = self.prototypes.astype(np.float32, copy=False)
        flat, counts = planes.reshape(len(planes), -1), []
        for start in range(0, len(boxes), _AT_ONCE):
            logits = (self.coefficients[start : start + _AT_ONCE] @ flat).reshape(-1, *planes.shape[1:])
            counts += [
                _mask(plane, box, self.input_size, geometry)
                for plane, box in zip(logits, boxes[start : start + _AT_ONCE], strict=True)
            ]
        return Masks(np.tile(np.array(geometry.source, np.int32), (len(boxes), 1)), tuple(counts))


def _mask(
    logits: NDArray[np.float32], box: NDArray[np.float32], input_size: tuple[int, int], geometry: Geometry
) -> bytes:
    left, top, right, bottom = box.tolist()
    inside = [_inside(top, bottom, input_size[0]), _inside(left, right, input_size[1])]
    rows, columns = (
        axis(side, whole).part(part) for side, whole, part in zip(logits.shape, input_size, inside, strict=True)
    )
    found = enlarged(logits, rows, columns)
    # pixels of the image whose neighbours in the input are all in the box
    padding, places, starts = (geometry.top, geometry.left), [], []
    for part, pad, shown, whole in zip(inside, padding, geometry.resized, geometry.source, strict=True):
        across = axis(shown, whole)
        low, high = across.low, np.where(across.weight > 0, across.high, across.low)
        reached = np.flatnonzero((low + pad >= part.start) & (high + pad < part.stop))
        start = int(reached[0]) if len(reached) else 0
        kept, places_of = slice(start, start + len(reached)), pad - part.start
        places.append((low[kept] + places_of, high[kept] + places_of))
        starts.append(start)
    tall = found[places[0][0]] & found[places[0][1]]
    return run_lengths(tall[:, places[1][0]] & tall[:, places[1][1]], starts[0], starts[1], geometry.source)


def _inside(low: float, high: float, size: int) -> slice:
    """Return the whole pixels from `low` up to `high`, which is not in: where `crop_mask` leaves a mask."""
    first, end = (min(max(math.ceil(one), 0), size) for one in (low, high))
    return slice(first, max(first, end))
