"""Classes of pixels, which semantic segmentation finds, and their overlaps with those that are annotated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from hotcoco import mask
from numpy.typing import NDArray

from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.extras import TaskName
from trt_workbench.vision.figures import ImageMatches, ImageScores, Measure, Rows
from trt_workbench.vision.masks import Masks
from trt_workbench.vision.matches import ResampledFigures
from trt_workbench.vision.measure import MASKS, masks_of
from trt_workbench.vision.tasks.masks import InstanceMasks

_FIGURES: Final = {
    "mIoU": "intersection over union of pixels, mean over classes that are annotated or found",
    "pixel_accuracy": "share of annotated pixels whose class is found",
}


@dataclass(frozen=True)
class PixelScores(ImageScores):
    """Pixels by image and class.

    Attributes:
        categories: of the data set.
        both: int64 [N, categories], found and annotated.
        annotated: int64 [N, categories].
        found: int64 [N, categories]; those that are not to be scored are in none.
    """

    categories: tuple[Category, ...]
    both: NDArray[np.int64]
    annotated: NDArray[np.int64]
    found: NDArray[np.int64]

    @property
    def figures(self) -> dict[str, float | None]:
        """Both by their names."""
        resampled = self.of_resamples(np.ones((1, len(self.both)), np.int32)).figures
        return {name: None if np.isnan(values[0]) else float(values[0]) for name, values in resampled.items()}

    def per_class(self) -> list[dict[str, Any]]:
        """Return one JSON object for every category, with the images that have it."""
        ious, shares = self._by_class(np.ones((1, len(self.both)), np.int32))
        return [
            {
                "category_id": category.id,
                "name": category.name,
                "AP": None,
                "AP50": None,
                "mIoU": None if np.isnan(ious[0, place]) else float(ious[0, place]),
                "pixel_accuracy": None if np.isnan(shares[0, place]) else float(shares[0, place]),
                "ground_truths": int(np.count_nonzero(self.annotated[:, place])),
                "detections": int(np.count_nonzero(self.found[:, place])),
            }
            for place, category in enumerate(self.categories)
        ]

    def of_resamples(self, counts: NDArray[np.int32]) -> ResampledFigures:
        """Return the figures of resamples of the images: `counts` is int32 [resamples, images]."""
        ious, _ = self._by_class(counts)
        right, labelled = (counts @ one.sum(axis=1) for one in (self.both, self.annotated))
        known = ~np.isnan(ious)
        sums, number = np.where(known, ious, 0).sum(axis=1), known.sum(axis=1)
        return ResampledFigures({"mIoU": _ratio(sums, number), "pixel_accuracy": _ratio(right, labelled)}, ious)

    def _by_class(self, counts: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        both, annotated, found = (counts @ one for one in (self.both, self.annotated, self.found))
        return _ratio(both, annotated + found - both), _ratio(both, annotated)


class _MeanIou(Measure):
    """Pixels of all images by class."""

    prefix: ClassVar[str] = ""
    words: ClassVar[str] = "classes of pixels"
    figures: ClassVar[Mapping[str, str]] = _FIGURES
    main: ClassVar[tuple[str, str]] = ("mIoU", "pixel_accuracy")
    by_score: ClassVar[bool] = False

    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:
        return MASKS.overlaps(found, rows, truth, objects)

    def both(
        self, image_ids: NDArray[np.int64], truth: GroundTruth, categories: Sequence[Category], found: DetectionTable
    ) -> tuple[PixelScores, ImageMatches]:
        """Return the pixels of every image by class, which are decoded once."""
        ids = np.array([one.id for one in categories], np.int64)
        made = np.zeros((3, len(image_ids), len(ids)), np.int64)
        own, theirs = masks_of(truth), masks_of(found)
        for place, image in enumerate(image_ids.tolist()):
            rows, other = np.flatnonzero(truth.image_ids == image), np.flatnonzero(found.image_ids == image)
            sizes = [*own.sizes[rows], *theirs.sizes[other]]
            if not sizes:
                continue
            scored = ~_plane(own, rows[truth.crowd[rows]], sizes[0])
            labelled = rows[~truth.crowd[rows]]
            for column in np.flatnonzero(np.isin(ids, [*truth.category_ids[labelled], *found.category_ids[other]])):
                mine = _plane(own, labelled[truth.category_ids[labelled] == ids[column]], sizes[0]) & scored
                given = _plane(theirs, other[found.category_ids[other] == ids[column]], sizes[0]) & scored
                made[:, place, column] = (mine & given).sum(), mine.sum(), given.sum()
        scores = PixelScores(tuple(categories), *made)
        return scores, ImageMatches(scores)


def _plane(masks: Masks, rows: Rows, size: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return the pixels that any of some masks has."""
    if not len(rows):
        return np.zeros(tuple(size), np.bool_)
    return np.asarray(mask.decode(mask.merge(masks.take(rows).encoded())), np.bool_)


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """Return shares, NaN where the whole is 0."""
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


MEAN_IOU = _MeanIou()
"""As MMSegmentation and Ultralytics count: over the pixels of all images together, class by class."""


class SemanticMasks(InstanceMasks):
    """A mask a class of each image; of annotations all masks of a class are one, and those of crowds are not scored."""

    name: ClassVar[TaskName] = "semantic"
    words: ClassVar[str] = "semantic segmentation"
    rules: ClassVar[str] = "Semantic segmentation"
    measures: ClassVar[tuple[Measure, ...]] = (MEAN_IOU,)
    framed: ClassVar[bool] = False
