"""Rank tests and the intervals that belong to them: exact for small sets, with ties and constant sets too.

Statistics libraries are exact only without ties, and differ from release to release in what they do with them. The
null distributions are counted here instead: every split of the pooled midranks between the two sides (Mann and
Whitney, 1947) and every choice of signs (Wilcoxon, 1945) is equally likely if there is no difference, ties or not. The
intervals invert these tests (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed., 2014,
sections 3.3 and 4.3; David and Nagaraja, Order Statistics, 3rd ed., 2003, section 7.1). They assume no distribution;
with ties they cover more, never less.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

MOST_EXACT = 60
"""Figures, both sides together, up to which distributions are counted; beyond, the normal curve is near enough."""


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return how many pairs have the larger figure in `b`, ties as half, and the two-sided p-value.

    Args:
        a: one set, at least one figure.
        b: the other.
    """
    ranks = _doubled_midranks([*a, *b])
    own = int(ranks[len(a) :].sum())
    statistic = own / 2 - len(b) * (len(b) + 1) / 2
    if len(ranks) <= MOST_EXACT:
        return statistic, _two_sided(_subset_sums(ranks, len(b)), own)
    count = len(ranks)
    # of the midranks as they are: smaller with ties (Lehmann, Nonparametrics, 1975, section 1.4)
    variance = len(a) * len(b) * float(np.var(ranks / 2)) / (count - 1)
    return statistic, _normal(statistic - len(a) * len(b) / 2, variance)


def signed_ranks(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of Wilcoxon's test; zero differences are dropped.

    Args:
        differences: of the pairs.
    """
    changed = np.asarray([one for one in differences if one], np.float64)
    if not changed.size:
        return 1.0
    ranks = _doubled_midranks(np.abs(changed).tolist())
    positive = int(ranks[changed > 0].sum())
    if len(ranks) <= MOST_EXACT:
        return _two_sided(_signed_sums(ranks), positive)
    halves = ranks / 2
    return _normal((positive - ranks.sum() / 2) / 2, float((halves**2).sum()) / 4)


def median_bounds(count: int, confidence: float) -> tuple[int, float]:
    """Return which ordered figures bound a median, and how often they do.

    Args:
        count: figures, independent of one another.
        confidence: wanted, such as 0.95.

    Returns:
        `k` and the coverage of the interval from the k-th smallest to the k-th largest, `k` from 1: the narrowest that
        covers as often as wanted, else the widest there is, whose coverage is less. One figure covers nothing: 0.
    """
    if count > MOST_EXACT:
        return max(
            1, math.floor((count + 1 + NormalDist().inv_cdf((1 - confidence) / 2) * math.sqrt(count)) / 2)
        ), confidence
    tails = np.cumsum([math.comb(count, below) for below in range(count + 1)], dtype=np.float64) / 2.0**count
    return _narrowest(tails, max(count // 2, 1), confidence)


@functools.cache
def shift_bounds(count_a: int, count_b: int, confidence: float) -> tuple[int, float]:
    """Return which ordered differences of all pairs bound the shift between two sets, as `median_bounds` does.

    Args:
        count_a: figures of one set.
        count_b: figures of the other.
        confidence: wanted, such as 0.95.
    """
    pairs = count_a * count_b
    if count_a + count_b > MOST_EXACT:
        spread = math.sqrt(pairs * (count_a + count_b + 1) / 12)
        chosen = max(1, math.floor(pairs / 2 - 0.5 + NormalDist().inv_cdf((1 - confidence) / 2) * spread))
        return chosen, confidence
    sums = _subset_sums(2 * np.arange(1, count_a + count_b + 1), count_b)
    least = count_b * (count_b + 1)  # the doubled ranks if every figure of b is below every one of a
    ways = sums[least : least + 2 * pairs + 1 : 2]
    return _narrowest(np.cumsum(ways) / ways.sum(), max(pairs // 2, 1), confidence)


@functools.cache
def mean_bounds(count: int, confidence: float) -> tuple[int, float]:
    """Return which ordered means of all pairs bound the centre of differences, as `median_bounds` does.

    It inverts Wilcoxon's test (Hollander, Wolfe and Chicken, section 3.3).

    Args:
        count: differences; each makes a pair with itself and every later one.
        confidence: wanted, such as 0.95.
    """
    pairs = count * (count + 1) // 2
    if count > MOST_EXACT:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        chosen = max(1, math.floor(pairs / 2 - 0.5 + NormalDist().inv_cdf((1 - confidence) / 2) * spread))
        return chosen, confidence
    ways = _signed_sums(2 * np.arange(1, count + 1))[::2]
    return _narrowest(np.cumsum(ways) / ways.sum(), max(pairs // 2, 1), confidence)


def _narrowest(tails: NDArray[np.float64], most: int, confidence: float) -> tuple[int, float]:
    """Choose how many figures, less one, are left out at either end; `tails[i]` is the chance of i or fewer."""
    chosen = 1
    while chosen < most and 1 - 2 * tails[chosen] >= confidence:
        chosen += 1
    return chosen, max(0.0, 1 - 2 * float(tails[chosen - 1]))


def _doubled_midranks(values: Sequence[float]) -> NDArray[np.int64]:
    """Return ranks from 1, those of equal values their mean, all doubled so that they are whole."""
    _, place, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    above = np.cumsum(counts)
    return np.asarray(2 * above - counts + 1, np.int64)[place]


def _subset_sums(ranks: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return how many subsets of `size` ranks have each sum."""
    ways = np.zeros((size + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    return np.asarray(ways[size], np.float64)


def _signed_sums(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return in how many choices of signs the positive ranks have each sum."""
    ways = np.zeros(int(ranks.sum()) + 1)
    ways[0] = 1
    for rank in ranks.tolist():
        ways[rank:] += ways[: len(ways) - rank].copy()
    return ways


def _two_sided(ways: NDArray[np.float64], seen: int) -> float:
    return float(min(1.0, 2 * min(ways[: seen + 1].sum(), ways[seen:].sum()) / ways.sum()))


def _normal(distance: float, variance: float) -> float:
    """Return a two-sided p-value, corrected for continuity; identical figures do not differ."""
    return min(1.0, 2 * NormalDist().cdf(-max(0.0, abs(distance) - 0.5) / math.sqrt(variance))) if variance else 1.0
