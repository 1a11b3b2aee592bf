"""Rank tests against every split and sign counted one by one, and intervals against what they cover when drawn."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.core.statistics import rank_tests
from trt_workbench.core.statistics.rank_tests import MOST_EXACT, mann_whitney, median_bounds, shift_bounds, signed_ranks

# few values, so that most sets have ties
TIED = st.lists(st.integers(0, 3).map(float), min_size=1, max_size=4)


def wins(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return sum((y > x) + (y == x) / 2 for x in a for y in b)


@given(TIED, TIED)
def test_mann_whitney_counts_every_split(a: list[float], b: list[float]) -> None:
    pooled, seen = [*a, *b], wins(tuple(a), tuple(b))
    every = []
    for chosen in itertools.combinations(range(len(pooled)), len(b)):
        rest = [value for place, value in enumerate(pooled) if place not in chosen]
        every.append(wins(tuple(rest), tuple(pooled[place] for place in chosen)))
    tail = min(sum(one <= seen for one in every), sum(one >= seen for one in every)) / len(every)
    statistic, p_value = mann_whitney(a, b)
    assert statistic == seen
    assert p_value == pytest.approx(min(1.0, 2 * tail))


@given(st.lists(st.integers(-3, 3).map(lambda step: step / 8), min_size=1, max_size=7))
def test_signed_ranks_count_every_choice_of_signs(differences: list[float]) -> None:
    told = [abs(one) for one in differences if one]
    ranks = [sum(two < one for two in told) + (sum(two == one for two in told) + 1) / 2 for one in told]
    seen = sum(rank for rank, one in zip(ranks, (d for d in differences if d), strict=True) if one > 0)
    every = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in itertools.product((0, 1), repeat=len(told))
    ]
    tail = min(sum(one <= seen for one in every), sum(one >= seen for one in every)) / len(every)
    assert signed_ranks(differences) == pytest.approx(min(1.0, 2 * tail))


@pytest.mark.parametrize("count", [1, 3, 40, 200])
def test_what_is_all_the_same_differs_by_nothing(count: int) -> None:
    assert mann_whitney([1.5] * count, [1.5] * (count + 1)) == (count * (count + 1) / 2, 1.0)
    assert signed_ranks([0.0] * count) == 1.0


def test_the_normal_curve_agrees_with_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3)
    pairs = [(draw.normal(0, 1, 31).round(1).tolist(), draw.normal(0.05, 1, 32).round(1).tolist()) for _ in range(8)]
    signed = [(draw.integers(1, 40, 75) * draw.choice([-1, 1], 75)).tolist() for _ in range(8)]
    near = [mann_whitney(*pair)[1] for pair in pairs], [signed_ranks(one) for one in signed]
    monkeypatch.setattr(rank_tests, "MOST_EXACT", 1000)
    counted = [mann_whitney(*pair)[1] for pair in pairs], [signed_ranks(one) for one in signed]
    both = zip((*near[0], *near[1]), (*counted[0], *counted[1]), strict=True)
    middle = [(approximate, exact) for approximate, exact in both if exact > 0.1]  # it is less good far out
    assert len(middle) > 10
    for approximate, exact in middle:
        assert approximate == pytest.approx(exact, rel=0.006)
        assert approximate != exact


def test_long_sets_with_the_same_middle_do_not_differ_at_all() -> None:
    count = MOST_EXACT + 1
    assert mann_whitney(range(count), range(count)) == (count**2 / 2, 1.0)
    assert signed_ranks([*range(1, count), *range(-count + 1, 0)]) == 1.0


def test_bounds_are_counted_up_to_the_limit_and_approximated_beyond() -> None:
    assert median_bounds(60, 0.95) == (22, pytest.approx(0.97266, abs=1e-5))
    assert [median_bounds(count, 0.95) for count in (61, 62, 64, 81, 100)] == [
        (23, 0.95), (23, 0.95), (24, 0.95), (32, 0.95), (40, 0.95)
    ]  # fmt: skip
    # counted one by one, they are the same or up to two figures further in
    sets = [(31, 31), (30, 32), (20, 45), (3, 60), (2, 61), (40, 40), (1, 70)]
    assert [shift_bounds(*both, 0.95) for both in sets] == [
        (chosen, 0.95) for chosen in (340, 340, 311, 28, 10, 595, 1)
    ]
    assert shift_bounds(30, 30, 0.95)[1] > 0.95


def test_bounds_never_cross_however_little_they_have_to_cover() -> None:
    assert [median_bounds(count, 0.0)[0] for count in (1, 2, 3, 4, 5, 9)] == [1, 1, 1, 2, 2, 4]
    assert [shift_bounds(*both, 0.0)[0] for both in ((1, 1), (1, 2), (1, 3), (2, 3), (3, 3))] == [1, 1, 1, 3, 4]
    assert shift_bounds(2, 3, 0.0)[1] == pytest.approx(1 - 2 * 4 / 10)
    assert shift_bounds(3, 3, 0.0)[1] == pytest.approx(1 - 2 * 7 / 20)


def test_published_tables() -> None:
    """Critical values of two-sided tests at 0.05: U of 9 and 9 is 17 (Mann-Whitney), W of 9 is 5 (Wilcoxon)."""
    assert shift_bounds(9, 9, 0.95)[0] == 17 + 1
    assert shift_bounds(3, 3, 0.95) == (1, pytest.approx(0.9))
    # ranks 1 + 4 positive: 2 * 10 / 512 choices are as far out; with 1 + 5 it is 2 * 14 / 512
    assert signed_ranks([1, -2, -3, 4, -5, -6, -7, -8, -9]) == pytest.approx(2 * 10 / 512)
    assert signed_ranks([1, -2, -3, -4, 5, -6, -7, -8, -9]) == pytest.approx(2 * 14 / 512)
    assert [median_bounds(count, 0.95) for count in (1, 2, 3, 5, 6, 9, 20)] == [
        (1, 0.0), (1, 0.5), (1, 0.75), (1, 0.9375), (1, 0.96875), (2, pytest.approx(0.9609, abs=1e-4)),
        (6, pytest.approx(0.9586, abs=1e-4)),
    ]  # fmt: skip


@pytest.mark.parametrize("count", [61, 100, 333])
def test_the_interval_of_a_long_set_covers_as_often_as_it_says(count: int) -> None:
    chosen, coverage = median_bounds(count, 0.95)
    left_out = sum(math.comb(count, below) for below in range(chosen)) / 2**count
    assert 1 - 2 * left_out == pytest.approx(coverage, abs=0.02)
    assert median_bounds(10_000_000, 0.95)[0] < 5_000_000
