"""Intervals of a score by the bootstrap over its units, such as images: how good a model looks depends on them.

A unit is drawn whole, with replacement (Efron, 1979). Two models that ran on the same units are drawn together: most of
what one draw changes, it changes for both, so that the interval of their difference is far narrower than either one's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.statistics.summary import interval

# So many standard deviations on both sides hold that share of a normal distribution.
_DEVIATIONS = 1.959964
_SQUARE, _NOTHING = _DEVIATIONS**2, 1e-18
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
    centre = (share + _SQUARE / (2 * units)) / (1 + _SQUARE / units)
    half = _DEVIATIONS / (1 + _SQUARE / units) * math.sqrt(share * (1 - share) / units + _SQUARE / (4 * units**2))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def loss_interval(
    loss: float, drawn: NDArray[np.float64], units: int, seed: int, whole: float = 1.0
) -> tuple[float, float] | None:
    """Return the ends of the 95 % interval of a loss that two models have on the same units; None as of `interval`.

    Resamples know no unit that was not drawn: with few units that lose, their upper end lies below the truth too often
    (16 % of 80 units, of which 4 % lose). This is a score interval, like Wilson's and Tango's: the variance at an
    end is that of units of which as many more lose, or gain, as move the loss there. What each unit adds to the loss
    comes from a regression on the draws; one more of the largest stands on either side. If none differs, one loses all.

    Args:
        loss: of the units themselves.
        drawn: float64 [resamples], the loss over those of `draw_counts`; NaN where a resample held nothing to score.
        units: how many there are.
        seed: of the draws.
        whole: what a unit loses that loses all: 1 of shares and AP.
    """
    if interval(drawn, loss) is None:
        return None
    known = ~np.isnan(drawn)
    change = drawn[known] - drawn[known].mean()
    each = loss + units * (change @ draw_counts(units, seed, len(drawn))[known]) / len(change)
    squares = float((each**2).sum())
    most = float(abs(each).max()) if squares > _NOTHING else whole
    moves = []
    for side in (-each, each):
        half = (float((side.clip(0) ** 3).sum()) + most**3) / (squares + most**2) * _SQUARE / (2 * units)
        moves.append(half + math.sqrt(half**2 + _SQUARE * float(change.var())))
    return loss - moves[0], loss + moves[1]


def largest_loss(ends: tuple[float, float], units: int) -> float:
    """Return what a loss is at most, being 97.5 % sure, where only the interval over resamples is known.

    A margin for units that were not drawn shrinks as the interval has more units in it; without width it is Clopper and
    Pearson's upper limit of none, in Poisson's form.

    Args:
        ends: of the 95 % interval.
        units: that it is over.
    """
    seen = (ends[1] - ends[0]) * units  # the width, in units
    margin = _OF_NONE if seen == 0 else min(_OF_ONE * seen, _OF_MANY + _OF_FEW * math.exp(-seen / _FEW))
    return ends[1] + min(1.0, margin / units)


def units_to_settle(
    loss: float, ends: tuple[float, float], deviation: float | None, units: int, bound: float, *, counted: bool
) -> int | None:
    """Return how many units would settle whether a loss is within a bound, if the loss and the spread stay as they are.

    `loss_interval` and `share_interval`, solved for the number of units at which their end meets the bound.

    Args:
        loss: of the units that were scored.
        ends: of its 95 % interval.
        deviation: of the loss over resamples, its standard deviation; None where it is not known: then as many as the
            interval alone may stand for.
        units: that were scored.
        bound: of the loss.
        counted: whether the interval is `share_interval`'s.

    Returns:
        At least 30; None where no number would, as the loss is the bound.
    """
    if (room := bound - loss) == 0:
        return None
    if counted:
        needed = _SQUARE * bound * (1 - bound) / room**2
    else:
        margin = ends[1] - loss if room > 0 else loss - ends[0]
        variance = margin**2 if deviation is None else _SQUARE * deviation**2
        skew = max(0.0, margin**2 - variance) / (2 * margin)
        needed = units * (2 * abs(room) * skew + variance) / room**2
    return max(LEAST_UNITS, math.ceil(needed))


def is_certain(ends: tuple[float, float], units: int, bound: float) -> bool:
    """Return whether an interval shows that a loss is at most `bound`, being 97.5 % sure.

    Args:
        ends: of the interval (`loss_interval`).
        units: that it is over. Fewer than 30 show too little of what others are like.
        bound: of the loss.
    """
    return units >= LEAST_UNITS and ends[1] <= bound
