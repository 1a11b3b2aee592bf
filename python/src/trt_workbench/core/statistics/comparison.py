"""Which of two sets of repetitions is faster, and whether that can be said at all.

A repetition is the unit: samples within one share its process, clocks and neighbours, so they are not independent.
Within a run the runtimes are measured in rounds, and what disturbs a round disturbs all of them: from nine shared
rounds on, the ratios within the rounds are tested by Wilcoxon's signed ranks (Wilcoxon, 1945). Fewer rounds, and
repetitions of different runs, are compared by Mann-Whitney's test (Mann and Whitney, 1947). Both are exact for small
sets, and corrected by Holm's method (Holm, 1979) over all comparisons made together. A difference under 2 % is never
material (MLPerf's audit guidelines). The effect size is Cliff's delta (Cliff, 1993).

The interval of a ratio inverts its test, at the level that Holm's method leaves it. The verdict follows only from the
interval: what is printed is what decided. Too few repetitions have no interval, and prove nothing.
Intervals of a median are made of ordered figures and state how often they cover (`rank_tests`). A bootstrap of so few
medians covers less than it says.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.percent import covered
from trt_workbench.core.statistics.rank_tests import (
    mann_whitney,
    mean_bounds,
    median_bounds,
    shift_bounds,
    signed_ranks,
)
from trt_workbench.core.statistics.summary import CONFIDENCE

MATERIAL = 0.02
ALPHA = 0.05
_MOST_DIGITS = 6
_NOTHING = 1e-12  # by which an end of an interval may miss 1 as exp(log(x)) rounds
LEAST_REPETITIONS = 9
"""Below this, Mann-Whitney's test is called unreliable (google/benchmark, UTEST_OPTIMAL_REPETITIONS)."""

Test = Literal["Mann-Whitney", "Wilcoxon signed-rank"]
Verdict = Literal["faster", "slower", "no material difference", "cannot tell"]
_APART: tuple[Verdict, ...] = ("faster", "slower")


@dataclass(frozen=True)
class Interval:
    """A median and its confidence interval.

    Attributes:
        median: of the figures.
        low: lower end; of a single figure, itself.
        high: upper end.
        coverage: how often such an interval holds the true median: 0 for a single figure.
    """

    median: float
    low: float
    high: float
    coverage: float

    @property
    def in_words(self) -> str:
        """Milliseconds with the interval and its true coverage; a single figure has none."""
        ends = f"{covered(self.coverage)} interval {self.low:.3f} to {self.high:.3f}"
        return f"{self.median:.3f} ms ({ends if self.coverage else 'no interval'})"


@dataclass(frozen=True)
class Comparison:
    """B against A.

    Attributes:
        ratio: how many times as long as A B takes, above 1 if it is slower: the median of the ratios of all pairs
            (Hodges and Lehmann, 1963), or of the geometric means of all pairs of rounds' ratios; without an interval
            the ratio of the medians that stand beside it.
        ratio_low: lower end of its confidence interval; None where the repetitions are too few for one.
        ratio_high: upper end.
        coverage: how often such an interval holds the true ratio; 0 without one.
        p_value: two-sided, corrected if it was made together with others; where the interval shows a difference, at
            most 1 less its confidence: with ties its own test and the ranks' differ by a hair.
        cliffs_delta: share of pairs in which B is the larger, minus the share in which it is the smaller.
        verdict: of B, as `verdict` reads it from the interval.
        unreliable: fewer than nine repetitions on a side.
        test: whose p-value it is.
    """

    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    coverage: float
    p_value: float
    cliffs_delta: float
    verdict: Verdict
    unreliable: bool
    test: Test = "Mann-Whitney"

    def interval(self, digits: int = 2) -> str:
        """The interval for a table, with as many digits as keep an end that is not 1 from being printed as 1."""
        if self.ratio_low is None or self.ratio_high is None:
            return "too few repetitions"
        ends = (self.ratio_low, self.ratio_high)
        while digits < _MOST_DIGITS and any(round(end, digits) == 1 != end for end in ends):
            digits += 1
        return f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}, {covered(self.coverage)}"


