"""Masks as COCO's run-length encoding, in pixels of their image: those of annotations and those of a model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from hotcoco import mask
from numpy.typing import NDArray

from trt_workbench.vision.extras import Restored
from trt_workbench.vision.letterbox import Geometry


@dataclass(frozen=True)
class Masks(Restored):
    """One mask a box.

    Attributes:
        sizes: int32 [K, 2], height and width of the image of each.
        counts: their compressed run lengths, column by column, as pycocotools writes them.
    """

    words: ClassVar[str] = "masks"
    sizes: NDArray[np.int32]
    counts: tuple[bytes, ...]

    def take(self, rows: NDArray[np.intp]) -> Masks:
        """Return the masks at these indices."""
        return Masks(self.sizes[rows], tuple(self.counts[row] for row in rows))

    def restore(self, boxes: NDArray[np.float32], geometry: Geometry) -> Masks:  # noqa: ARG002 - as of every extra
        """Return them as they are: they are of the image already."""
        return self

    @classmethod
    def joined(cls, parts: Sequence[Masks]) -> Masks:
        """Return the masks of several images."""
        return cls(np.concatenate([one.sizes for one in parts]), tuple(each for one in parts for each in one.counts))

    def __len__(self) -> int:
        return len(self.counts)

    def entries(self, rows: slice) -> list[dict[str, Any]]:
        """Return COCO's `segmentation` of some masks."""
        pairs = zip(self.sizes[rows].tolist(), self.counts[rows], strict=True)
        return [{"segmentation": {"size": size, "counts": counts.decode("ascii")}} for size, counts in pairs]

    def encoded(self) -> list[dict[str, Any]]:
        """Return the masks as hotcoco and pycocotools take them."""
        pairs = zip(self.sizes.tolist(), self.counts, strict=True)
        return [{"size": size, "counts": counts} for size, counts in pairs]

    def planes(self) -> NDArray[np.bool_]:
        """Return the masks as pixels: bool [K, height, width]; all are of one image."""
        height, width = self.sizes[0] if len(self) else (0, 0)
        planes = [np.asarray(mask.decode(one), np.bool_) for one in self.encoded()]
        return np.array(planes, np.bool_).reshape(len(self), height, width)

    def areas(self) -> NDArray[np.float64]:
        """Return how many pixels each has."""
        return np.asarray(mask.area(self.encoded()), np.float64) if len(self) else np.empty(0)

    def spans(self) -> NDArray[np.float64]:
        """Return x, y, width and height of the true pixels of each; NaN where there is none."""
        found = np.array(mask.toBbox(self.encoded()), np.float64).reshape(-1, 4)
        return np.where(self.areas()[:, None] > 0, found, np.nan)

    def misread_spans(self) -> dict[str, NDArray[np.float64]]:
        """Return the spans of masks that were counted row by row."""
        planes = (np.asarray(mask.decode(one), np.bool_) for one in self.encoded())
        turned = (plane.ravel(order="F").reshape(plane.shape) for plane in planes)
        spans = [tight_box(plane) if plane.any() else (np.nan,) * 4 for plane in turned]
        return {"counted row by row (C order)": np.array(spans, np.float64).reshape(-1, 4)}


class Axis(NamedTuple):
    """Of each pixel of a side, the two pixels of the other size that it lies between, and the second one's share."""

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    weight: NDArray[np.float32]

    def part(self, rows: slice) -> Axis:
        """Return some of the pixels."""
        return Axis(self.low[rows], self.high[rows], self.weight[rows])

    def span(self) -> slice:
        """Return the least part of the other size that its pixels lie in."""
        return slice(int(self.low[0]), int(self.high[-1]) + 1) if len(self.low) else slice(0, 0)

    def within(self, span: slice) -> Axis:
        """Return where the pixels lie on a part of the other size."""
        return Axis(self.low - span.start, self.high - span.start, self.weight)


@functools.lru_cache(maxsize=64)
def axis(source: int, target: int, start: float = 0, length: float | None = None) -> Axis:
    """Return where the pixels of a side lie on another: bilinear, centres at halves, as PyTorch's `interpolate`.

    Args:
        source: pixels of the other side.
        target: pixels of the side.
        start: where on `source` the side begins.
        length: how much of `source` it lies on; None for all.
    """
    ratio = np.float32(source if length is None else length) / np.float32(target)
    place = (np.arange(target, dtype=np.float32) + np.float32(0.5)) * ratio + np.float32(start)
    place = np.maximum(place - np.float32(0.5), np.float32(0))
    low = np.minimum(place.astype(np.intp), source - 1)
    return Axis(low, np.minimum(low + 1, source - 1), (place - low).astype(np.float32))


def enlarged(logits: NDArray[np.float32], rows: Axis, columns: Axis) -> NDArray[np.bool_]:
    """Return where a plane of logits, interpolated at these pixels, is above 0: bool [rows, columns]."""
    return np.asarray(interpolated(logits, rows, columns) > 0)


def interpolated(logits: NDArray[np.float32], rows: Axis, columns: Axis) -> NDArray[np.float32]:
    """Return a plane of logits, interpolated at these pixels: float32 [rows, columns]."""
    span = columns.span()
    plane, columns = logits[:, span], columns.within(span)
    tall = plane[rows.low] * (1 - rows.weight[:, None]) + plane[rows.high] * rows.weight[:, None]
    left, right = tall[:, columns.low], tall[:, columns.high]
    return np.asarray(left * (1 - columns.weight) + right * columns.weight, np.float32)


def run_lengths(part: NDArray[np.bool_], top: int, left: int, size: tuple[int, int]) -> bytes:
    """Return a mask of an image of `size` that is `part` with its corner at `top`, `left`, and nothing elsewhere."""
    canvas = np.zeros(size, np.uint8, order="F")
    canvas[top : top + part.shape[0], left : left + part.shape[1]] = part
    counts: bytes = mask.encode(canvas)["counts"]
    return counts


def annotation_of(part: NDArray[np.bool_]) -> dict[str, Any]:
    """Return what COCO's annotation says of a mask as large as its image; it has a pixel."""
    # run lengths, as polygons cannot say the hole of a ring
    counts = run_lengths(part, 0, 0, part.shape).decode("ascii")
    return {
        "bbox": [*tight_box(part)],
        "area": float(np.count_nonzero(part)),
        "iscrowd": 0,
        "segmentation": {"size": [*part.shape], "counts": counts},
    }


def tight_box(part: NDArray[np.bool_]) -> tuple[float, float, float, float]:
    """Return x, y, width and height in pixels of the least box that holds every true pixel."""
    columns, rows = np.flatnonzero(part.any(axis=0)), np.flatnonzero(part.any(axis=1))
    x, y = columns[0], rows[0]
    return float(x), float(y), float(columns[-1] - x + 1), float(rows[-1] - y + 1)
