"""Intervals of a score by the bootstrap over its units, such as images: how good a model looks depends on them.

A unit is drawn whole, with replacement (Efron, 1979). Two models that ran on the same units are drawn together: most of
what one draw changes, it changes for both, so that the interval of their difference is far narrower than either one's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# So many standard deviations on both sides hold that share of a normal distribution.
_DEVIATIONS = 1.959964
_OF_THREE = 3
LEAST_UNITS = 30
"""From so many units on, resamples show how uncertain a score is."""
RESAMPLES = 1000
# Of a set so large that its intervals are narrow, and every draw takes long.
_MANY_UNITS, _FEWER = 1000, 200


def resamples_for(units: int) -> int:
    """Return how often a set of so many units is drawn."""
    return RESAMPLES if units <= _MANY_UNITS else _FEWER


def draw_counts(units: int, seed: int, resamples: int | None = None) -> NDArray[np.int32]:
    """Return how often each unit is in each resample: int32 [resamples, units], each row of the sum `units`.

    Args:
        units: how many there are, at least one.
        seed: the same seed and number of units give the same draws, which pairs two models.
        resamples: how many; `resamples_for` them by default.
    """
    count = resamples_for(units) if resamples is None else resamples
    return np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), count).astype(np.int32)


def share_interval(share: float, units: int) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a share of units that each count fully or not at all, 0 to 1.

    Draws from units that are all alike show no spread, however few they are; this interval does (Wilson, 1927).
    """
    square = _DEVIATIONS**2
    centre = (share + square / (2 * units)) / (1 + square / units)
    half = _DEVIATIONS / (1 + square / units) * math.sqrt(share * (1 - share) / units + square / (4 * units**2))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def unseen_share(units: int) -> float:
    """Return what share of all units may be unlike those that were seen and all alike, with 95 % confidence.

    The rule of three: Hanley and Lippman-Hand, If nothing goes wrong, is everything all right?, JAMA 1983.
    """
    return min(1.0, _OF_THREE / units)


def largest_loss(ends: tuple[float, float], units: int) -> float:
    """Return the upper end of an interval over units; of one without width, with what the units may not show."""
    return ends[1] + (unseen_share(units) if ends[0] == ends[1] else 0.0)


def is_certain(ends: tuple[float, float], units: int, bound: float, *, counted: bool = False) -> bool:
    """Return whether an interval shows that a loss is at most `bound`.

    Args:
        ends: of the interval.
        units: that it is over. Fewer than 30 may all be alike where a tenth of all is not (`unseen_share`), and their
            resamples show nothing of it.
        bound: of the loss.
        counted: whether it is a share's own interval (`share_interval`), which is wide enough for any number of units.
    """
    return (counted or units >= LEAST_UNITS) and largest_loss(ends, units) <= bound


def units_alike_to_show(share: float) -> float:
    """Return how many units, all alike, show that at most a share of all is unlike them."""
    return _OF_THREE / share


def units_to_show(share: float, bound: float) -> float:
    """Return how many units a share needs for its interval to end at `bound`, which lies above it."""
    return _DEVIATIONS**2 * bound * (1 - bound) / (bound - share) ** 2
