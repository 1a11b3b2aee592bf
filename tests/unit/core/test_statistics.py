import ast
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.texts import held

import trt_workbench
from trt_workbench.core.statistics.summary import (
    MINIMUM_SAMPLES,
    PERCENTILES,
    claimed,
    claimed_percentile,
    interval,
    percentile,
    samples_to_claim,
    summarize,
    too_few,
)

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
    every = (summary["min"], *(claimed(summary, f"p{percent}") for percent in PERCENTILES), summary["max"])
    figures = [figure for figure in every if figure is not None]
    assert figures == sorted(figures)
    assert summary["min"] <= summary["mean"] * (1 + 1e-12)
    assert summary["mean"] <= summary["max"] * (1 + 1e-12)
    assert summary["count"] == len(samples)
    assert summary["p90"] == (percentile(sorted(samples), 90) if len(samples) >= 64 else None)


def test_no_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        summarize([])


@pytest.mark.parametrize("percent", [90, 95, 99, 99.9, 75, 10, 0.1])
@pytest.mark.parametrize("short", [0, 1])
def test_a_percentile_is_claimed_from_its_least_samples_on(percent: float, short: int) -> None:
    count = samples_to_claim(percent) - short
    samples = np.random.default_rng(0).permutation(count).astype(float).tolist()
    found = claimed_percentile(samples, percent)
    assert found == (None if short else percentile(sorted(samples), percent))
    name = f"p{percent:g}"
    assert claimed({"count": count, name: 5.0}, name) == (None if short else 5.0), "of an earlier release alike"
    assert bool(too_few({"count": count}, ["mean", name], "calls")) == bool(short)


def test_far_percentiles_need_far_more_and_the_median_one() -> None:
    assert [samples_to_claim(percent) for percent in (0, 50, 100)] == [1, 1, 1]
    assert samples_to_claim(99.9) == 6636
    assert samples_to_claim(10) == samples_to_claim(90)
    few = too_few({"count": 100}, ["mean", "p50", "p90", "p95", "p99", "max"], "chunks")
    held(few)


@given(st.integers(1, 2000))
def test_what_is_too_few_for_one_percentile_is_for_every_further_one(count: int) -> None:
    known = [claimed_percentile(range(count), percent) is not None for percent in (60, 75, 90, 95, 99, 99.9)]
    assert known == sorted(known, reverse=True)


def test_an_interval_of_nothing_is_none_and_of_one_value_that_value() -> None:
    assert interval(np.array([np.nan])) is None
    assert interval(np.array([np.nan, *[0.25] * 19])) == (0.25, 0.25)


PACKAGE = Path(trt_workbench.__file__).parent
# Robust scales of a tensor's elements, which no document shows.
SCALES = {"core/compare.py"}


def computing(text: str) -> set[str]:
    """Names of functions that compute percentiles or intervals of samples, as far as a module calls or imports them."""
    names = {"percentile", "quantile", "nanpercentile", "nanquantile", "quantiles", "scoreatpercentile", "bootstrap"}
    found = set()
    for node in ast.walk(ast.parse(text if any(name in text for name in names) else "")):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found |= {node.func.attr} & names
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("trt_workbench"):
            found |= {alias.name for alias in node.names} & names
    return found


def test_no_other_module_computes_a_percentile() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if computing(path.read_text("utf-8"))
    }
    assert found - SCALES == {"core/statistics/summary.py"}


@pytest.mark.parametrize("text", ["np.percentile(x, 9)", "numpy.nanquantile(x, 1)", "from statistics import quantiles"])
def test_such_a_module_would_be_found(text: str) -> None:
    assert computing(text)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.j2")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_template_shows_no_percentile_unasked(path: Path) -> None:
    """What is no median goes through `claimed`, or is of a view's `percentiles_ms`, which did."""
    assert not re.search(r"(?<!percentiles_ms)\.p9", path.read_text("utf-8"))
