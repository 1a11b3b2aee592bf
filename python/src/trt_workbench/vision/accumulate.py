"""COCO's figures of resamples of one category, all resamples at once.

Precision rises from one detection that finds an object to the next, unless a wrong one is between. So the largest
precision from a recall on, which COCO's figures are made of, is at the end of such a run, and no other precision is
worked out: of a good detector's matches few are such ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trt_workbench.vision.matches import ClassMatches

RECALLS: Final = np.linspace(0.0, 1.0, 101)
LIMITS: Final = (1, 10)
"""Detections of an image, of the recalls that follow those of the areas."""
_AT_ONCE: Final = 500_000  # numbers of an intermediate array


class _Plan(NamedTuple):
    """What all resamples have in common of one area: matches of all thresholds, threshold by threshold.

    Attributes:
        images: int [M], of detections that find an object, best score first.
        ranks: int [M], their places among the detections of their image.
        bounds: int [thresholds + 1], where each threshold begins, and the end.
        until: int [2, runs], how many matches there are up to the end of each run, and at earlier thresholds.
        first: int [thresholds + 1], the first run of each threshold, and the end.
        inside: int [D], images of the detections that count alone, up to the last match.
        below: int [runs], how many of them there are up to the end of each run.
        moved: int [C], images of detections that count otherwise than alone.
        sign: int32 [C], how each counts more, or less.
        before: int [2, runs], how many of them there are up to the end of each run, and at earlier thresholds.
    """

    images: NDArray[np.intp]
    ranks: NDArray[np.intp]
    bounds: NDArray[np.intp]
    until: NDArray[np.intp]
    first: NDArray[np.intp]
    inside: NDArray[np.intp]
    below: NDArray[np.intp]
    moved: NDArray[np.intp]
    sign: NDArray[np.int32]
    before: NDArray[np.intp]

    @classmethod
    def of(cls, one: ClassMatches, area: int) -> _Plan:
        """Return it of a category."""
        change = one.counted[area].astype(np.int32) - one.inside[area][one.matched]
        at, order = np.nonzero(one.hits[area])
        last = np.full(len(change), -1)
        last[at] = order
        change[np.arange(len(one.matched)) > last[:, None]] = 0  # behind the last match nothing changes a figure
        moved_at, moved = np.nonzero(change)
        places, sign, thresholds = one.matched[order], change[moved_at, moved], np.arange(len(change) + 1)
        up_to = np.searchsorted(moved_at * len(one.matched) + moved, at * len(one.matched) + order, "right")
        before = np.stack([up_to, np.searchsorted(moved_at, at)])
        alone = np.cumsum(one.inside[area])
        more, less = _from_zero(sign[None])[0][before]
        # without a wrong one between, the next that counts is the next that finds something
        steps = np.diff(alone[places] + more - less, append=-1)
        ends = np.flatnonzero((steps != 1) | (np.diff(at, append=-1) != 0))
        bounds = np.searchsorted(at, thresholds)
        end = max(places.tolist(), default=-1) + 1  # what is behind all of them changes nothing
        return cls(
            one.images[places],
            one.ranks[places],
            bounds,
            np.stack([ends + 1, bounds[at[ends]]]),
            np.searchsorted(at[ends], thresholds),
            one.images[:end][one.inside[area, :end]],
            alone[places[ends]],
            one.images[one.matched[moved]],
            sign,
            before[:, ends],
        )


def accumulate(
    one: ClassMatches, counts: NDArray[np.int32], areas: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return AP [resamples, areas, thresholds] of a category, and recall [resamples, areas and limits, thresholds]."""
    many, thresholds = one.hits.shape[:2]
    precision = np.full((len(counts), many, thresholds), np.nan)
    recall = np.full((len(counts), many + len(LIMITS), thresholds), np.nan)
    for area in (each for each in areas if one.wanted[each].any()):
        plan = _Plan.of(one, area)
        objects = np.take(counts, one.objects[one.wanted[area]], axis=1).sum(axis=1)
        present = np.where(objects > 0, objects, np.nan)[:, None]
        numbers, which = np.unique(objects, return_inverse=True)  # there are few different ones
        reached = np.concatenate([_reached(number) for number in numbers.tolist()])
        begins = (np.cumsum(numbers + 1) - numbers - 1)[which][:, None]
        step = max(1, _AT_ONCE // max(1, len(plan.images), len(plan.inside), len(plan.moved)))
        for start in range(0, len(counts), step):
            part = slice(start, start + step)
            known, right = _average_precision(plan, counts[part], reached, begins[part])
            precision[part, area] = np.where(objects[part, None] > 0, known, np.nan)
            recall[part, area] = right / present[part]
            for place, limit in enumerate(LIMITS if area == 0 else ()):
                first = np.flatnonzero(plan.ranks < limit)
                own = _from_zero(np.take(counts[part], plan.images[first], axis=1))
                sums = np.take(own, np.searchsorted(first, plan.bounds), axis=1)
                recall[part, many + place] = np.diff(sums, axis=1) / present[part]
    return precision, recall


def _from_zero(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the sums of the first none, one, two ... numbers of each row."""
    sums = np.zeros((len(values), values.shape[1] + 1), np.int32)
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


@lru_cache(maxsize=1024)
def _reached(objects: int) -> NDArray[np.int8]:
    """Return how many recalls are reached with none, one, two ... of so many objects."""
    return np.searchsorted(RECALLS, np.arange(objects + 1) / max(objects, 1), side="right").astype(np.int8)


def _average_precision(
    plan: _Plan, counts: NDArray[np.int32], reached: NDArray[np.int8], begins: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of the precision at 101 recalls, and how many objects are found, each [resamples, thresholds].

    Args:
        plan: of the area.
        counts: int32 [resamples, images], how often each was drawn.
        reached: how many recalls are reached with so many objects, by the number of objects that there are to find.
        begins: int [resamples, 1], where those of each resample begin.
    """
    found, moved, inside = (np.take(counts, one, axis=1) for one in (plan.images, plan.moved, plan.inside))
    right = _between(_from_zero(found), plan.until)
    seen = np.take(_from_zero(inside), plan.below, axis=1) + _between(_from_zero(moved * plan.sign), plan.before)
    curve = right / (seen + np.spacing(1))
    known = np.flatnonzero(np.diff(plan.first))
    firsts, lasts = plan.first[known], plan.first[known + 1] - 1
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        backwards = curve[:, first : last + 1][:, ::-1]
        np.maximum.accumulate(backwards, axis=1, out=backwards)
    got = np.take(reached, begins + right)
    fresh = got.copy()
    fresh[:, 1:] -= got[:, :-1]
    fresh[:, firsts] = got[:, firsts]
    mean, objects = np.zeros((2, len(counts), len(plan.first) - 1))
    if len(known):
        mean[:, known] = np.add.reduceat(fresh * curve, firsts, axis=1) / len(RECALLS)
        objects[:, known] = right[:, lasts]
    return mean, objects


def _between(sums: NDArray[np.int32], bounds: NDArray[np.intp]) -> NDArray[np.int32]:
    """Return what is added from the second of `bounds` up to the first."""
    found: NDArray[np.int32] = np.take(sums, bounds[0], axis=1) - np.take(sums, bounds[1], axis=1)
    return found
