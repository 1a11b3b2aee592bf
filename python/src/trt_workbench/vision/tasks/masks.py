"""Masks: what a model for instance segmentation finds in addition to boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import cv2
import numpy as np
from hotcoco import mask
from numpy.typing import NDArray

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.boxes import FAR
from trt_workbench.vision.extras import TaskName
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.masks import Masks
from trt_workbench.vision.measure import BOXES, MASKS
from trt_workbench.vision.tasks.base import VisionTask, changed, described, require_polygon

if TYPE_CHECKING:
    from trt_workbench.vision.dataset import GroundTruth

# Polygons of fractions reach up to 1, and a little beyond; a few objects may be as small as that.
_LARGEST_SHARE, _NEARLY_ALL = 1.5, 0.95
_SHARE = 0.45  # of the colour in a painted pixel


class InstanceMasks(VisionTask):
    """Boxes with masks; of annotations polygons, run lengths and compressed run lengths, as pycocotools reads them."""

    name: ClassVar[TaskName] = "masks"
    words: ClassVar[str] = "instance segmentation"
    keys: ClassVar[frozenset[str]] = frozenset({"segmentation"})
    measures: ClassVar[tuple[Measure, ...]] = (BOXES, MASKS)

    def truth(self, rows: Sequence[Mapping[str, Any]], sizes: Sequence[tuple[int | None, int | None]]) -> Masks:
        """Return the masks of annotations."""
        made = [_annotated(row, place, *size) for place, (row, size) in enumerate(zip(rows, sizes, strict=True))]
        reach = [(max(map(max, row["segmentation"])), row) for row in rows if isinstance(row["segmentation"], list)]
        if reach and np.mean([far <= _LARGEST_SHARE < max(row["bbox"]) / 2 for far, row in reach]) >= _NEARLY_ALL:
            raise ValueError("its polygons reach hardly beyond 1 pixel: they look like fractions of the image (0 to 1)")
        return Masks(
            np.array([one["size"] for one in made], np.int32).reshape(-1, 2), tuple(one["counts"] for one in made)
        )

    def found(self, rows: Sequence[Mapping[str, Any]]) -> Masks:
        """Return the masks of rows of predictions.json."""
        try:
            made = [row["segmentation"] for row in rows]
            sizes = np.array([one["size"] for one in made], np.int32).reshape(-1, 2)
            masks = Masks(sizes, tuple(one["counts"].encode("ascii") for one in made))
            masks.areas()
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise changed(f"they hold no masks ({error})") from error
        return masks

    def require_sizes(self, truth: GroundTruth, sizes: Mapping[int, tuple[int, int]]) -> None:
        """Refuse masks of images of another size: they are compared pixel by pixel."""
        assert isinstance(truth.extra, Masks)  # as it was read
        pairs = zip(truth.image_ids.tolist(), map(tuple, truth.extra.sizes.tolist()), strict=True)
        unlike = {image: size for image, size in pairs if size != sizes[image]}
        if unlike:
            image, size = next(iter(unlike.items()))
            raise UsageProblem(
                f"Masks of {counted(len(unlike), 'image')} cannot be compared: the annotations give image {image} "
                f"{size[0]}x{size[1]} (height x width), and the file has {sizes[image][0]}x{sizes[image][1]}."
            )

    def paint(
        self, image: NDArray[np.uint8], entry: Mapping[str, Any], scale: float, colour: tuple[int, int, int]
    ) -> None:
        """Tint the pixels of the mask."""
        shown = np.zeros(image.shape[:2], np.uint8)
        try:
            if isinstance(found := entry.get("segmentation"), dict):
                height, width = (round(side / scale) for side in image.shape[:2])
                plane = mask.decode(_run_lengths(found, "it", height, width, slack=1))
                shown = np.asarray(cv2.resize(plane, image.shape[1::-1], interpolation=cv2.INTER_NEAREST), np.uint8)
            else:
                corners = [np.array(polygon, np.float64).reshape(-1, 2) * scale for polygon in found or ()]
                cv2.fillPoly(shown, [one.round().clip(-FAR, FAR).astype(np.int32) for one in corners], (1,))
        except (ValueError, TypeError):  # an annotation file that was changed since
            return
        pixels = shown.astype(np.bool_)
        image[pixels] = (image[pixels] * (1 - _SHARE) + np.array(colour) * _SHARE).astype(np.uint8)


def _annotated(row: Mapping[str, Any], place: int, height: int | None, width: int | None) -> dict[str, Any]:
    """Return the mask of an annotation, as pycocotools' `annToRLE` makes it. Raises ValueError."""
    found, which = row.get("segmentation"), described(row, place)
    if not found:
        raise ValueError(f"{which} has no segmentation, only a box, but the model finds masks")
    if not height or not width or min(height, width) < 1:
        raise ValueError(f"the image of {which} has no height and width, which a mask is of")
    if isinstance(found, dict):
        return _run_lengths(found, which, height, width)
    if not isinstance(found, list) or not all(isinstance(one, list) for one in found):
        raise ValueError(f"{which} has a segmentation that is neither a list of polygons nor run lengths")
    for polygon in found:
        require_polygon(polygon, which)
        if len(polygon) < 6:
            raise ValueError(f"{which} has a polygon of {len(polygon) // 2} points, which encloses nothing")
    merged: dict[str, Any] = mask.merge(mask.frPyObjects(found, height, width))
    return merged


def _run_lengths(found: Mapping[str, Any], which: str, height: int, width: int, slack: int = 0) -> dict[str, Any]:
    """Return run lengths of either kind, compressed, of an image of that size or nearly so. Raises ValueError."""
    size, counts = found.get("size"), found.get("counts")
    if not isinstance(size, list | tuple) or len(size) != 2 or not all(isinstance(one, int) for one in size):
        raise ValueError(f"{which} has run lengths without their size (height, width)")
    if max(abs(size[0] - height), abs(size[1] - width)) > slack:
        raise ValueError(f"{which} has a mask of an image of {[*size]} (height, width), not of {[height, width]}")
    pixels, made, summed = size[0] * size[1], {"size": [*size], "counts": b""}, -1
    try:
        if isinstance(counts, list):
            summed = sum(one if isinstance(one, int) and one >= 0 else pixels + 1 for one in counts)
            made = mask.frPyObjects({**made, "counts": counts}, *size) if summed == pixels else made
        elif isinstance(counts, str):
            made["counts"] = counts.encode("ascii")
            summed = _counted(counts.encode("ascii"))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{which} has damaged run lengths ({error})") from error
    if summed != pixels:
        raise ValueError(f"{which} has run lengths that do not add up to the pixels of its image")
    return made


def _counted(counts: bytes) -> int:
    """Return the sum of compressed run lengths; from the fourth on they are differences from the one before last."""
    runs: list[int] = []
    place = 0
    while place < len(counts):
        value, shift, more = 0, 0, True
        while more:
            if place >= len(counts):
                raise ValueError("they are cut short")
            part = counts[place] - 48
            value |= (part & 0x1F) << shift
            more, shift, place = bool(part & 0x20), shift + 5, place + 1
            if not more and part & 0x10:
                value |= -1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
    return sum(runs)
