"""Detections paired with the objects of their images: all images at once, without a loop over them.

A group is what is matched by itself, such as an image, or the boxes of one class in it. Detections and objects stand
group by group, so that a group is a span of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_AT_ONCE: Final = 2**18  # pairs in memory, or those of one group
Places = NDArray[np.intp]


class Spans(NamedTuple):
    """Where each group begins and ends among rows, int [groups]."""

    first: Places
    end: Places

    @classmethod
    def of(cls, groups: NDArray[np.int64] | Places, wanted: NDArray[np.int64] | Places) -> Spans:
        """Return the spans of some groups; `groups` is the one of each row, ascending."""
        return cls(np.searchsorted(groups, wanted, "left"), np.searchsorted(groups, wanted, "right"))

    def part(self, which: slice) -> Spans:
        """Return those of some groups."""
        return Spans(self.first[which], self.end[which])

    @property
    def sizes(self) -> Places:
        """How many rows each group has."""
        return self.end - self.first

    @property
    def owners(self) -> Places:
        """The group of each row, from 0, as the groups leave out no row."""
        return np.repeat(np.arange(len(self.first)), self.sizes)


def by_value(values: NDArray[np.int64], wanted: Sequence[int]) -> list[Places]:
    """Return the rows that have each of some values, ascending."""
    order = np.argsort(values, kind="stable")
    spans = Spans.of(values[order], np.array(wanted, np.int64))
    return [order[first:end] for first, end in zip(*(one.tolist() for one in spans), strict=True)]


def portions(found: Spans, objects: Spans) -> Iterator[slice]:
    """Yield slices of the groups, in their order, that have about as many pairs as are kept in memory."""
    behind = np.cumsum(found.sizes * objects.sizes)
    start = 0
    while start < len(behind):
        end = max(start + 1, int(np.searchsorted(behind, (behind[start - 1] if start else 0) + _AT_ONCE, "right")))
        yield slice(start, end)
        start = end


def pairs_of(found: Spans, objects: Spans) -> tuple[Places, Places]:
    """Return the places of each detection with each object of its group: detection by detection, objects ascending."""
    rows, many = _ranges(found.first, found.sizes), np.repeat(objects.sizes, found.sizes)
    return np.repeat(rows, many), _ranges(np.repeat(objects.first, found.sizes), many)


def _ranges(first: Places, counts: Places) -> Places:
    """Return that many consecutive numbers from each of `first` on, as one array."""
    ends = np.cumsum(counts)
    return np.repeat(first - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)


class Turns(NamedTuple):
    """What detections found that took turns by score.

    Attributes:
        rows: int [M], places of those that overlap an object enough, ascending.
        hits: bool [M, areas, limits], whether each found an object that counts.
        ignored: bool [M, areas, limits], whether it found one that does not.
        free: bool [G, areas, limits], objects that nothing found.
    """

    rows: Places
    hits: NDArray[np.bool_]
    ignored: NDArray[np.bool_]
    free: NDArray[np.bool_]


def take_turns(
    rows: Places,
    objects: Places,
    overlaps: NDArray[np.float64],
    turns: Places,
    limits: NDArray[np.float64],
    crowd: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
) -> Turns:
    """Match as pycocotools' `evaluateImg`, in all groups at once.

    One detection of each group after the other takes, of the objects that are free, the one that it overlaps most, and
    of equal ones the last; one that does not count only where it finds no other.

    Args:
        rows: int [P], of pairs of a detection with an object; ascending.
        objects: int [P].
        overlaps: float64 [P].
        turns: int [D], the order in which the detections of a group take turns.
        limits: float64 [limits], ascending, least overlaps.
        crowd: bool [G], objects that stay free.
        wanted: bool [G, areas], objects that count.
    """
    near = overlaps >= limits[0]
    rows, objects, overlaps = rows[near], objects[near], overlaps[near]
    best_first = np.lexsort((-objects, -overlaps, rows))
    rows, objects, overlaps = rows[best_first], objects[best_first], overlaps[best_first]
    known, first, counts = np.unique(rows, return_index=True, return_counts=True)
    shape = (len(known), wanted.shape[1], len(limits))
    free = np.ones((len(crowd), *shape[1:]), np.bool_)
    hits, ignored = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    by_turn = np.argsort(turns[known], kind="stable")
    ends = np.flatnonzero(np.diff(turns[known][by_turn], append=-1)) + 1
    for which in np.split(by_turn, ends[:-1]):
        right, any_ = (np.full((len(which), *shape[1:]), -1, np.intp) for _ in range(2))
        for place in range(counts[which].max(initial=0)):
            live = np.flatnonzero(counts[which] > place)
            pair = first[which[live]] + place
            own = objects[pair]
            fits = (overlaps[pair, None] >= limits)[:, None] & (free[own] | crowd[own, None, None])
            for chosen, mine in ((right, fits & wanted[own][..., None]), (any_, fits)):
                chosen[live] = np.where((chosen[live] < 0) & mine, own[:, None, None], chosen[live])
        hits[which] = right >= 0
        found = np.where(right >= 0, right, any_)
        ignored[which] = (found >= 0) & (right < 0)
        taken = np.nonzero(found >= 0)
        free[(found[taken], *taken[1:])] = False
    return Turns(known, hits, ignored, free)


def take_nearest(rows: Places, objects: Places, overlaps: NDArray[np.float64]) -> tuple[Places, Places]:
    """Match the pair that overlaps most, then that of the rest, and so on; of equal ones the first pair.

    Pairs of different groups have nothing in common, and in one group all that are best for both of their sides are
    matched in one step: nothing else could take either.

    Args:
        rows: int [P], of pairs of a detection with an object.
        objects: int [P].
        overlaps: float64 [P].

    Returns:
        The detections and objects that were matched.
    """
    order = np.argsort(-overlaps, kind="stable")
    rows, objects = rows[order], objects[order]
    matched: list[tuple[Places, Places]] = []
    while len(rows):
        best = np.ones(len(rows), np.bool_)
        for side in (rows, objects):
            best &= _is_first(side)
        matched.append((rows[best], objects[best]))
        left = ~(np.isin(rows, rows[best]) | np.isin(objects, objects[best]))
        rows, objects = rows[left], objects[left]
    none = np.empty(0, np.intp)
    return np.concatenate([none, *(one for one, _ in matched)]), np.concatenate([none, *(one for _, one in matched)])


def _is_first(values: Places) -> NDArray[np.bool_]:
    """Return whether each value is the first of its kind."""
    found = np.zeros(len(values), np.bool_)
    found[np.unique(values, return_index=True)[1]] = True
    return found
