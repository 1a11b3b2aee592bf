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
    largest_loss,
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
        ((-0.1, 0.0), LEAST_UNITS, False, False),  # nor do thirty: others may lose
        ((-0.1, 0.0), 310, False, True),
        ((-0.1, 0.0051), 1000, False, False),
        ((0.0, 0.0), 100, False, False),
        ((0.0, 0.0), 737, False, False),
        ((0.0, 0.0), 738, False, True),
        ((0.0, 0.004), 8, True, True),
    ],
)
def test_few_units_certify_nothing(ends: tuple[float, float], units: int, counted: bool, certain: bool) -> None:
    assert is_certain(ends, units, 0.005, counted=counted) is certain


@pytest.mark.parametrize("units", [40, 80, 200, 500])
@pytest.mark.parametrize(("lose", "win"), [(0.02, 0.0), (0.04, 0.0), (0.04, 0.02), (0.08, 0.06), (0.3, 0.1)])
def test_the_largest_loss_is_below_the_truth_in_at_most_2_and_a_half_percent(
    units: int, lose: float, win: float
) -> None:
    """Of 80 units, of which 4 % lose, resamples alone miss the truth in 16 % of trials."""
    drawn = np.random.default_rng(0).random((units, 4000))
    loss = np.where(drawn < lose, 1.0, np.where(drawn < lose + win, -1.0, 0.0))
    ends = np.percentile(draw_counts(units, 0) / units @ loss, [2.5, 97.5], axis=0)
    found = [largest_loss((low, high), units) for low, high in ends.T]
    assert np.mean(np.array(found) < lose - win - 1e-12) <= 0.025


def test_nothing_is_certain_from_one_image_that_gets_better() -> None:
    counts, none = draw_counts(40, 0) / 40, np.zeros(39)
    most = {
        name: largest_loss(tuple(np.percentile(counts @ np.r_[first, none], [2.5, 97.5])), 40)
        for name, first in (("nothing", 0.0), ("better", -1.0), ("worse", 1.0))
    }
    assert most["nothing"] == pytest.approx(3.69 / 40, abs=1e-3)
    assert 0.03 < most["better"] < most["nothing"] < most["worse"]


def test_a_margin_is_small_where_many_units_lose_a_little() -> None:
    assert largest_loss((0.001, 0.003), 10_000) == pytest.approx(0.003 + 1.5 / 10_000, abs=1e-5)
    assert largest_loss((0.0010, 0.0011), 100) == pytest.approx(0.0011 + 0.95 * 0.0001)
    assert largest_loss((0.1, 0.2), 30, counted=True) == 0.2
