"""COCO's figures of resamples, all resamples of many categories at once.

Precision rises from one detection that finds an object to the next, unless a wrong one is between. So the largest
precision from a recall on, which COCO's figures are made of, is at the end of such a run, and no other precision is
worked out: of a good detector's matches few are such ends.

The resamples of a number lie side by side. Curves go on together: a step takes each that has another run to its next
one, in one operation on all of them. Parts of the resamples are worked out at the same time, each in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.environment import available_processors

if TYPE_CHECKING:
    from trt_workbench.vision.matches import ClassMatches

RECALLS: Final = np.linspace(0.0, 1.0, 101)
LIMITS: Final = (1, 10)
"""Detections of an image, of the recalls that follow those of the areas."""
_AT_ONCE: Final = 2_000_000  # numbers of an intermediate array, of all threads
_OPERATION: Final = 50_000  # numbers that a thread takes at a time; of fewer, threads wait for each other
_TOGETHER: Final = 16_000  # detections of categories whose curves go on together
_ROWS: Final = 4_096  # of draws that are added up at once
_Places = NDArray[np.intp]
_Figures = tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]


class _Sums(NamedTuple):
    """What is added up of the draws of images, from the beginning of each group to each of its ends.

    Attributes:
        order: int [E], the ends as they lie: the first of each group, groups with most ends first; then the second ...
        widths: how many groups have a first end, a second ...
        parts: ends, int [N], and the images between the end before and them, int [N, L]; filled up with -1.
    """

    order: _Places
    widths: list[int]
    parts: list[tuple[_Places, _Places]]

    @classmethod
    def of(cls, keys: _Places, groups: _Places, images: _Places, ends: _Places, of_ends: _Places) -> _Sums:
        """Return them of images with ascending keys; each counts from the first end of its group that is no less."""
        many, place = np.bincount(of_ends), np.arange(len(ends)) - np.searchsorted(of_ends, of_ends)
        order = np.lexsort((of_ends, -many[of_ends], place))
        where, owners = np.argsort(order), np.searchsorted(ends, keys)
        used = np.append(of_ends, -1)[owners] == groups  # behind the last end nothing changes a figure
        owners, images = owners[used], np.append(images[used], -1)
        lengths = np.bincount(owners, minlength=len(ends))
        first, parts = np.cumsum(lengths) - lengths, list[tuple[_Places, _Places]]()
        sizes = np.where(lengths > 0, np.ceil(np.log2(np.maximum(lengths, 1))), -1)
        for size in range(int(sizes.max(initial=-1)) + 1):
            mine, within = np.flatnonzero(sizes == size), np.arange(2**size)
            at = images[np.where(within < lengths[mine, None], first[mine, None] + within, -1)]
            pieces = range(_ROWS >> size, len(mine), max(1, _ROWS >> size))
            parts += zip(np.split(where[mine], pieces), np.split(at, pieces), strict=True)
        return cls(order, np.bincount(place).tolist(), parts)

    def steps(self) -> list[tuple[slice, slice]]:
        """Return the ends of each step but the first, and those before them in their groups."""
        begins = np.cumsum([0, *self.widths]).tolist()
        return [
            (slice(now, now + width), slice(before, before + width))
            for before, now, width in zip(begins, begins[1:], self.widths[1:], strict=False)
        ]

    def of_draws(self, drawn: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the sums, [E, resamples]."""
        sums = np.zeros((len(self.order), drawn.shape[1]), np.int32)
        for ends, images in self.parts:
            sums[ends] = np.take(drawn, images, axis=0).sum(axis=1, dtype=np.int32)
        for now, before in self.steps():
            sums[now] += sums[before]
        return sums


