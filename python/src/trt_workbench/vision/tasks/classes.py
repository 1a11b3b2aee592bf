"""Classes of whole images: what a classifier finds, and how often the right one is the best, or among the best five."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable, ranks
from trt_workbench.vision.document import ImageRecord
from trt_workbench.vision.extras import TaskName
from trt_workbench.vision.figures import ImageMatches, ImageScores, Measure, Rows
from trt_workbench.vision.matches import ResampledFigures
from trt_workbench.vision.tasks.base import Corners, VisionTask

RANKS: Final = 5
_FIGURES: Final = {
    "top1": "share of images whose best class is right",
    f"top{RANKS}": f"share of images with the right class among the best {RANKS}",
}


@dataclass(frozen=True)
class TopScores(ImageScores):
    """Images by whether their class was found.

    Attributes:
        categories: of the data set.
        labels: int [N], place of each image's category.
        right: bool [N] by figure, only of those that say something of so many categories.
        detections: int64 [categories], images for which each was the best.
    """

    categories: tuple[Category, ...]
    labels: NDArray[np.intp]
    right: dict[str, NDArray[np.bool_]]
    detections: NDArray[np.int64]

    @property
    def figures(self) -> dict[str, float | None]:
        """Both by their names; None of the best five of no more categories."""
        return {name: float(self.right[name].mean()) if name in self.right else None for name in _FIGURES}

    def per_class(self) -> list[dict[str, Any]]:
        """Return one JSON object for every category, with the share of its images that are right."""
        images = np.bincount(self.labels, minlength=len(self.categories))
        sums = {name: np.bincount(self.labels, right, len(images)) for name, right in self.right.items()}
        return [
            {
                "category_id": category.id,
                "name": category.name,
                "AP": None,
                "AP50": None,
                **{
                    name: float(sums[name][place] / images[place]) if name in sums and images[place] else None
                    for name in _FIGURES
                },
                "ground_truths": int(images[place]),
                "detections": int(self.detections[place]),
            }
            for place, category in enumerate(self.categories)
        ]

    def of_resamples(self, counts: NDArray[np.int32]) -> ResampledFigures:
        """Return the figures of resamples of the images: `counts` is int32 [resamples, images]."""
        found = {name: counts @ right / counts.sum(axis=1) for name, right in self.right.items()}
        absent = {name: np.full(len(counts), np.nan) for name in _FIGURES if name not in found}
        return ResampledFigures(found | absent, self._by_class(counts), self.right["top1"].astype(np.float64))

    def _by_class(self, counts: NDArray[np.int32]) -> NDArray[np.float64]:
        labels, right = self.labels, self.right["top1"]
        order = np.argsort(labels, kind="stable")
        present, starts = np.unique(labels[order], return_index=True)
        shares = np.full((len(counts), len(self.categories)), np.nan)
        drawn = counts[:, order]
        images = np.add.reduceat(drawn, starts, axis=1)
        sums = np.add.reduceat(drawn * right[order], starts, axis=1)
        shares[:, present] = np.where(images > 0, sums / np.maximum(images, 1), np.nan)
        return shares


class _TopClasses(Measure):
    """Classes of images; a detection is a class of its image, the best first."""

    prefix: ClassVar[str] = ""
    words: ClassVar[str] = "classes of images"
    figures: ClassVar[Mapping[str, str]] = _FIGURES
    main: ClassVar[tuple[str, str]] = ("top1", f"top{RANKS}")
    by_score: ClassVar[bool] = False

    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:  # noqa: ARG002
        return np.ones((len(rows), len(objects)))

    def scored(self, truth: GroundTruth, found: DetectionTable) -> DetectionTable:  # noqa: ARG002
        """Return the best class of each image."""
        return found.select(np.flatnonzero(ranks(found.image_ids) == 0))

    def both(
        self,
        image_ids: NDArray[np.int64],  # noqa: ARG002 - each has an annotation
        truth: GroundTruth,
        categories: Sequence[Category],
        found: DetectionTable,
    ) -> tuple[TopScores, ImageMatches]:
        """Return which images are right; an image is one annotation."""
        truth = truth.select(np.argsort(truth.image_ids, kind="stable"))
        ids, places = np.array([one.id for one in categories], np.int64), ranks(found.image_ids)
        own = np.searchsorted(truth.image_ids, found.image_ids)
        hits = truth.category_ids[own] == found.category_ids
        right = {}
        for name, most in zip(_FIGURES, (1, RANKS), strict=True):
            if most == 1 or len(categories) > most:
                right[name] = np.zeros(len(truth), np.bool_)
                right[name][own[hits & (places < most)]] = True
        best = np.bincount(np.searchsorted(ids, found.category_ids[places == 0]), minlength=len(ids))
        scores = TopScores(tuple(categories), np.searchsorted(ids, truth.category_ids), right, best)
        return scores, ImageMatches(scores)


TOP_CLASSES = _TopClasses()


_LINE = 20.0  # pixels of a label


class ImageClasses(VisionTask):
    """Classes, the best first, each with its whole image as a box."""

    name: ClassVar[TaskName] = "classes"
    words: ClassVar[str] = "classification"
    rules: ClassVar[str] = "Classification"
    of_images: ClassVar[bool] = True
    most: ClassVar[int | None] = RANKS
    measures: ClassVar[tuple[Measure, ...]] = (TOP_CLASSES,)
    framed: ClassVar[bool] = False

    def verdict(self, record: ImageRecord) -> str:
        """Say whether the best class of an image is right."""
        return "right" if record["true_positives"] else "wrong"

    def label_place(self, box: Corners, place: int) -> Corners:
        """Return a place below the labels of better classes; a label is drawn above the box."""
        return (box[0], box[1] + (place + 1) * _LINE, *box[2:])
