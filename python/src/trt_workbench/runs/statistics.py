"""Summaries of samples. Percentiles follow MLPerf's LoadGen: a sample that really occurred, never interpolated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import FiniteFloat

from trt_workbench.engine.documents import having

PERCENTILES = (50, 90, 95, 99)

# Fewest samples from which LoadGen's early stopping (t = 1, c = 0.99) would let a percentile be claimed.
MINIMUM_SAMPLES = {90: 64, 95: 130, 99: 662}

Summary = Annotated[dict[str, FiniteFloat], having("mean", "p50", "p90", "p95", "p99", "min", "max", "count")]
"""What `summarize` returns, as a document holds it."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return `ordered[floor(n * percent / 100)]`, the definition of MLPerf's LoadGen (results.cc).

    Args:
        ordered: at least one sample, ascending.
        percent: 0 to 100.
    """
    index = math.floor(len(ordered) * percent / 100)
    return ordered[min(index, len(ordered) - 1)]


def summarize(samples: Sequence[float]) -> dict[str, float]:
    """Return `mean`, `p50`, `p90`, `p95`, `p99`, `min`, `max` in the samples' unit, and their `count`.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("cannot summarise an empty set of samples")
    ordered = sorted(samples)
    summary = {"mean": math.fsum(ordered) / len(ordered)}
    summary |= {f"p{percent}": percentile(ordered, percent) for percent in PERCENTILES}
    return {**summary, "min": ordered[0], "max": ordered[-1], "count": len(ordered)}
