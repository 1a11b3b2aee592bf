"""COCO's figures of resamples of one category, all resamples at once.

Precision rises from one detection that finds an object to the next, unless a wrong one is between. So the largest
precision from a recall on, which COCO's figures are made of, is at the end of such a run, and nothing is worked out in
between: of a good detector's matches few are such ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trt_workbench.vision.matches import ClassMatches

RECALLS: Final = np.linspace(0.0, 1.0, 101)
LIMITS: Final = (1, 10)
"""Detections of an image, of the recalls that follow those of the areas."""
_AT_ONCE: Final = 1_000_000  # numbers of an intermediate array of a thread
_BLOCK: Final = 8192
_LARGEST: Final = 2**31 - 1


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
    step = max(1, _AT_ONCE // max(1, len(one.images)))
    for start in range(0, len(counts) if planned else 0, step):
        part = slice(start, start + step)
        drawn = counts[part][:, one.images]
        for area, plan in planned.items():
            objects = counts[part][:, one.objects[one.wanted[area]]].sum(axis=1)
            present = np.where(objects > 0, objects, np.nan)
            seen = drawn if one.inside[area].all() else drawn * one.inside[area]
            every, wanted = np.cumsum(seen, axis=1, dtype=np.int32), _Wanted.of(objects)
            for at, known in enumerate(plan):
                found, last = _average_precision(known, drawn, every, wanted)
                precision[part, area, at] = np.where(objects > 0, found, np.nan)
                recall[part, area, at] = last / present
                for place, limit in enumerate(LIMITS if area == 0 else ()):
                    recall[part, many + place, at] = drawn[:, known.places[known.ranks < limit]].sum(axis=1) / present
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
        at: int [resamples, recalls], how many objects each recall needs.
        room: more than any resample has.
    """

    at: NDArray[np.intp]
    room: int

    @classmethod
    def of(cls, objects: NDArray[np.int64]) -> _Wanted:
        """Return it of resamples with so many objects: there are few different numbers."""
        numbers, which = np.unique(objects, return_inverse=True)
        shares = (np.arange(n + 1) / max(n, 1) for n in numbers)
        return cls(np.stack([np.searchsorted(one, RECALLS, "left") for one in shares])[which], int(numbers[-1]) + 1)


def _average_precision(
    known: _Threshold, drawn: NDArray[np.int32], every: NDArray[np.int32], wanted: _Wanted
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the mean of the precision at 101 recalls, and how many objects are found, both [resamples].

    Args:
        known: of one threshold.
        drawn: int32 [resamples, detections], how often each was drawn.
        every: int32 [resamples, detections], those that count alone, up to each.
        wanted: of the resamples.
    """
    resamples, many = len(drawn), len(known.places)
    if not many:
        return np.zeros(resamples), np.zeros(resamples, np.int32)
    # rows behind one another, each beginning beyond the one before, so that one search is of all
    kind = np.int32 if resamples * wanted.room <= _LARGEST else np.int64
    begins: NDArray[Any] = (np.arange(resamples) * wanted.room).astype(kind)[:, None]
    right: NDArray[Any] = drawn[:, known.places].astype(kind, copy=False)
    right[:, :1] += begins
    np.cumsum(right, axis=1, out=right)
    at_ends = right[:, known.ends] - begins
    seen = every[:, known.places[known.ends]]
    if len(known.moved):
        moves = np.cumsum(drawn[:, known.moved] * known.sign, axis=1, dtype=np.int32)
        seen = seen + np.concatenate([np.zeros((resamples, 1), np.int32), moves], axis=1)[:, known.before]
    curve = at_ends / (seen + np.spacing(1))
    curve = np.maximum.accumulate(curve[:, ::-1], axis=1)[:, ::-1]
    first = np.arange(resamples)[:, None] * many
    place = np.searchsorted(right.ravel(), (wanted.at + begins).ravel()).reshape(wanted.at.shape) - first
    reached = place < many
    place = np.where(reached, place, 0)
    values = np.where(reached, np.take_along_axis(curve, known.run[place], axis=1), 0.0)
    at = np.where(reached, known.order[place], known.informative)
    at[:, 0] = 0  # nothing need be found for the first
    return _summed(at, values, known.informative) / len(RECALLS), at_ends[:, -1]


def _summed(at: NDArray[np.intp], values: NDArray[np.float64], many: int) -> NDArray[np.float64]:
    """Return the sum of each row, in the order in which intervals were always summed, to the last bit.

    Recalls of one place are one product, and blocks of places are summed apart.

    Args:
        at: int [rows, recalls], place of each value, ascending; `many` for what is nowhere.
        values: float64 [rows, recalls], of one place all alike.
        many: how many places there are.
    """
    starts = np.flatnonzero(np.diff(at, axis=1, prepend=-1))
    terms = np.zeros(values.shape)
    terms.flat[starts] = values.flat[starts] * np.diff(starts, append=values.size)
    total = np.zeros(len(at))
    for block in range(-(-many // _BLOCK)):
        total += np.cumsum(np.where(at // _BLOCK == block, terms, 0.0) if many > _BLOCK else terms, axis=1)[:, -1]
    return total
