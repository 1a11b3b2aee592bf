"""Masks of Ultralytics' segmentation heads: each box weighs the prototypes of its image."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import FoundBoxes, Head, Place
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.extras import Columns, Extra, TaskName
from trt_workbench.vision.families.base import DecodeSettings, Detections, DetectorFacts, DoesNotFit, not_finite
from trt_workbench.vision.families.head import YoloHead
from trt_workbench.vision.letterbox import Geometry
from trt_workbench.vision.masks import Masks, axis, enlarged, run_lengths

_WORD = 32  # pixels of a mask in a word of a device


def prototypes_of(output: TensorSpec, facts: DetectorFacts) -> TensorSpec:
    """Return the output with the prototypes, next to that of the boxes, or raise DoesNotFit."""
    found = [one for one in facts.outputs if one.name != output.name and len(one.shape) == 4]
    if len(found) != 1 or found[0].shape[1] is None or not found[0].dtype.startswith("float"):
        raise DoesNotFit("there is no one further output of prototypes [N, M, H/4, W/4] whose number M is known")
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

    def with_more(self, head: Head, place: Place, shapes: Mapping[str, tuple[int, ...]]) -> Head | None:
        """Return the head with the prototypes, as `YoloHead.with_more`; None where they are larger than the input."""
        name, made = prototypes_of(self.output, self.facts).name, super().with_more(head, place, shapes)
        _, count, height, width = shapes[name]
        if made is None or count != made.values or height > made.height or width > made.width:
            return None
        planes = Place(name, 0, height * width)
        return dataclasses.replace(made, planes=planes, plane_height=height, plane_width=width)

    def completed(self, found: Sequence[FoundBoxes]) -> list[Detections]:
        """Return boxes that a device found, with their masks, as `Family.completed`."""
        made = []
        for one in found:
            assert one.masks is not None  # as the head names them
            extra = FoundMasks.of_words(one.masks, one.boxes, self.input_size)
            made.append(Detections(one.boxes, one.scores, one.labels, extra))
        return made

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
            made.append(one._replace(extra=PrototypeMasks(self.input_size, one.extra.values, image)))
        return made


@dataclass(frozen=True)
class InputMasks(Extra):
    """Masks in pixels of the model's input, before they are the image's.

    Source: Ultralytics' `SegmentationValidator` where it writes COCO's JSON (`save_json`): `process_mask_native` at the
    size of the input (logits enlarged bilinearly, above 0, inside the box), then `scale_masks` to the image, which
    keeps a pixel only where all that it is interpolated from is in the mask. Without `save_json` it compares masks at a
    quarter of the input's size (`process_mask`), which is coarser.

    Attributes:
        input_size: (height, width) of the model's input.
    """

    input_size: tuple[int, int]

    @abc.abstractmethod
    def parts(self, boxes: NDArray[np.float32]) -> Iterator[NDArray[np.bool_]]:
        """Yield the mask of each box, as large as `pixels_in` it."""

    def arrays(self, boxes: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Return the masks of all boxes."""
        return [*self.parts(boxes)]

    def restore(self, boxes: NDArray[np.float32], geometry: Geometry) -> Masks:
        """Make the masks one by one, so that only their run lengths stay."""
        pairs = zip(self.parts(boxes), boxes, strict=True)
        counts = tuple(_in_image(part, pixels_in(box, self.input_size), geometry) for part, box in pairs)
        return Masks(np.tile(np.array(geometry.source, np.int32), (len(boxes), 1)), counts)


@dataclass(frozen=True)
class PrototypeMasks(InputMasks):
    """Masks that are still to be made.

    Attributes:
        coefficients: float32 [K, M].
        prototypes: float [M, H/4, W/4], of the image.
    """

    coefficients: NDArray[np.float32]
    prototypes: NDArray[Any]

    def take(self, rows: NDArray[np.intp]) -> PrototypeMasks:
        """Return those of some boxes."""
        return PrototypeMasks(self.input_size, self.coefficients.take(rows, axis=0), self.prototypes)

    def parts(self, boxes: NDArray[np.float32]) -> Iterator[NDArray[np.bool_]]:
        """Yield the mask of each box; prototypes are added up in their order, so that a device can do the same."""
        planes = self.prototypes.astype(np.float32, copy=False)
        for weights, box in zip(self.coefficients, boxes, strict=True):
            inside = pixels_in(box, self.input_size)
            rows, columns = (
                axis(side, whole).part(part)
                for side, whole, part in zip(planes.shape[1:], self.input_size, inside, strict=True)
            )
            tall, wide = rows.span(), columns.span()
            with np.errstate(over="ignore", invalid="ignore"):  # a sum that is not finite is not above 0, or it is
                first, *others = planes[:, tall, wide] * weights[:, None, None]
                for one in others:
                    first += one
                yield enlarged(first, rows.within(tall), columns.within(wide))


@dataclass(frozen=True)
class FoundMasks(InputMasks):
    """Masks that a device made.

    Attributes:
        words: of each box uint32 [rows, words], as `FoundBoxes.masks` has them.
    """

    words: tuple[NDArray[np.uint32], ...]

    @classmethod
    def of_words(cls, words: NDArray[np.uint32], boxes: NDArray[np.float32], input_size: tuple[int, int]) -> FoundMasks:
        """Return the masks of these boxes, whose words lie one behind the other."""
        sizes = [[one.stop - one.start for one in pixels_in(box, input_size)] for box in boxes]
        shapes = [(height, (width + _WORD - 1) // _WORD) for height, width in sizes]
        ends = np.cumsum([0, *(height * width for height, width in shapes)]).tolist()
        made = [words[slice(*part)].reshape(shape) for part, shape in zip(pairwise(ends), shapes, strict=True)]
        return cls(input_size, tuple(made))

    def take(self, rows: NDArray[np.intp]) -> FoundMasks:
        """Return those of some boxes."""
        return FoundMasks(self.input_size, tuple(self.words[row] for row in rows.tolist()))

    def parts(self, boxes: NDArray[np.float32]) -> Iterator[NDArray[np.bool_]]:
        """Yield the mask of each box."""
        for words, box in zip(self.words, boxes, strict=True):
            _, columns = pixels_in(box, self.input_size)
            bits = np.unpackbits(words.astype("<u4", copy=False).view(np.uint8), axis=1, bitorder="little")
            yield bits[:, : columns.stop - columns.start].view(np.bool_)


def _in_image(found: NDArray[np.bool_], inside: tuple[slice, slice], geometry: Geometry) -> bytes:
    """Return the run lengths of a mask that is `inside` the input, in the image."""
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


def pixels_in(box: NDArray[np.float32], size: tuple[int, int]) -> tuple[slice, slice]:
    """Return the rows and columns of an input of this size that lie in a box [4]."""
    left, top, right, bottom = box.tolist()
    return _inside(top, bottom, size[0]), _inside(left, right, size[1])


def _inside(low: float, high: float, size: int) -> slice:
    """Return the whole pixels from `low` up to `high`, which is not in: where `crop_mask` leaves a mask."""
    first, end = (min(max(math.ceil(one), 0), size) for one in (low, high))
    return slice(first, max(first, end))
