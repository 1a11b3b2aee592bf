"""Summaries of samples, and which of their figures may be claimed: the only place that computes a percentile.

Percentiles follow MLPerf's LoadGen: a sample that really occurred, never interpolated. A percentile other than
the median is claimed only from as many samples as LoadGen's early stopping asks for; from fewer it is None, in every
document and table alike.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat
from typing_extensions import TypedDict

T = TypeVar("T")
PERCENTILES = (50, 90, 95, 99)
CONFIDENCE = 0.95
DRAWN = "uncertainty from which {unit} were drawn, not a range for other {unit}"
"""What an interval of a bootstrap is, in every table; `unit` in the plural."""
_LEAST_SCORED = 0.9  # of the resamples; where two units of many hold it all, 0.86 are
_MOST_SAMPLES = 1 << 40
# LoadGen's early stopping: with at most so many samples beyond it, a percentile is wrong with at most this probability.
_BEYOND, _DOUBT = 1, 0.01


@functools.cache
def samples_to_claim(percent: float) -> int:
    """Return the fewest samples that let a percentile be claimed.

    It is the least n of which at most one lies beyond the percentile with a probability of at most 1 % (binomial;
    MLPerf's LoadGen, early stopping with t = 1 and c = 0.99). The median and the extremes need one.

    Args:
        percent: 0 to 100; one below 50 needs as many as its mirror above.
    """
    beyond = min(percent, 100 - percent) / 100
    if percent in {0, 50, 100}:
        return 1

    def enough(count: int) -> bool:
        return (1 - beyond) ** count + count * beyond * (1 - beyond) ** (count - _BEYOND) <= _DOUBT

    return bisect.bisect_left(range(_MOST_SAMPLES), True, lo=1, key=enough)


MINIMUM_SAMPLES = {percent: samples_to_claim(percent) for percent in PERCENTILES if percent != 50}


class Summary(TypedDict):
    """What `summarize` returns, as a document holds it; a percentile is None where `count` is too small to claim it."""

    mean: FiniteFloat
    p50: FiniteFloat
    p90: FiniteFloat | None
    p95: FiniteFloat | None
    p99: FiniteFloat | None
    min: FiniteFloat
    max: FiniteFloat
    count: FiniteFloat


def percentile(ordered: Sequence[T], percent: float) -> T:
    """Return `ordered[floor(n * percent / 100)]`, the definition of MLPerf's LoadGen (results.cc), claimed or not.

    Args:
        ordered: at least one sample, ascending.
        percent: 0 to 100.
    """
    return ordered[min(math.floor(len(ordered) * percent / 100), len(ordered) - 1)]


def claimed_percentile(samples: Iterable[float], percent: float) -> float | None:
    """Return a percentile of samples, at least one; None where they are too few to claim it."""
    ordered = sorted(samples)
    return percentile(ordered, percent) if len(ordered) >= samples_to_claim(percent) else None


def summarize(samples: Sequence[float]) -> Summary:
    """Return `mean`, `p50`, `p90`, `p95`, `p99`, `min`, `max` in the samples' unit, and their `count`.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("cannot summarise an empty set of samples")
    ordered = sorted(samples)
    p90, p95, p99 = (claimed_percentile(ordered, percent) for percent in MINIMUM_SAMPLES)
    return {
        "mean": math.fsum(ordered) / len(ordered),
        "p50": percentile(ordered, 50),
        "p90": p90,
        "p95": p95,
        "p99": p99,
        "min": ordered[0],
        "max": ordered[-1],
        "count": len(ordered),
    }


def claimed(summary: Mapping[str, Any], name: str) -> float | None:
    """Return a figure of a summary for a table; None of a percentile that its `count` is too small to claim.

    Runs of earlier releases hold such percentiles.

    Args:
        summary: as `summarize` returns it, perhaps with further percentiles.
        name: such as "mean" or "p99.9".
    """
    if name.startswith("p") and summary["count"] < samples_to_claim(float(name[1:])):
        return None
    value: float | None = summary[name]
    return value


def too_few(summary: Mapping[str, Any], names: Iterable[str], unit: str) -> str:
    """Say which percentiles a summary cannot claim, and how many samples each needs; "" where it claims all.

    Args:
        summary: as `claimed` takes it.
        names: of figures.
        unit: of a sample, in the plural.
    """
    needed = {name: samples_to_claim(float(name[1:])) for name in names if name.startswith("p")}
    weak = {name: least for name, least in needed.items() if summary["count"] < least}
    if not weak:
        return ""
    least = ", ".join(map(str, weak.values()))
    counted = f"1 {unit.removesuffix('s')} is" if summary["count"] == 1 else f"{summary['count']:g} {unit} are"
    return f"{counted} too few to claim {', '.join(weak)} (needed: {least})"


def interval(
    values: NDArray[np.float64], value: float | None = None, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Return the ends of the percentile interval of a score over the resamples; the score is never outside of it.

    `DRAWN` says what it is.

    Args:
        values: float64 [resamples]; NaN where a resample held nothing to score.
        value: the score of the units themselves. A rare class that is drawn is drawn with its objects, so that with
            many of them the percentiles lie above the score; the interval then begins at it.
        confidence: how often the interval is to cover.

    Returns:
        None if more than a tenth of the resamples have no score: one or two units hold all of it, and say nothing of
        how much it depends on them.
    """
    known = values[~np.isnan(values)]
    if known.size < _LEAST_SCORED * values.size:
        return None
    low, high = np.quantile(known, ((1 - confidence) / 2, (1 + confidence) / 2))
    within = float(low), float(high)
    return within if value is None or np.isnan(value) else (min(within[0], value), max(within[1], value))
