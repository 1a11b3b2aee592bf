"""Which of two sets of repetitions is faster, and whether that can be said at all.

A repetition is the unit: samples within one share its process, clocks and neighbours, so they are not independent.
Within a run the runtimes are measured in rounds, and what disturbs a round disturbs all of them: from nine shared
rounds on, the ratios within the rounds are tested by Wilcoxon's signed ranks (Wilcoxon, 1945). Fewer rounds, and
repetitions of different runs, are compared by Mann-Whitney's test (Mann and Whitney, 1947). Both are exact for small
sets, and corrected by Holm's method (Holm, 1979) over all comparisons made together. A difference under 2 % is never
material (MLPerf's audit guidelines). The effect size is Cliff's delta (Cliff, 1993).

Intervals are made of ordered figures and state how often they cover (`rank_tests`): 95 % or a little more where there
are enough repetitions, less with fewer than six. A bootstrap of so few medians covers less than it says.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np

from trt_workbench.runs.rank_tests import mann_whitney, median_bounds, shift_bounds, signed_ranks
from trt_workbench.runs.statistics import CONFIDENCE

MATERIAL = 0.02
ALPHA = 0.05
LEAST_REPETITIONS = 9
"""Below this, Mann-Whitney's test is called unreliable (google/benchmark, UTEST_OPTIMAL_REPETITIONS)."""

Test = Literal["Mann-Whitney", "Wilcoxon signed-rank"]
Verdict = Literal["faster", "slower", "no material difference", "cannot tell"]


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


@dataclass(frozen=True)
class Comparison:
    """B against A.

    Attributes:
        ratio: how many times as long as A B takes, above 1 if it is slower: the median of the ratios of all pairs
            (Hodges and Lehmann, 1963), or of the rounds' ratios.
        ratio_low: lower end of its confidence interval.
        ratio_high: upper end.
        coverage: how often such an interval holds the true ratio.
        p_value: two-sided, corrected if it was made together with others.
        cliffs_delta: share of pairs in which B is the larger, minus the share in which it is the smaller.
        verdict: of B: "slower" or "faster" if the ratio is off by 2 % or more and p < 0.05; "no material difference"
            if it is off by less; else "cannot tell".
        unreliable: fewer than nine repetitions on a side.
        test: whose p-value it is.
    """

    ratio: float
    ratio_low: float
    ratio_high: float
    coverage: float
    p_value: float
    cliffs_delta: float
    verdict: Verdict
    unreliable: bool
    test: Test = "Mann-Whitney"


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median of repetitions with the narrowest interval that covers 95 %, else the widest there is.

    Args:
        values: one figure a repetition, at least one.
    """
    ordered = sorted(values)
    chosen, coverage = median_bounds(len(ordered), CONFIDENCE)
    return Interval(median(ordered), ordered[chosen - 1], ordered[-chosen], coverage)


def compare(a: Sequence[float], b: Sequence[float]) -> Comparison:
    """Compare two sets of repetition medians, at least one each, all above 0.

    Args:
        a: the reference.
        b: what is compared with it.
    """
    wins, p_value = mann_whitney(a, b)
    shifts = np.sort(np.subtract.outer(np.log(b), np.log(a)), axis=None)
    chosen, coverage = shift_bounds(len(a), len(b), CONFIDENCE)
    made = Comparison(
        ratio=float(np.exp(np.median(shifts))),
        ratio_low=float(np.exp(shifts[chosen - 1])),
        ratio_high=float(np.exp(shifts[-chosen])),
        coverage=coverage,
        p_value=p_value,
        cliffs_delta=2 * wins / (len(a) * len(b)) - 1,
        verdict="cannot tell",
        unreliable=min(len(a), len(b)) < LEAST_REPETITIONS,
    )
    return replace(made, verdict=_verdict(made))


def inseparable(rounds: int, comparisons: int) -> bool:
    """Whether so few rounds cannot tell any two runtimes apart among so many comparisons, however large a difference.

    Where all figures of a runtime are above all of the other's, the exact p-value of n rounds is 2 / 2^n by Wilcoxon's
    test, which serves from nine rounds on, and 2 / (2n over n) by Mann-Whitney's; Holm's correction multiplies the
    least of them by their number.
    """
    ways = 2.0**rounds if rounds >= LEAST_REPETITIONS else math.comb(2 * rounds, rounds)
    return 2 * comparisons >= ALPHA * ways


def telling_repetitions(comparisons: int, least: int = 1) -> int:
    """Return the fewest repetitions, from `least` on, that can tell two runtimes apart among so many comparisons."""
    return next(number for number in itertools.count(max(1, least)) if not inseparable(number, comparisons))


def compare_rounds(a: Sequence[float], b: Sequence[float], rounds: Sequence[Sequence[float]]) -> Comparison:
    """Compare two runtimes that were measured in rounds.

    Args:
        a: repetition medians of the reference, at least one.
        b: of what is compared with it, at least one.
        rounds: B over A, one for every turn of every round that both were measured in, the same number in each;
            fewer than nine rounds are not used.
    """
    unpaired = compare(a, b)
    if len(rounds) < LEAST_REPETITIONS:
        return unpaired
    logarithms = np.log([median(turns) for turns in rounds])
    inner = median_interval(logarithms.tolist())
    made = replace(
        unpaired,
        ratio=float(np.exp(inner.median)),
        ratio_low=float(np.exp(inner.low)),
        ratio_high=float(np.exp(inner.high)),
        coverage=inner.coverage,
        p_value=signed_ranks(logarithms.tolist()),
        test="Wilcoxon signed-rank",
    )
    return replace(made, verdict=_verdict(made))


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return comparisons that were made together with Holm's correction of their p-values."""
    count = len(comparisons)
    order = sorted(range(count), key=lambda index: comparisons[index].p_value)
    result = list(comparisons)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (count - rank) * comparisons[index].p_value))
        changed = replace(comparisons[index], p_value=largest)
        result[index] = replace(changed, verdict=_verdict(changed))
    return result


def _verdict(made: Comparison) -> Verdict:
    if abs(made.ratio - 1) < MATERIAL:
        return "no material difference"
    if made.p_value >= ALPHA:
        return "cannot tell"
    return "slower" if made.ratio > 1 else "faster"
