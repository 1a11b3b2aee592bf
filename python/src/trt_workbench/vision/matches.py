"""Which detections found which objects, kept so that COCO's figures of any resample of the images cost little.

hotcoco scores the images as they are; it accumulates a resample in 80 ms, and hands out its matches object by object in
Python. Here the matching of pycocotools' `evaluateImg` is done once, and `CocoMatches.figures` accumulates a thousand
resamples together. With every image once it gives hotcoco's figures, which the tests check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.compare import difference
from trt_workbench.core.statistics.summary import interval
from trt_workbench.vision.accumulate import accumulate
from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable, ranks
from trt_workbench.vision.measure import BOXES, CocoMeasure
from trt_workbench.vision.pairs import Spans, Turns, by_value, pairs_of, portions, take_turns

_THRESHOLDS: Final = np.linspace(0.5, 0.95, 10)
_LIMITS: Final = np.minimum(_THRESHOLDS, 1 - 1e-10)
# Square pixels: all, small, medium, large.
_AREAS: Final = np.array([(0, 1e10), (0, 32**2), (32**2, 96**2), (96**2, 1e10)])
# Of a figure: kind, threshold, and area or most detections; their places in the arrays below.
_NAME: Final = re.compile("(AP|AR)(50|75)?_?(small|medium|large|1|10|100)?")
_AT: Final = {None: slice(None), "50": slice(1), "75": slice(5, 6)}
_PARTS: Final = {None: 0, "100": 0, "small": 1, "medium": 2, "large": 3, "1": 4, "10": 5}


@dataclass(frozen=True)
class ResampledFigures:
    """COCO's figures of resamples.

    Attributes:
        figures: float64 [resamples] by our names; NaN where a resample holds nothing to find.
        by_class: float64 [resamples, categories], the main figure of each category, such as AP.
        each: float64 [images], the main figure of each image, where that of several is their mean; else None.
    """

    figures: dict[str, NDArray[np.float64]]
    by_class: NDArray[np.float64]
    each: NDArray[np.float64] | None = None

    def intervals(self, figures: Mapping[str, float | None]) -> dict[str, tuple[float, float] | None]:
        """Return the 95 % interval of every one of `figures` as metrics.json names it, such as `AP_ci95`."""
        return {f"{name}_ci95": interval(values, figures[name]) for name, values in self.figures.items()}

    def class_intervals(self, values: Iterable[float | None]) -> list[tuple[float, float] | None]:
        """Return the 95 % interval of every category, of which `values` are those of the images themselves."""
        return [interval(*pair) for pair in zip(self.by_class.T, values, strict=True)]


@dataclass(frozen=True)
class Verdicts:
    """Detections that count at IoU 0.5, best score first, and objects that are to be found.

    Attributes:
        images: int [D], place of each detection's image.
        scores: float32 [D], descending.
        right: bool [D], whether it finds an object.
        objects: int [G], place of each object's image.
    """

    images: NDArray[np.intp]
    scores: NDArray[np.float32]
    right: NDArray[np.bool_]
    objects: NDArray[np.intp]

    def at(self, threshold: float) -> Verdicts:
        """Return the detections with at least a score."""
        # as float32, which 0.7 is above
        end = int(np.searchsorted(-self.scores, -np.float32(threshold), side="right"))
        return Verdicts(self.images[:end], self.scores[:end], self.right[:end], self.objects)

    @classmethod
    def joined(cls, parts: Sequence[Verdicts]) -> Verdicts:
        """Return those of several categories as one."""
        scores = np.concatenate([np.empty(0, np.float32), *(one.scores for one in parts)])
        order = np.argsort(-scores, kind="stable")
        images, objects = (
            np.concatenate([np.empty(0, np.intp), *each])
            for each in ((one.images for one in parts), (one.objects for one in parts))
        )
        right = np.concatenate([np.empty(0, np.bool_), *(one.right for one in parts)])
        return cls(images[order], scores[order], right[order], objects)


@dataclass(frozen=True)
class ClassMatches:
    """The detections and objects of one category; detections by score, best first.

    Attributes:
        images: int [D], place of each detection's image.
        scores: float32 [D].
        ranks: int [D], place among the detections of its image.
        inside: bool [areas, D], whether it counts as a false positive where it finds nothing.
        matched: int [M], places of the detections that find something at any threshold.
        hits: bool [areas, thresholds, M], those that find an object that counts.
        counted: bool [areas, thresholds, M], those that count, as right or wrong.
        objects: int [G], place of each object's image.
        wanted: bool [areas, G], objects that count.
    """

    images: NDArray[np.intp]
    scores: NDArray[np.float32]
    ranks: NDArray[np.intp]
    inside: NDArray[np.bool_]
    matched: NDArray[np.intp]
    hits: NDArray[np.bool_]
    counted: NDArray[np.bool_]
    objects: NDArray[np.intp]
    wanted: NDArray[np.bool_]

    def verdicts(self) -> Verdicts:
        """Return what was found of objects of any size at the lowest threshold."""
        counted, right = self.inside[0].copy(), np.zeros(len(self.images), np.bool_)
        counted[self.matched], right[self.matched] = self.counted[0, 0], self.hits[0, 0]
        return Verdicts(self.images[counted], self.scores[counted], right[counted], self.objects[self.wanted[0]])


class _Each(NamedTuple):
    """What counts in each range of areas: detections as wrong, bool [areas, D], and objects, bool [areas, G]."""

    inside: NDArray[np.bool_]
    wanted: NDArray[np.bool_]


def _within(sizes: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((sizes >= _AREAS[:, :1]) & (sizes <= _AREAS[:, 1:]))


class CocoMatches:
    """The matches of a run, by category."""

    def __init__(
        self,
        image_ids: NDArray[np.int64],
        truth: GroundTruth,
        categories: Sequence[Category],
        detections: DetectionTable,
        measure: CocoMeasure = BOXES,
    ) -> None:
        """Match every detection as COCOeval does with its default parameters.

        Args:
            image_ids: int64 [N], the images that were evaluated, ascending; also those that hold nothing.
            truth: annotations of these images.
            categories: of the dataset.
            detections: of these images.
            measure: what is scored.
        """
        detections = measure.scored(truth, detections)
        self.images, self._figures = len(image_ids), tuple(measure.figures)
        each = _Each(_within(measure.areas(detections)), ~measure.ignored(truth) & _within(truth.areas))
        rows = (by_value(one.category_ids, [one.id for one in categories]) for one in (truth, detections))
        self._classes = [
            _match(image_ids, truth, mine, detections, own, each, measure) for mine, own in zip(*rows, strict=True)
        ]
        present = [place for place, one in enumerate(self._classes) if one.wanted.any()]
        self._present = np.array(present or [0], np.intp)

    def figures(self, counts: NDArray[np.int32]) -> ResampledFigures:
        """Return the figures of resamples.

        Args:
            counts: int32 [resamples, images], how often each image was drawn, in the order of the images.
        """
        precision, recall, present, by_class = accumulate([self._classes[place] for place in self._present], counts)
        figures = {}
        for name in self._figures:
            kind, at, part = _NAME.fullmatch(name).groups()  # type: ignore[union-attr]
            values = (precision if kind == "AP" else recall)[_PARTS.get(part, 0), _AT[at]].mean(axis=0)
            number = present[_PARTS.get(part, 0)]
            figures[name] = np.where(number > 0, values / np.maximum(number, 1), np.nan)
        found = np.full((len(counts), len(self._classes)), np.nan)
        found[:, self._present] = by_class.T
        return ResampledFigures(figures, found)

    def require_agreement(self, figures: Mapping[str, float | None]) -> None:
        """Raise RuntimeError, a defect, unless `figures` are those of every image once, which intervals are of."""
        once = self.figures(np.ones((1, self.images), np.int32)).figures
        for name, found in once.items():
            given = figures[name]
            wanted = np.array(np.nan if given is None else given)
            if difference(found[:1].reshape(()), wanted).max_abs > 1e-9:
                raise RuntimeError(f"{name} is {given} in COCOeval and {found[0]} in the matches of its interval")

    def verdicts(self) -> list[Verdicts]:
        """Return what was found of each category at IoU 0.5."""
        return [one.verdicts() for one in self._classes]


def _match(
    image_ids: NDArray[np.int64],
    truth: GroundTruth,
    mine: NDArray[np.intp],
    detections: DetectionTable,
    own: NDArray[np.intp],
    each: _Each,
    measure: CocoMeasure,
) -> ClassMatches:
    """Match the detections of one category, the rows `own`, with its annotations, the rows `mine`."""
    images = np.searchsorted(image_ids, detections.image_ids[own])
    by_image = np.lexsort((-detections.scores[own].astype(np.float64), images))  # stable, as pycocotools sorts
    own, images = own[by_image], images[by_image]
    places = ranks(images)
    own, images, places = (values[places < measure.most] for values in (own, images, places))
    mine = mine[np.argsort(truth.image_ids[mine], kind="stable")]
    objects = np.searchsorted(image_ids, truth.image_ids[mine])
    wanted, met, none = each.wanted[:, mine], np.unique(objects), np.empty((0, len(_AREAS), len(_THRESHOLDS)), np.bool_)
    spans, turns = (Spans.of(images, met), Spans.of(objects, met)), list[Turns]()
    for part in portions(*spans):
        rows, others = pairs_of(spans[0].part(part), spans[1].part(part))
        block = slice(spans[1].first[part][0], spans[1].end[part][-1])
        overlaps, crowd = measure.pair_overlaps(detections, own[rows], truth, mine[others]), truth.crowd[mine[block]]
        turns.append(take_turns(rows, others - block.start, overlaps, places, _LIMITS, crowd, wanted.T[block]))
    order = np.lexsort((places, images, -detections.scores[own].astype(np.float64)))
    taken = np.full(len(own), -1, np.intp)
    known = np.concatenate([np.empty(0, np.intp), *(one.rows for one in turns)])
    taken[known] = np.arange(len(known))
    matched = np.flatnonzero(taken[order] >= 0)
    hits, ignored = (
        np.concatenate([none, *found])[taken[order[matched]]].transpose(1, 2, 0)
        for found in ((one.hits for one in turns), (one.ignored for one in turns))
    )
    inside = each.inside[:, own[order]]
    return ClassMatches(
        images[order],
        detections.scores[own][order],
        places[order],
        inside,
        matched,
        hits,
        hits | (~ignored & inside[:, None, matched]),
        objects,
        wanted,
    )
