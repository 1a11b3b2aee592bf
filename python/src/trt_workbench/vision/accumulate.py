"""COCO's figures of resamples of one category, all resamples at once.

Precision rises from one detection that finds an object to the next, unless a wrong one is between. So the largest
precision from a recall on, which COCO's figures are made of, is at the end of such a run, and no other precision is
worked out: of a good detector's matches few are such ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trt_workbench.vision.matches import ClassMatches

RECALLS: Final = np.linspace(0.0, 1.0, 101)
LIMITS: Final = (1, 10)
"""Detections of an image, of the recalls that follow those of the areas."""
_AT_ONCE: Final = 500_000  # numbers of an intermediate array of a thread
_BLOCK: Final = 8192


class _Plan(NamedTuple):
    """What all resamples have in common of one area: matches of all thresholds, threshold by threshold.

    Attributes:
        informative: how many matches of the area find an object at any threshold, or count otherwise than alone.
        places: int [M], places of detections that find an object, best score first.
        order: int [M], their places among the informative ones.
        bounds: int [thresholds + 1], where each threshold begins, and the end.
        ends: int [runs], the last match of each run.
        run: int [M], the run that each match is in.
        moved: int [C], places of detections that count otherwise than alone.
        sign: int32 [C], how each counts more, or less.
        before: int [2, runs], how many of them there are up to the end of each run, and at earlier thresholds.
    """

    informative: int
    places: NDArray[np.intp]
    order: NDArray[np.intp]
    bounds: NDArray[np.intp]
    ends: NDArray[np.intp]
    run: NDArray[np.intp]
    moved: NDArray[np.intp]
    sign: NDArray[np.int32]
    before: NDArray[np.intp]

    @classmethod
    def of(cls, one: ClassMatches, area: int) -> _Plan:
        """Return it of a category."""
        change = one.counted[area].astype(np.int32) - one.inside[area][one.matched]
        informative = np.flatnonzero((one.hits[area] | (change != 0)).any(axis=0))
        (at, order), (moved_at, moved) = (np.nonzero(each[:, informative]) for each in (one.hits[area], change))
        places, sign = one.matched[informative[order]], change[moved_at, informative[moved]]
        up_to = np.searchsorted(moved_at * len(informative) + moved, at * len(informative) + order, "right")
        before = np.stack([up_to, np.searchsorted(moved_at, at)])
        more, less = _from_zero(sign[None])[0][before]
        counted = np.cumsum(one.inside[area])[places] + more - less
        # without a wrong one between, the next that counts is the next that finds something
        is_end = (np.diff(counted, append=-1) != 1) | (np.diff(at, append=-1) != 0)
        return cls(
            len(informative),
            places,
            order,
            np.searchsorted(at, np.arange(len(change) + 1)),
            np.flatnonzero(is_end),
            np.cumsum(is_end) - is_end,
            one.matched[informative[moved]],
            sign,
            before[:, is_end],
        )


def accumulate(
    one: ClassMatches, counts: NDArray[np.int32], areas: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return AP [resamples, areas, thresholds] of a category, and recall [resamples, areas and limits, thresholds]."""
    many, thresholds = one.hits.shape[:2]
    precision = np.full((len(counts), many, thresholds), np.nan)
    recall = np.full((len(counts), many + len(LIMITS), thresholds), np.nan)
    plans = {area: _Plan.of(one, area) for area in areas if one.wanted[area].any()}
    end = int(one.matched.max(initial=-1)) + 1  # what is behind all of them changes nothing
    step = max(1, _AT_ONCE // max(1, end, *(len(plan.places) for plan in plans.values())))
    for start in range(0, len(counts) if plans else 0, step):
        part = slice(start, start + step)
        drawn = np.take(counts[part], one.images[:end], axis=1)  # an index would leave it in the order of columns
        for area, plan in plans.items():
            objects = counts[part][:, one.objects[one.wanted[area]]].sum(axis=1)
            present = np.where(objects > 0, objects, np.nan)[:, None]
            inside, found = one.inside[area, :end], np.take(drawn, plan.places, axis=1)
            every = np.cumsum(drawn if inside.all() else drawn * inside, axis=1, dtype=np.int32)
            known, right = _average_precision(plan, drawn, found, every, _Wanted.of(objects))
            precision[part, area] = np.where(objects[:, None] > 0, known, np.nan)
            recall[part, area] = right / present
            for place, limit in enumerate(LIMITS if area == 0 else ()):
                first = np.flatnonzero(one.ranks[plan.places] < limit)
                own = _between(np.take(found, first, axis=1), np.searchsorted(first, plan.bounds))
                recall[part, many + place] = own / present
    return precision, recall


def _from_zero(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the sums of the first none, one, two ... numbers of each row."""
    return np.concatenate([np.zeros((len(values), 1), np.int32), np.cumsum(values, axis=1, dtype=np.int32)], axis=1)


def _between(values: NDArray[np.int32], bounds: NDArray[np.intp]) -> NDArray[np.int32]:
    """Return the sum of each row between bounds."""
    sums = np.take(_from_zero(values), bounds, axis=1)
    return sums[:, 1:] - sums[:, :-1]


class _Wanted(NamedTuple):
    """What each resample has to find.

    Attributes:
        reached: int32, how many recalls are reached with so many objects, from none on; behind one another for each
            number of objects that there are to find.
        begins: int [resamples, 1], where those of each resample begin.
    """

    reached: NDArray[np.int32]
    begins: NDArray[np.intp]

    @classmethod
    def of(cls, objects: NDArray[np.int64]) -> _Wanted:
        """Return it of resamples with so many objects: there are few different numbers."""
        numbers, which = np.unique(objects, return_inverse=True)
        reached = [np.searchsorted(RECALLS, np.arange(n + 1) / max(n, 1), side="right") for n in numbers]
        begins = np.cumsum(numbers + 1) - numbers - 1
        return cls(np.concatenate(reached).astype(np.int32), begins[which][:, None])


def _average_precision(
    plan: _Plan, drawn: NDArray[np.int32], found: NDArray[np.int32], every: NDArray[np.int32], wanted: _Wanted
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the mean of the precision at 101 recalls, and how many objects are found, each [resamples, thresholds].

    Args:
        plan: of the area.
        drawn: int32 [resamples, detections], how often each was drawn.
        found: int32 [resamples, M], how often those that find an object were.
        every: int32 [resamples, detections], those that count alone, up to each.
        wanted: of the resamples.
    """
    parts = [slice(*ends) for ends in itertools.pairwise(plan.bounds.tolist())]
    right = np.empty_like(found)
    for part in parts:
        np.cumsum(found[:, part], axis=1, out=right[:, part])
    seen = np.take(every, plan.places[plan.ends], axis=1)
    if len(plan.moved):
        moves = _from_zero(np.take(drawn, plan.moved, axis=1) * plan.sign)
        more, less = (np.take(moves, one, axis=1) for one in plan.before)
        seen = seen + more - less
    curve = np.take(right, plan.ends, axis=1) / (seen + np.spacing(1))
    for ends in itertools.pairwise(np.searchsorted(plan.ends, plan.bounds).tolist()):
        backwards = curve[:, slice(*ends)][:, ::-1]
        np.maximum.accumulate(backwards, axis=1, out=backwards)
    reached, highest = wanted.reached[wanted.begins + right], np.take(curve, plan.run, axis=1)
    fresh = reached.copy()
    fresh[:, 1:] -= reached[:, :-1]
    firsts = [part.start for part in parts if part.start < part.stop]
    fresh[:, firsts] = reached[:, firsts]
    # the first recall needs nothing, and belongs to the first place
    apart = plan.order[firsts] > 0
    fresh[:, firsts] -= apart
    terms = fresh * highest
    terms[:, firsts] += highest[:, firsts] * apart
    sums = [_summed(plan.order[part], terms[:, part], plan.informative) for part in parts]
    objects = [right[:, part][:, -1:].sum(axis=1) for part in parts]
    return np.stack(sums, axis=1) / len(RECALLS), np.stack(objects, axis=1)


def _summed(at: NDArray[np.intp], terms: NDArray[np.float64], many: int) -> NDArray[np.float64]:
    """Return the sum of each row, in the order in which intervals were always summed, to the last bit.

    Args:
        at: int [M], places of the terms, ascending.
        terms: float64 [rows, M].
        many: how many places there are; blocks of them are summed apart.
    """
    total = np.zeros(len(terms))
    ends = [0, *np.searchsorted(at, np.arange(_BLOCK, many, _BLOCK)).tolist(), len(at)]
    for first, end in itertools.pairwise(ends):
        if first < end:
            total += np.cumsum(terms[:, first:end], axis=1)[:, -1]
    return total
