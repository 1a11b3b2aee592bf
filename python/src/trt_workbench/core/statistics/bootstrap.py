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
_OF_NONE = -math.log(0.025)
# The margin of an interval of one unit, as a share of its width; of many units, in units, and how much more of few.
_OF_ONE, _OF_MANY, _OF_FEW, _FEW = 0.95, 1.5, 2.5, 5.0
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
    """Return what share of all units may be unlike those that were seen and all alike, being 97.5 % sure.

    Clopper and Pearson's upper limit of none, in Poisson's form: the rule of three with the tail of a 95 % interval.
    """
    return min(1.0, _OF_NONE / units)


def largest_loss(ends: tuple[float, float], units: int, *, counted: bool = False) -> float:
    """Return what a loss is at most, being 97.5 % sure, from its interval over resamples of units.

    Resamples know no unit that was not drawn: with few units that lose, the upper end of their interval lies below the
    truth too often (16 % of 80 units, of which 4 % lose). A margin is added that shrinks as the interval has more units
    in it; of an interval without width it is `unseen_share`.

    Args:
        ends: of the 95 % interval.
        units: that it is over.
        counted: whether it is a share's own interval (`share_interval`), which is wide enough for any number of units.
    """
    if counted:
        return ends[1]
    seen = (ends[1] - ends[0]) * units  # the width, in units
    margin = _OF_NONE if seen == 0 else min(_OF_ONE * seen, _OF_MANY + _OF_FEW * math.exp(-seen / _FEW))
    return ends[1] + min(1.0, margin / units)


def is_certain(ends: tuple[float, float], units: int, bound: float, *, counted: bool = False) -> bool:
    """Return whether an interval shows that a loss is at most `bound`, being 97.5 % sure.

    Args:
        ends: of the interval.
        units: that it is over. Fewer than 30 show too little of what others are like.
        bound: of the loss.
        counted: as of `largest_loss`.
    """
    return (counted or units >= LEAST_UNITS) and largest_loss(ends, units, counted=counted) <= bound


def units_alike_to_show(share: float) -> float:
    """Return how many units, all alike, show that at most a share of all is unlike them."""
    return _OF_NONE / share


def units_to_show(share: float, bound: float) -> float:
    """Return how many units a share needs for its interval to end at `bound`, which lies above it."""
    return _DEVIATIONS**2 * bound * (1 - bound) / (bound - share) ** 2
