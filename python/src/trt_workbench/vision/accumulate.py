"""COCO's figures of resamples of one category, all resamples at once.

Precision rises from one detection that finds an object to the next, unless a wrong one is between. So the largest
precision from a recall on, which COCO's figures are made of, is at the end of such a run, and nothing is worked out in
between: of a good detector's matches few are such ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trt_workbench.vision.matches import ClassMatches

RECALLS: Final = np.linspace(0.0, 1.0, 101)
LIMITS: Final = (1, 10)
"""Detections of an image, of the recalls that follow those of the areas."""
_AT_ONCE: Final = 1_000_000  # numbers of an intermediate array of a thread
_BLOCK: Final = 8192


class _Threshold(NamedTuple):
    """The matches of one area at one threshold.

    Attributes:
        informative: how many matches of the area find an object at any threshold, or count otherwise than alone.
        places: int [H], places of detections that find an object, best score first.
        order: int [H], their places among the informative ones.
        run: int [H], the run that each is in.
        ends: int [runs], the last of each run, a place in `places`.
        moved: int [C], places of detections that count otherwise than alone.
        sign: int32 [C], how each counts more, or less.
        before: int [runs], how many of them are up to the end of each run.
        ranks: int [H], place among the detections of its image.
    """

    informative: int
    places: NDArray[np.intp]
    order: NDArray[np.intp]
    run: NDArray[np.intp]
    ends: NDArray[np.intp]
    moved: NDArray[np.intp]
    sign: NDArray[np.int32]
    before: NDArray[np.intp]
    ranks: NDArray[np.intp]


def accumulate(
    one: ClassMatches, counts: NDArray[np.int32], areas: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return AP [resamples, areas, thresholds] of a category, and recall [resamples, areas and limits, thresholds]."""
    many, thresholds = one.hits.shape[:2]
    precision = np.full((len(counts), many, thresholds), np.nan)
    recall = np.full((len(counts), many + len(LIMITS), thresholds), np.nan)
    planned = {area: _thresholds(one, area) for area in areas if one.wanted[area].any()}
    end = int(one.matched.max(initial=-1)) + 1  # what is behind all of them changes nothing
    step = max(1, _AT_ONCE // max(1, end))
    for start in range(0, len(counts) if planned else 0, step):
        part = slice(start, start + step)
        drawn = np.take(counts[part], one.images[:end], axis=1)  # an index would leave it in the order of columns
        for area, plan in planned.items():
            objects = counts[part][:, one.objects[one.wanted[area]]].sum(axis=1)
            present = np.where(objects > 0, objects, np.nan)
            inside = one.inside[area, :end]
            seen = drawn if inside.all() else drawn * inside
            every, wanted = np.cumsum(seen, axis=1, dtype=np.int32), _Wanted.of(objects)
            for at, known in enumerate(plan):
                found, last = _average_precision(known, drawn, every, wanted)
                precision[part, area, at] = np.where(objects > 0, found, np.nan)
                recall[part, area, at] = last / present
                for place, limit in enumerate(LIMITS if area == 0 else ()):
                    recall[part, many + place, at] = (
                        np.take(drawn, known.places[known.ranks < limit], axis=1).sum(axis=1) / present
                    )
    return precision, recall


def _thresholds(one: ClassMatches, area: int) -> list[_Threshold]:
    """Return what resamples have in common."""
    change = one.counted[area].astype(np.int32) - one.inside[area][one.matched]
    informative = np.flatnonzero((one.hits[area] | (change != 0)).any(axis=0))
    alone = np.cumsum(one.inside[area])
    made = []
    for hits, moves in zip(one.hits[area][:, informative], change[:, informative], strict=True):
        order, moved = np.flatnonzero(hits), np.flatnonzero(moves)
        places, sign = one.matched[informative[order]], moves[moved]
        before = np.searchsorted(moved, order, "right")
        counted = alone[places] + np.concatenate([[0], np.cumsum(sign)])[before]
        # without a wrong one between, the next that counts is the next that finds something
        is_end = np.diff(counted, append=-1) != 1
        ends = np.flatnonzero(is_end)
        made.append(
            _Threshold(
                len(informative),
                places,
                order,
                np.cumsum(is_end) - is_end,
                ends,
                one.matched[informative[moved]],
                sign,
                before[ends],
                one.ranks[places],
            )
        )
    return made


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
    known: _Threshold, drawn: NDArray[np.int32], every: NDArray[np.int32], wanted: _Wanted
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the mean of the precision at 101 recalls, and how many objects are found, both [resamples].

    Args:
        known: of one threshold.
        drawn: int32 [resamples, detections], how often each was drawn.
        every: int32 [resamples, detections], those that count alone, up to each.
        wanted: of the resamples.
    """
    resamples = len(drawn)
    if not len(known.places):
        return np.zeros(resamples), np.zeros(resamples, np.int32)
    right = np.cumsum(np.take(drawn, known.places, axis=1), axis=1, dtype=np.int32)
    seen = np.take(every, known.places[known.ends], axis=1)
    if len(known.moved):
        moves = np.cumsum(np.take(drawn, known.moved, axis=1) * known.sign, axis=1, dtype=np.int32)
        moves = np.concatenate([np.zeros((resamples, 1), np.int32), moves], axis=1)
        seen = seen + np.take(moves, known.before, axis=1)
    curve = np.take(right, known.ends, axis=1) / (seen + np.spacing(1))
    curve = np.maximum.accumulate(curve[:, ::-1], axis=1)[:, ::-1]
    reached, order = wanted.reached[wanted.begins + right], known.order
    # the first recall needs nothing, and belongs to the first place
    terms = np.diff(reached, axis=1, prepend=np.int32(order[0] > 0)) * np.take(curve, known.run, axis=1)
    if order[0]:
        order, terms = np.append(0, order), np.concatenate([curve[:, :1], terms], axis=1)
    return _summed(order, terms, known.informative) / len(RECALLS), right[:, -1]


def _summed(at: NDArray[np.intp], terms: NDArray[np.float64], many: int) -> NDArray[np.float64]:
    """Return the sum of each row, in the order in which intervals were always summed, to the last bit.

    Args:
        at: int [M], places of the terms, ascending.
        terms: float64 [rows, M].
        many: how many places there are; blocks of them are summed apart.
    """
    total = np.zeros(len(terms))
    for part in np.split(np.arange(len(at)), np.searchsorted(at, np.arange(_BLOCK, many, _BLOCK))):
        if len(part):
            total += np.cumsum(terms[:, part[0] : part[-1] + 1], axis=1)[:, -1]
    return total
