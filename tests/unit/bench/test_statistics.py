import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.bench.statistics import percentile, summarize

SAMPLES = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=200)


def test_percentile_is_the_sample_at_floor_of_n_p() -> None:
    ordered = [float(value) for value in range(10)]
    assert percentile(ordered, 50) == 5.0
    assert percentile(ordered, 99) == 9.0
    assert percentile(ordered, 100) == 9.0


@given(SAMPLES, st.floats(0, 100))
def test_percentile_is_a_sample_with_enough_at_or_below_it(samples: list[float], percent: float) -> None:
    ordered = sorted(samples)
    value = percentile(ordered, percent)
    assert value in samples
    assert sum(sample <= value for sample in samples) >= math.floor(len(samples) * percent / 100)


@given(SAMPLES)
def test_summary_is_ordered(samples: list[float]) -> None:
    summary = summarize(samples)
    figures = [summary[name] for name in ("min", "p50", "p90", "p95", "p99", "max")]
    assert figures == sorted(figures)
    assert summary["min"] <= summary["mean"] * (1 + 1e-12)
    assert summary["mean"] <= summary["max"] * (1 + 1e-12)
    assert summary["count"] == len(samples)


def test_no_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        summarize([])
