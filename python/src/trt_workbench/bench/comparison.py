"""Which of two sets of repetitions is faster, and whether that can be said at all.

A repetition is the unit: samples within one share its process, clocks and neighbours, so they are not independent.
Within a run the runtimes are measured in rounds, and what disturbs a round disturbs all of them: from nine shared
rounds on, the ratios within the rounds are tested by Wilcoxon's signed ranks (Wilcoxon, 1945). Fewer rounds, and
repetitions of different runs, are compared by Mann-Whitney's test (Mann and Whitney, 1947). Both are exact for small
sets, and corrected by Holm's method (Holm, 1979) over all comparisons made together. A difference under 2 % is never
material (MLPerf's audit guidelines). The effect size is Cliff's delta (Cliff, 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np

MATERIAL = 0.02
ALPHA = 0.05
RESAMPLES = 9999
CONFIDENCE = 0.95
LEAST_REPETITIONS = 9
"""Below this, Mann-Whitney's test is called unreliable (google/benchmark, UTEST_OPTIMAL_REPETITIONS)."""

Test = Literal["Mann-Whitney", "Wilcoxon signed-rank"]
Verdict = Literal["faster", "slower", "no material difference", "cannot tell"]


@dataclass(frozen=True)
class Interval:
    """A median and its bootstrap confidence interval; all three are None for an empty set."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """B against A.

    Attributes:
        ratio: median of B over median of A, or the median of the ratios turn by turn; above 1, B is slower.
        ratio_low: lower end of its bootstrap confidence interval.
        ratio_high: upper end.
        p_value: two-sided, corrected if it was made together with others.
        cliffs_delta: share of pairs in which B is the larger, minus the share in which it is the smaller.
        verdict: of B: "slower" or "faster" if the medians differ by 2 % or more and p < 0.05; "no material difference"
            if they differ by less; else "cannot tell".
        unreliable: fewer than nine repetitions on a side.
        test: whose p-value it is.
    """

    ratio: float
    ratio_low: float
    ratio_high: float
    p_value: float
    cliffs_delta: float
    verdict: Verdict
    unreliable: bool
    test: Test = "Mann-Whitney"


def median_interval(values: Sequence[float], seed: int = 0) -> Interval:
    """Return the median of repetitions with its 95 % percentile-bootstrap interval.

    Args:
        values: one figure a repetition, at least one. A single one is its own interval.
        seed: of the resampling.
    """
    if len(values) == 1:
        return Interval(values[0], values[0], values[0])
    low, high = np.percentile(_resampled_medians(values, seed), _tails())
    return Interval(median(values), float(low), float(high))


def compare(a: Sequence[float], b: Sequence[float], seed: int = 0) -> Comparison:
    """Compare two sets of repetition medians, at least one each.

    Args:
        a: the reference.
        b: what is compared with it.
        seed: of the resampling.
    """
    from scipy.stats import mannwhitneyu

    test = mannwhitneyu(b, a, alternative="two-sided", method="auto")
    ratios = _resampled_medians(b, seed + 1) / _resampled_medians(a, seed)
    low, high = (float(value) for value in np.percentile(ratios, _tails()))
    made = Comparison(
        ratio=median(b) / median(a),
        ratio_low=low,
        ratio_high=high,
        p_value=float(test.pvalue),
        cliffs_delta=2 * float(test.statistic) / (len(a) * len(b)) - 1,
        verdict="cannot tell",
        unreliable=min(len(a), len(b)) < LEAST_REPETITIONS,
    )
    return replace(made, verdict=_verdict(made))


def inseparable(rounds: int, comparisons: int) -> bool:
    """Whether so few rounds cannot tell any two runtimes apart among so many comparisons.

    Wilcoxon's signed rank test of n pairs that all point the same way has the exact p-value 2 / 2^n; Holm's correction
    multiplies the least of them by their number.
    """
    return comparisons >= ALPHA * 2.0 ** (rounds - 1)


def compare_rounds(
    a: Sequence[float], b: Sequence[float], rounds: Sequence[Sequence[float]], seed: int = 0
) -> Comparison:
    """Compare two runtimes that were measured in rounds.

    Args:
        a: repetition medians of the reference, at least one.
        b: of what is compared with it, at least one.
        rounds: B over A, one for every turn of every round that both were measured in, the same number in each;
            fewer than nine rounds are not used.
        seed: of the resampling.
    """
    from scipy.stats import wilcoxon

    unpaired = compare(a, b, seed)
    if len(rounds) < LEAST_REPETITIONS:
        return unpaired
    ratios = np.asarray(rounds, np.float64)
    logarithms = np.log(np.median(ratios, axis=1))
    chosen = np.random.default_rng(seed).integers(0, len(ratios), (RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[chosen].reshape(RESAMPLES, -1), axis=1), _tails())
    made = replace(
        unpaired,
        ratio=float(np.median(ratios)),
        ratio_low=float(low),
        ratio_high=float(high),
        p_value=float(wilcoxon(logarithms).pvalue) if logarithms.any() else 1.0,
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


def _resampled_medians(values: Sequence[float], seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    data = np.asarray(values, np.float64)
    chosen = np.random.default_rng(seed).integers(0, len(data), (RESAMPLES, len(data)))
    return np.asarray(np.median(data[chosen], axis=1), np.float64)


def _tails() -> tuple[float, float]:
    return 100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2
