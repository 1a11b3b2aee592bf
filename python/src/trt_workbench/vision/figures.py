"""What every way to score is and gives: figures of the images as they are, and of resamples of them."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable

if TYPE_CHECKING:
    from trt_workbench.vision.matches import ResampledFigures, Verdicts

Rows = NDArray[np.intp]


class Scores(Protocol):
    """Figures of the images as they are."""

    @property
    def figures(self) -> dict[str, float | None]:
        """By our names; None where there is nothing to score."""

    @property
    def categories(self) -> Sequence[Category]:
        """Of the data set."""

    def per_class(self) -> list[dict[str, Any]]:
        """Return one JSON object for every category: what it is, and its figures."""

    def curves(self) -> dict[str, Any]:
        """Return the content of curves.json."""


class Matches(Protocol):
    """Which detections are right, kept so that the figures of any resample of the images cost little."""

    def figures(self, counts: NDArray[np.int32]) -> ResampledFigures:
        """Return the figures of resamples; `counts` is int32 [resamples, images], how often each was drawn."""

    def require_agreement(self, figures: Mapping[str, float | None]) -> None:
        """Raise RuntimeError, a defect, unless `figures` are those of every image once, which intervals are of."""

    def verdicts(self) -> list[Verdicts] | None:
        """Return what was found of each category; None where no threshold of scores decides that."""


class Measure(abc.ABC):
    """One way to score, with the names of its figures. Without state.

    Attributes:
        prefix: of its figures in metrics.json.
        words: what is scored, in the plural.
        figures: their meanings by name.
        main: the one that models are compared by, and the one that is shown next to it.
        by_score: whether a threshold of scores decides what is found.
        exact: whether its overlaps are those that its figures are made of, to the last bit.
    """

    prefix: ClassVar[str]
    words: ClassVar[str]
    figures: ClassVar[Mapping[str, str]]
    main: ClassVar[tuple[str, str]] = ("AP", "AP50")
    by_score: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    @abc.abstractmethod
    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:
        """Return the overlap of some detections with some annotations, float64 [rows, objects]."""

    def pair_overlaps(
        self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows
    ) -> NDArray[np.float64]:
        """Return the overlap of pairs, float64 [P]; in each image every one of some rows is with every object."""
        ids = found.image_ids[rows]
        begins, made = np.flatnonzero(ids[1:] != ids[:-1]) + 1, [np.empty(0)]
        for mine, theirs in zip(np.split(rows, begins), np.split(objects, begins), strict=True):
            many = int(np.count_nonzero(mine == mine[:1]))
            made.append(self.overlaps(found, mine[::many], truth, theirs[:many]).ravel() if many else made[0])
        return np.concatenate(made)

    @abc.abstractmethod
    def both(
        self, image_ids: NDArray[np.int64], truth: GroundTruth, categories: Sequence[Category], found: DetectionTable
    ) -> tuple[Scores, Matches]:
        """Return the figures of detections on images, whose ids are ascending, and what makes those of resamples."""

    def matches(
        self, image_ids: NDArray[np.int64], truth: GroundTruth, categories: Sequence[Category], found: DetectionTable
    ) -> Matches:
        """Return what makes the figures of resamples alone, as `both`."""
        return self.both(image_ids, truth, categories, found)[1]

    def scored(self, truth: GroundTruth, found: DetectionTable) -> DetectionTable:  # noqa: ARG002 - of all data sets
        """Return the detections that count, as right or wrong."""
        return found


class ImageScores(abc.ABC):
    """Figures that are sums over the images, whatever the scores of what was found are. They are `Scores`."""

    @abc.abstractmethod
    def of_resamples(self, counts: NDArray[np.int32]) -> ResampledFigures:
        """Return the figures of resamples, as `Matches.figures`."""

    def curves(self) -> dict[str, Any]:
        """Return no curve: nothing is found by a threshold."""
        return {"recall": [], "mean": {}, "classes": []}


class ImageMatches:
    """Resamples of `ImageScores`. They are `Matches`."""

    def __init__(self, scores: ImageScores) -> None:
        """Take the images as they are."""
        self.figures = scores.of_resamples

    def require_agreement(self, figures: Mapping[str, float | None]) -> None:
        """Nothing to compare: both come from the same images."""

    def verdicts(self) -> None:
        """Return nothing: no threshold of scores decides."""
