from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trt_workbench.core.statistics import bootstrap
from trt_workbench.core.statistics.bootstrap import (
    LEAST_UNITS,
    RESAMPLES,
    draw_counts,
    is_certain,
    loss_interval,
    resamples_for,
    step_of,
    units_to_settle,
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


@pytest.mark.parametrize(
    ("ends", "units", "certain"),
    [((-0.1, 0.0), LEAST_UNITS - 1, False), ((-0.1, 0.0), LEAST_UNITS, True), ((-0.1, 0.0051), 1000, False)],
)
def test_few_units_certify_nothing(ends: tuple[float, float], units: int, certain: bool) -> None:
    assert is_certain(ends, units, 0.005) is certain


def loss_of(each: NDArray[np.float64], seed: int = 0, step: float = 1.0, *, known: bool = True) -> tuple[float, float]:
    """Return the interval of the mean of what each unit loses, which is known or found by a regression."""
    counts = bootstrap.draw_counts(len(each), seed, RESAMPLES) / len(each)
    ends = loss_interval(float(each.mean()), counts @ each, len(each), seed, step, each if known else None)
    return ends or (np.nan, np.nan)


@pytest.mark.parametrize("units", [40, 80])
@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize(("lose", "win"), [(0.02, 0.0), (0.04, 0.0), (0.04, 0.02), (0.08, 0.06), (0.3, 0.1)])
def test_an_interval_of_a_loss_holds_the_truth_as_often_as_it_says(
    units: int, noise: float, lose: float, win: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resamples alone end below the truth in 16 % of trials of 80 units, of which 4 % lose."""
    monkeypatch.setattr(bootstrap, "draw_counts", cache(draw_counts))
    rng = np.random.default_rng(1)
    drawn = rng.random((400, units))
    loss = np.where(drawn < lose, 1.0, np.where(drawn < lose + win, -1.0, 0.0)) + noise * rng.normal(size=drawn.shape)
    low, high = np.array([loss_of(one, step=1 - noise) for one in loss]).T
    below, above = np.mean(high < lose - win - 1e-12), np.mean(low > lose - win + 1e-12)
    assert below <= 0.05
    assert above <= 0.05
    assert 1 - below - above >= 0.93
    if noise or units * lose > 5:  # else the fewest that may be missing are more than the interval leaves out
        assert 1 - below - above <= 0.99


@pytest.mark.parametrize("units", [30, 40, 200, 1000])
@pytest.mark.parametrize("lost", [0, 1, 2, 4, 10])
def test_of_units_that_lose_all_or_nothing_the_upper_end_is_clopper_and_pearsons(units: int, lost: int) -> None:
    from scipy.stats import binomtest

    expected = binomtest(lost, units).proportion_ci(method="exact").high
    assert loss_of(np.r_[np.ones(lost), np.zeros(units - lost)])[1] == pytest.approx(expected, rel=0.08)


def test_where_no_unit_loses_another_may_lose_a_step() -> None:
    assert loss_of(np.zeros(735))[1] > 0.005 > loss_of(np.zeros(736))[1]
    assert loss_of(np.zeros(40)) == pytest.approx((-0.088, 0.088), abs=1e-3)
    assert loss_of(np.zeros(40), step=0.05) == pytest.approx((-0.0044, 0.0044), abs=1e-4)
    assert loss_of(np.zeros(40), step=0.0) == (0, 0)


def test_what_each_unit_loses_is_found_by_a_regression_where_it_is_not_known() -> None:
    each = np.random.default_rng(0).normal(0.01, 0.02, 80)
    assert loss_of(each, step=0, known=False) == pytest.approx(loss_of(each, step=0), abs=0.002)


def test_a_score_in_jumps_moves_by_what_lies_between_its_values() -> None:
    assert step_of(np.r_[np.ones(30), np.zeros(10)]) == 1
    assert step_of(np.r_[np.full(30, 7.0), np.full(10, 4.0)]) == 3
    assert step_of(np.random.default_rng(0).random(1000)) == 0
    assert step_of(np.array([0.0, 0.0, 0.0, 0.1])) == pytest.approx(0.1 * 3 / 4)
    assert step_of(np.array([1.0, 1.0])) == 1
    assert step_of(np.array([0.3])) == 0.3


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_steps_and_intervals_are_in_the_unit_of_the_score(scale: float) -> None:
    values = np.round(np.random.default_rng(0).random(60), 1)
    each = 0.01 * np.random.default_rng(1).normal(size=60)
    assert step_of(scale * values) == pytest.approx(scale * step_of(values))
    expected = [scale * end for end in loss_of(each, step=0.01)]
    assert loss_of(scale * each, step=scale * 0.01) == pytest.approx(expected)


def test_one_unit_that_gains_makes_no_loss_certain() -> None:
    from scipy.stats import binomtest

    better, none = loss_of(np.r_[-1.0, np.zeros(39)]), loss_of(np.zeros(40))
    worse = loss_of(np.r_[1.0, np.zeros(39)])
    assert better[1] == pytest.approx(none[1], rel=1e-3)
    assert none[1] < worse[1]
    assert worse[1] == pytest.approx(-better[0], abs=1e-3)
    assert worse[1] == pytest.approx(binomtest(1, 40).proportion_ci(method="exact").high, abs=0.01)


def test_many_units_that_lose_a_little_have_the_interval_of_their_mean() -> None:
    each = np.random.default_rng(0).normal(0.01, 0.02, 1000)
    half = 1.96 * each.std() / np.sqrt(1000)
    ends = loss_of(each, step=0)
    assert ends == pytest.approx((each.mean() - half, each.mean() + half), abs=0.15 * half)


def test_draws_without_a_score_are_left_out_and_too_many_leave_no_interval() -> None:
    each = np.r_[np.ones(4), np.zeros(36)]
    drawn = draw_counts(40, 0) @ each / 40
    drawn[::20] = np.nan
    assert loss_interval(0.1, drawn, 40, 0, 1.0) == pytest.approx(loss_of(each), abs=0.01)
    drawn[::5] = np.nan
    assert loss_interval(0.1, drawn, 40, 0, 1.0) is None


@pytest.mark.parametrize(("lost", "bound"), [(0, 0.005), (1, 0.015), (4, 0.03), (40, 0.1)])
def test_so_many_units_as_are_said_settle_a_share(lost: int, bound: float) -> None:
    each = np.r_[np.ones(lost), np.zeros(200 - lost)]
    deviation = float((draw_counts(200, 0) @ each / 200).std())
    needed = units_to_settle(lost / 200, loss_of(each), deviation, 200, bound)
    assert needed is not None
    later = loss_of(np.r_[np.ones(round(lost * needed / 200)), np.zeros(needed - round(lost * needed / 200))])
    assert later[int(bound > lost / 200)] == pytest.approx(bound, rel=0.1)


@pytest.mark.parametrize("bound", [0.005, -0.001])
@pytest.mark.parametrize("few", [False, True])
def test_so_many_units_as_are_said_settle_a_mean(bound: float, *, few: bool) -> None:
    """The units that were scored, as often as it takes, so that the loss and the spread stay as they are."""
    generator = np.random.default_rng(3)
    each = np.where(np.arange(200) < 3, 0.2, 0.0) if few else generator.normal(0, 0.03, 200)
    each += 0.002 - each.mean()
    counts = draw_counts(200, 0)
    drawn = counts @ each / 200
    ends = loss_interval(0.002, drawn, 200, 0, 0.0)
    assert ends is not None
    assert ends[0] < bound < ends[1]
    needed = units_to_settle(0.002, ends, float(drawn.std()), 200, bound)
    assert needed is not None
    assert needed > 200
    more = generator.permutation(np.resize(each, needed))
    more += 0.002 - more.mean()
    later = loss_interval(0.002, draw_counts(needed, 1) @ more / needed, needed, 1, 0.0)
    assert later is not None
    assert later[int(bound > 0.002)] == pytest.approx(bound, abs=0.25 * abs(bound - 0.002))


def test_no_number_of_units_settles_a_loss_at_its_bound() -> None:
    assert units_to_settle(0.005, (0.0, 0.01), 0.002, 80, 0.005) is None
    assert units_to_settle(0.0, (-0.01, 0.01), 0.0, 80, 0.9) == LEAST_UNITS