def verdict(ratio: float, low: float | None, high: float | None, material: float = MATERIAL) -> Verdict:
    """Return what an interval says of B; with the sides swapped, it says the mirror image.

    "slower" or "faster" if the interval is on one side of 1 and the ratio is off by `material` or more; "no material
    difference" if it is on one side and the ratio is off by less, or if it holds 1 and nothing as far off as that; else
    "cannot tell". Without one, a ratio that is off by less is no material difference, and any other cannot tell.

    Args:
        ratio: B over A.
        low: lower end of its interval; None without one.
        high: upper end.
        material: least share by which B has to differ, such as 0.02.
    """
    # the ends and the limit in logarithms, in which swapping the sides changes only the sign
    limit, middle = math.log1p(material), math.log(ratio)
    if low is None or high is None:
        return "no material difference" if abs(middle) < limit else "cannot tell"
    if low > 1 + _NOTHING or high < 1 - _NOTHING:
        return "no material difference" if abs(middle) < limit else "slower" if middle > 0 else "faster"
    return "no material difference" if max(-math.log(low), math.log(high)) < limit else "cannot tell"


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median of repetitions with the narrowest interval that covers 95 %, else the widest there is.

    Args:
        values: one figure a repetition, at least one.
    """
    ordered = sorted(values)
    chosen, coverage = median_bounds(len(ordered), CONFIDENCE)
    return Interval(median(ordered), ordered[chosen - 1], ordered[-chosen], coverage)


def compare(
    a: Sequence[float],
    b: Sequence[float],
    confidence: float = CONFIDENCE,
    material: float = MATERIAL,
    *,
    widest: bool = False,
) -> Comparison:
    """Compare two sets of repetition medians, at least one each, all above 0.

    Args:
        a: the reference.
        b: what is compared with it.
        confidence: of the interval.
        material: as of `verdict`.
        widest: whether the interval is from the least ratio of all pairs to the largest, whatever the confidence: all
            that figures which cannot be trusted can show.
    """
    wins, p_value = mann_whitney(a, b)
    shifts = np.sort(np.subtract.outer(np.log(b), np.log(a)), axis=None)
    return _made(
        shifts,
        median(b) / median(a),
        (1, 1 - 2 / math.comb(len(a) + len(b), len(a))) if widest else shift_bounds(len(a), len(b), confidence),
        confidence,
        p_value,
        2 * wins / (len(a) * len(b)) - 1,
        material,
        unreliable=min(len(a), len(b)) < LEAST_REPETITIONS,
        test="Mann-Whitney",
    )


def _made(
    shifts: NDArray[np.float64],
    plain: float,
    bounds: tuple[int, float],
    confidence: float,
    p_value: float,
    cliffs_delta: float,
    material: float,
    *,
    unreliable: bool,
    test: Test,
) -> Comparison:
    """Make a comparison of ordered differences of logarithms, and which of them bound it; `plain` without any."""
    chosen, coverage = bounds
    ratio, low, high = (float(np.exp(one)) for one in (np.median(shifts), shifts[chosen - 1], shifts[-chosen]))
    if coverage < confidence:
        found = verdict(plain, None, None, material)
        return Comparison(plain, None, None, 0.0, p_value, cliffs_delta, found, unreliable, test)
    found = verdict(ratio, low, high, material)
    p_value = min(p_value, round(1 - confidence, 12)) if found in _APART else p_value
    return Comparison(ratio, low, high, coverage, p_value, cliffs_delta, found, unreliable, test)


def inseparable(rounds: int, comparisons: int) -> bool:
    """Whether so few rounds cannot tell any two runtimes apart among so many comparisons, however large a difference.

    Where all figures of a runtime are above all of the other's, the exact p-value of n rounds is 2 / 2^n by Wilcoxon's
    test, which serves from nine rounds on, and 2 / (2n over n) by Mann-Whitney's; Holm's correction multiplies the
    least of them by their number.
    """
    return 2 * comparisons >= ALPHA * (2.0**rounds if rounds >= LEAST_REPETITIONS else math.comb(2 * rounds, rounds))


def telling_repetitions(comparisons: int, least: int = 1) -> int:
    """Return the fewest repetitions, from `least` on, that can distinguish two runtimes among so many comparisons."""
    return next(number for number in itertools.count(max(1, least)) if not inseparable(number, comparisons))


def compare_rounds(
    a: Sequence[float],
    b: Sequence[float],
    rounds: Sequence[Sequence[float]],
    confidence: float = CONFIDENCE,
    material: float = MATERIAL,
    *,
    widest: bool = False,
) -> Comparison:
    """Compare two runtimes that were measured in rounds.

    Args:
        a: repetition medians of the reference, at least one.
        b: of what is compared with it, at least one.
        rounds: B over A: in each round that measured both, one for each turn; fewer than nine rounds are not used.
        confidence: of the interval.
        material: as of `verdict`.
        widest: as of `compare`, of all rounds.
    """
    if len(rounds) < LEAST_REPETITIONS:
        return compare(a, b, confidence, material, widest=widest)
    logarithms = np.log([median(turns) for turns in rounds])
    first, second = np.triu_indices(len(logarithms))
    return _made(
        np.sort((logarithms[first] + logarithms[second]) / 2),
        median(b) / median(a),
        (1, 1 - 2 / 2.0 ** len(logarithms)) if widest else mean_bounds(len(logarithms), confidence),
        confidence,
        signed_ranks(logarithms.tolist()),
        compare(a, b).cliffs_delta,
        material,
        unreliable=min(len(a), len(b)) < LEAST_REPETITIONS,
        test="Wilcoxon signed-rank",
    )


def together(comparisons: Sequence[Callable[[float], Comparison]]) -> list[Comparison]:
    """Return comparisons that are made together, with Holm's correction of their p-values and of their intervals.

    Each interval is at the level of its test by Holm's method; from the first indistinguishable one on, at its level.

    Args:
        comparisons: each takes the confidence of its interval.
    """
    count = len(comparisons)
    result = [one(CONFIDENCE) for one in comparisons]
    largest, tested = 0.0, count
    for rank, index in enumerate(sorted(range(count), key=lambda index: result[index].p_value)):
        raw = result[index].p_value
        tested = count - rank if largest < ALPHA else tested
        largest = max(largest, min(1.0, (count - rank) * raw))
        made = comparisons[index](1 - ALPHA / tested)
        result[index] = replace(made, p_value=min(largest, ALPHA) if made.verdict in _APART else largest)
    return result
