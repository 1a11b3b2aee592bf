"""Intervals of a score by the bootstrap over its units, such as images: how good a model looks depends on them.

A unit is drawn whole, with replacement (Efron, 1979). Two models that ran on the same units are drawn together: most of
what one draw changes, it changes for both, so that the interval of their difference is far narrower than either one's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.statistics.summary import CONFIDENCE, interval

# Of so many standard deviations on both sides: they hold 95 % of a normal distribution.
_SQUARE = 1.959964**2
_TAIL = (1 - CONFIDENCE) / 2
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


def step_of(values: NDArray[np.float64]) -> float:
    """Return by how much a score moves where it moves at all, given its values of units, float64 [units].

    A score in jumps has the same value for many units: right and wrong move by 1. Values that are all different, as of
    a distance, move as little as anything: by 0. In between it is the share of the values that another unit has, too,
    times the mean distance of two that differ. Values that are all the same say only how large they are.
    """
    found, counts = np.unique(values, return_counts=True)
    if len(found) == 1:
        return abs(float(found[0]))
    before = counts.cumsum() - counts
    apart = (counts * found) @ (2 * before + counts - len(values)) / (counts @ before)
    return float(apart * counts[counts > 1].sum() / len(values))


def loss_interval(
    loss: float,
    drawn: NDArray[np.float64],
    units: int,
    seed: int,
    step: float,
    each: NDArray[np.float64] | None = None,
) -> tuple[float, float] | None:
    """Return the ends of the 95 % interval of a loss that two models have on the same units; None as of `interval`.

    Resamples know no unit that was not drawn: with few units that lose, their upper end lies below the truth too often
    (16 % of 80 units, of which 4 % lose). So one more unit is drawn with the others. For the upper end it loses a step,
    or as much as the one that loses most; for the lower end it gains so much. Its weight is that of one among
    `units + 1` in the Bayesian bootstrap (Rubin, 1981). So do Gaffke (2005) and Phan, Thomas and Learned-Miller (ICML
    2021), whose bound of a mean takes the most that a unit can lose; that is not known here. Of units that lose all or
    nothing the end is Clopper and Pearson's, and where none loses, the rule of three for a step. No weight is negative:
    the mean of units, none of which loses more than another model's, has no higher end than that one's. And a loss that
    may be above 0 has no lower end than that of a model that changes nothing: one unit that gains shows no less.

    Args:
        loss: of the units themselves.
        drawn: float64 [resamples], the loss over those of `draw_counts`; NaN where a resample held nothing to score.
        units: how many there are.
        seed: of the draws.
        step: what a unit loses at least that loses anything, the same for all models that are compared (`step_of`).
        each: float64 [units], what each one loses where the loss is their mean; None to find it by a regression on the
            draws.
    """
    if interval(drawn, loss) is None:
        return None
    if each is None:
        known = ~np.isnan(drawn)
        change = drawn[known] - drawn[known].mean()
        each = loss + units * (change @ draw_counts(units, seed, len(drawn))[known]) / len(change)
    # all quantiles of the weight in any order; it is 1 - u^(1 / units), where u is uniform
    weights = 1 - np.random.default_rng((seed, units)).permutation(np.linspace(0, 1, len(drawn))) ** (1 / units)
    low, high = (
        ends[place]
        for place, most in enumerate((min(-step, each.min()), max(step, each.max())))
        if (ends := interval(drawn * (1 - weights) + most * weights))
    )
    of_none = step * (1 - _TAIL ** (1 / units))
    return min(loss, low), max(loss, high, of_none if high > 0 else high)


def another(units: int) -> NDArray[np.intp]:
    """Return for each unit another one, int [units]: at random, as neighbours are alike where classes come in turn."""
    order = np.random.default_rng(units).permutation(units)
    return np.roll(order, 1)[np.argsort(order)]


def units_to_settle(
    loss: float, ends: tuple[float, float], deviation: float | None, units: int, bound: float
) -> int | None:
    """Return how many units would settle whether a loss is within a bound, if the loss and the spread stay as they are.

    `loss_interval`, solved for the number of units at which its end meets the bound.

    Args:
        loss: of the units that were scored.
        ends: of its 95 % interval.
        deviation: of the loss over resamples, its standard deviation; None where it is not known: then as many as the
            interval alone may stand for.
        units: that were scored.
        bound: of the loss.

    Returns:
        At least 30; None where no number would, as the loss is the bound.
    """
    if (room := bound - loss) == 0:
        return None
    margin = ends[1] - loss if room > 0 else loss - ends[0]
    variance = margin**2 if deviation is None else _SQUARE * deviation**2
    skew = max(0.0, margin**2 - variance) / (2 * margin) if margin else 0.0
    return max(LEAST_UNITS, math.ceil(units * (2 * abs(room) * skew + variance) / room**2))


def is_certain(ends: tuple[float, float], units: int, bound: float) -> bool:
    """Return whether an interval shows that a loss is at most `bound`, being 97.5 % sure.

    Args:
        ends: of the interval (`loss_interval`).
        units: that it is over. Fewer than 30 show too little of what others are like.
        bound: of the loss.
    """
    return units >= LEAST_UNITS and ends[1] <= bound
