import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from trt_workbench.core.statistics.bootstrap import (
    LEAST_UNITS,
    RESAMPLES,
    draw_counts,
    is_certain,
    resamples_for,
    share_interval,
    units_to_show,
)
from trt_workbench.core.statistics.summary import interval


def test_draws_have_the_size_of_the_set_and_follow_the_seed() -> None:
    counts = draw_counts(30, seed=4)
    assert counts.shape == (RESAMPLES, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert (counts == draw_counts(30, seed=4)).all()
    assert (counts != draw_counts(30, seed=5)).any()
    assert len(draw_counts(30, seed=4, resamples=7)) == 7
    assert (resamples_for(1000), resamples_for(1001)) == (1000, 200)


def test_the_interval_of_a_mean_is_the_one_of_theory() -> None:
    values = np.random.default_rng(0).normal(5, 2, 400)
    means = draw_counts(400, seed=0) @ values / 400
    low, high = interval(means) or (0, 0)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.2 * half)


def test_resamples_without_a_score_are_left_out() -> None:
    assert interval(np.array([np.nan, *[1.0] * 19])) == (1.0, 1.0)
    assert interval(np.array([np.nan, np.nan])) is None


@pytest.mark.parametrize(("holding", "known"), [(1, False), (2, False), (3, True), (8, True)])
def test_units_that_hold_nothing_to_score_are_not_counted_as_many(holding: int, known: bool) -> None:
    scored = draw_counts(40, 0)[:, :holding].sum(axis=1)
    assert (interval(np.where(scored, 0.8, np.nan), 0.8) is not None) == known


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.floats(-1, 1))
def test_a_score_is_never_outside_of_its_own_interval(resampled: list[float], value: float) -> None:
    low, high = interval(np.array(resampled), value) or (1, -1)
    assert low <= value <= high
    # a printed end is rounded as the printed value is
    assert float(f"{low:.4f}") <= float(f"{value:.4f}") <= float(f"{high:.4f}")


@pytest.mark.parametrize(("whole", "units"), [(0, 64), (1, 400), (7, 20), (64, 64)])
def test_the_interval_of_a_share_is_wilsons(whole: int, units: int) -> None:
    expected = binomtest(whole, units).proportion_ci(method="wilson")
    assert share_interval(whole / units, units) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_so_many_units_show_a_bound() -> None:
    for share, bound in ((0.0, 0.005), (0.01, 0.02)):
        assert share_interval(share, round(units_to_show(share, bound)))[1] == pytest.approx(bound, rel=0.01)


@pytest.mark.parametrize(
    ("ends", "units", "counted", "certain"),
    [
        ((-0.1, 0.0), 3, False, False),  # three images that all gained prove nothing
        ((-0.1, 0.0), LEAST_UNITS - 1, False, False),
        ((-0.1, 0.0), LEAST_UNITS, False, True),
        ((-0.1, 0.0051), 1000, False, False),
        ((0.0, 0.0), 100, False, False),
        ((0.0, 0.0), 600, False, True),
        ((0.0, 0.004), 8, True, True),
    ],
)
def test_few_units_certify_nothing(ends: tuple[float, float], units: int, counted: bool, certain: bool) -> None:
    assert is_certain(ends, units, 0.005, counted=counted) is certain