def accumulate(
    classes: Sequence[ClassMatches], counts: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]:
    """Return the sums over categories of figures of resamples; 0 of one without anything to find.

    Args:
        classes: matches of each, at least one.
        counts: int32 [resamples, images], how often each image was drawn.

    Returns:
        AP and recall, float64 [areas and limits, thresholds, resamples], AP without limits; how many categories have
        something to find, int [areas and limits, resamples]; AP in the first area of each category, float64
        [categories, resamples], NaN where it has nothing to find.
    """
    resamples = len(counts)
    areas, thresholds, _ = classes[0].hits.shape
    precision, recall = np.zeros((2, areas + len(LIMITS), thresholds, resamples))
    present, by_class = np.zeros((areas + len(LIMITS), resamples), np.intp), np.full((len(classes), resamples), np.nan)
    drawn = np.vstack([counts.T, -counts.T, np.zeros((1, resamples), np.int32)])

    def add(figures: Callable[[NDArray[np.int32]], _Figures], some: slice, part: slice) -> None:
        objects, known, recalls = figures(drawn[:, part])
        precision[:, :, part] += known.sum(axis=2)
        recall[:, :, part] += recalls.sum(axis=2)
        present[:, part] += np.count_nonzero(objects, axis=1)
        by_class[some, part] = np.where(objects[0] > 0, known[0].mean(axis=0), np.nan)

    begins = np.flatnonzero(
        np.diff(np.cumsum([len(one.images) + 1 for one in classes]) // _TOGETHER, prepend=-1)
    ).tolist()
    with ThreadPoolExecutor(most := available_processors()) as pool:
        for some in map(slice, begins, [*begins[1:], len(classes)]):
            figures, numbers, width = _together(classes[some], drawn)
            threads = min(most, width * resamples // _OPERATION + 1)
            step = min(_AT_ONCE // threads // numbers, (resamples - 1) // threads) + 1
            list(pool.map(partial(add, figures, some), [slice(at, at + step) for at in range(0, resamples, step)]))
    return precision, recall, present, by_class


def _together(
    classes: Sequence[ClassMatches], drawn: NDArray[np.int32]
) -> tuple[Callable[[NDArray[np.int32]], _Figures], int, int]:
    """Return what works out figures of some resamples, and how many numbers it holds of each, and takes at a time.

    Args:
        classes: matches of categories whose curves go on together. A curve is of an area, a threshold and a category.
        drawn: int32 [2 images + 1, resamples], how often each image was drawn, less each of these, and 0.

    Returns:
        Of some columns of `drawn`: how many objects there are, int [areas and limits, categories, resamples], and AP
        and recall of each threshold, as `accumulate`, for each category.
    """
    owners, of_objects = (
        np.repeat(np.arange(len(classes)), [len(getattr(one, name)) for one in classes])
        for name in ("images", "objects")
    )
    begins = np.searchsorted(owners, np.arange(len(classes)))
    matched = np.concatenate([one.matched + begin for one, begin in zip(classes, begins, strict=True)])
    at, ranks, at_objects = (
        np.concatenate([getattr(one, name) for one in classes]) for name in ("images", "ranks", "objects")
    )
    inside, hits, counted, wanted = (
        np.concatenate([getattr(one, name) for one in classes], axis=-1)
        for name in ("inside", "hits", "counted", "wanted")
    )
    (areas, thresholds, _), many, of_matched = hits.shape, len(classes), owners[matched]
    change = counted.astype(np.int8) - inside[:, None, matched]
    seen = np.cumsum(inside, axis=1)[:, None, matched] + np.cumsum(change, axis=2)
    keys, curves, found = _listed(hits, of_matched, many)
    # without a wrong one between, the next that counts is the next that finds something
    last = np.flatnonzero((np.diff(seen[hits], append=-1) != 1) | (np.diff(curves, append=-1) != 0))
    ends, owned = keys[last], curves[last]
    right = _Sums.of(keys, curves, at[matched[found]], ends, owned)
    others, of_others, which = _listed(change, of_matched, many)
    moved = _Sums.of(
        others, of_others, at[matched[which]] + len(drawn) // 2 * (change.ravel()[others] < 0), ends, owned
    )
    single, of_single, detections = _listed(inside, owners, many)
    places, which = np.unique(ends // (thresholds * len(matched)) * len(at) + matched[found[last]], return_inverse=True)
    of_places = places // len(at) * many + owners[places % len(at)]
    alone = _Sums.of(single, of_single, at[detections], places, of_places)
    which = np.argsort(alone.order)[which[right.order]]
    _, of_wanted, each = _listed(wanted, of_objects, many)
    objects = _Sums.of(of_wanted, of_wanted, at_objects[each], *[np.arange(areas * many)] * 2)
    first = hits[0] & (ranks[matched] < np.array(LIMITS)[:, None, None])
    _, of_first, each = _listed(first, of_matched, many)
    few = _Sums.of(of_first, of_first, at[matched[each]], *[np.arange(len(LIMITS) * thresholds * many)] * 2)
    of_runs, known = (owned // (thresholds * many) * many + owned % many)[right.order], np.unique(owned)
    firsts, lasts = (
        np.argsort(right.order)[np.searchsorted(owned, known, side) - (side == "right")] for side in ("left", "right")
    )

    def figures(some: NDArray[np.int32]) -> _Figures:
        counts = np.ascontiguousarray(some)
        present = objects.of_draws(counts)
        numbers, number = np.unique(present, return_inverse=True)  # there are few different ones
        reached = np.concatenate([_reached(one) for one in numbers.tolist()])
        begins = (np.cumsum(numbers + 1) - numbers - 1)[number]
        finds = right.of_draws(counts)
        curve = finds / np.maximum(np.take(alone.of_draws(counts), which, axis=0) + moved.of_draws(counts), 1)
        got = np.take(reached, begins[of_runs] + finds)
        for now, before in reversed(right.steps()):
            np.maximum(curve[before], curve[now], out=curve[before])
            got[now] -= got[before]
        curve *= got
        for now, before in reversed(right.steps()):
            curve[before] += curve[now]
        precision, recall = np.zeros((2, areas + len(LIMITS), thresholds, many, counts.shape[1]))
        precision.reshape(-1, counts.shape[1])[known] = curve[firsts] / len(RECALLS)
        recall.reshape(-1, counts.shape[1])[known] = finds[lasts]
        recall[areas:] = few.of_draws(counts).reshape(recall[areas:].shape)
        present = present.reshape(areas, many, -1)[[*range(areas), *(0 for _ in LIMITS)]]
        return present, precision, recall / np.maximum(present, 1)[:, None]

    return figures, max(len(last), (areas + len(LIMITS)) * thresholds * many), len(last) // max(len(right.widths), 1)


def _listed(wanted: NDArray[Any], owners: _Places, many: int) -> tuple[_Places, _Places, _Places]:
    """Return what is not 0: its places in the array, those with the owner, of so many, of its column, its column."""
    keys = np.flatnonzero(wanted)
    columns = keys % wanted.shape[-1]
    return keys, keys // wanted.shape[-1] * many + owners[columns], columns


@lru_cache(maxsize=1024)
def _reached(objects: int) -> NDArray[np.int8]:
    """Return how many recalls are reached with none, one, two ... of so many objects."""
    return np.searchsorted(RECALLS, np.arange(objects + 1) / max(objects, 1), side="right").astype(np.int8)
