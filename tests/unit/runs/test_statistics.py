import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.runs.statistics import MINIMUM_SAMPLES, percentile, summarize

SAMPLES = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=200)


def test_percentile_is_the_sample_at_floor_of_n_p() -> None:
    ordered = [float(value) for value in range(10)]
    assert percentile(ordered, 50) == 5.0
    assert percentile(ordered, 99) == 9.0
    assert percentile(ordered, 100) == 9.0


@given(st.integers(1, 500), st.integers(0, 100))
def test_percentile_has_exactly_its_share_of_the_samples_below_it(count: int, percent: int) -> None:
    """Of samples that all differ, so that one place beside it is another figure."""
    value = percentile([10.0 * place for place in range(count)], percent)
    assert value == 10.0 * min(count * percent // 100, count - 1)


def test_the_least_samples_are_those_of_early_stopping() -> None:
    """The fewest of which a binomial tail lets one above the percentile through (MLPerf: t = 1, c = 0.99)."""
    for percent, least in MINIMUM_SAMPLES.items():
        over = 1 - percent / 100
        chance = [(1 - over) ** count + count * over * (1 - over) ** (count - 1) for count in (least - 1, least)]
        assert chance[1] <= 0.01 < chance[0]
    assert sorted(MINIMUM_SAMPLES) == [90, 95, 99]


@given(SAMPLES)
def test_summary_is_ordered(samples: list[float]) -> None:
    summary = summarize(samples)
    figures = [summary[name] for name in ("min", "p50", "p90", "p95", "p99", "max")]
    assert figures == sorted(figures)
    assert summary["min"] <= summary["mean"] * (1 + 1e-12)
    assert summary["mean"] <= summary["max"] * (1 + 1e-12)
    assert summary["count"] == len(samples)
    assert summary["p90"] == percentile(sorted(samples), 90)


def test_no_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        summarize([])
