"""Verdicts on repetitions: what is the same stays the same, what is slower is found, and few data say so."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_workbench.runs.comparison import (
    compare,
    compare_rounds,
    corrected,
    inseparable,
    median_interval,
    telling_repetitions,
)

FIGURES = st.lists(st.floats(0.1, 100.0), min_size=1, max_size=20)


def noisy(centre: float, count: int, seed: int, spread: float = 0.004) -> list[float]:
    return list(np.random.default_rng(seed).normal(centre, centre * spread, count))


def test_equal_distributions_are_no_material_difference_19_times_in_20() -> None:
    verdicts = [compare(noisy(1.0, 20, seed), noisy(1.0, 20, 1000 + seed)).verdict for seed in range(20)]
    assert verdicts.count("no material difference") >= 19


@pytest.mark.parametrize(("factor", "verdict"), [(1.05, "slower"), (0.95, "faster")])
def test_five_percent_is_found(factor: float, verdict: str) -> None:
    made = compare(noisy(1.0, 9, 1), noisy(factor, 9, 2))
    assert made.verdict == verdict
    assert made.ratio_low < factor < made.ratio_high
    assert not made.unreliable


def test_few_repetitions_cannot_tell() -> None:
    made = compare([1.0, 1.01, 1.02], [2.0, 2.01, 2.02])
    assert made.verdict == "cannot tell"
    assert made.unreliable
    assert made.cliffs_delta == 1.0


def test_a_significant_difference_below_two_percent_is_not_material() -> None:
    made = compare(noisy(1.0, 30, 1, 0.0005), noisy(1.01, 30, 2, 0.0005))
    assert made.p_value < 1e-6
    assert made.verdict == "no material difference"


@pytest.mark.parametrize("factor", [1.0199, 1 / 1.0199, 1.0201, 0.9799])
def test_two_percent_and_no_less_is_material(factor: float) -> None:
    figures = np.linspace(1.0, 1.0001, 12)
    made = compare(figures.tolist(), (figures * factor).tolist())
    assert made.p_value < 1e-4
    assert made.verdict == (
        "no material difference" if abs(factor - 1) < 0.02 else "slower" if factor > 1 else "faster"
    )


def test_a_p_value_of_five_percent_is_too_much() -> None:
    """In the others' places everything is equal, so that the verdict is the p-value's."""
    made = compare([1.0, 1.01, 1.02, 1.03, 1.04], [2.0, 2.01, 2.02, 2.03, 2.04])
    told = [corrected([replace(made, p_value=value)])[0].verdict for value in (0.03, 0.0499, 0.05, 0.06)]
    assert told == ["slower", "slower", "cannot tell", "cannot tell"]


def test_correction_goes_by_the_p_values_whatever_their_order() -> None:
    made = compare([1.0, 1.01, 1.02], [2.0, 2.01, 2.02])
    found = corrected([replace(made, p_value=value) for value in (0.6, 0.01, 0.04, 0.7, 0.03)])
    assert [one.p_value for one in found] == pytest.approx([1.0, 0.05, 0.12, 1.0, 0.12])
    assert [one.p_value for one in corrected([replace(made, p_value=0.0)])] == [0.0]


def test_the_interval_of_rounds_is_that_of_their_medians() -> None:
    turns = [[1.5, 1.0 + place / 10, 0.5 + place] for place in range(9)]
    made = compare_rounds([1.0] * 9, [2.0] * 9, turns)
    inner = median_interval([float(np.median(one)) for one in turns])
    found = (made.ratio, made.ratio_low, made.ratio_high, made.coverage)
    assert found == pytest.approx((inner.median, inner.low, inner.high, inner.coverage))


def test_holms_correction_by_hand() -> None:
    sets = [noisy(1.0, 9, 1), noisy(1.05, 9, 2), noisy(1.1, 9, 3), noisy(1.0, 9, 4)]
    raw = [compare(sets[0], other) for other in sets[1:]]
    found = [made.p_value for made in corrected(raw)]
    ordered = sorted(made.p_value for made in raw)
    expected = {ordered[0]: 3 * ordered[0], ordered[2]: max(3 * ordered[0], 2 * ordered[1], ordered[2])}
    assert found[[made.p_value for made in raw].index(ordered[0])] == pytest.approx(expected[ordered[0]])
    assert found[[made.p_value for made in raw].index(ordered[2])] == pytest.approx(min(1.0, expected[ordered[2]]))


def test_correction_can_take_a_verdict_back() -> None:
    # The least p of an exact test with five on each side is 2/252; times ten it is no longer below 0.05.
    pair = compare([1.0, 1.01, 1.02, 1.03, 1.04], [2.0, 2.01, 2.02, 2.03, 2.04])
    assert pair.verdict == "slower"
    assert {made.verdict for made in corrected([pair] * 10)} == {"cannot tell"}


@given(FIGURES)
def test_the_interval_holds_the_median(values: list[float]) -> None:
    interval = median_interval(values)
    assert interval.low <= interval.median <= interval.high
    assert min(values) <= interval.low
    assert interval.high <= max(values)


def test_an_interval_says_what_it_covers() -> None:
    """Three repetitions span the true median three times in four, not nineteen times in twenty."""
    few = median_interval([50.0, 31.6, 74.0])
    assert (few.median, few.low, few.high, few.coverage) == (50.0, 31.6, 74.0, 0.75)
    assert median_interval([1.0]).coverage == 0.0
    assert compare([1.0, 1.01, 1.02], [2.0, 2.01, 2.02]).coverage == pytest.approx(0.9)
    nine = median_interval([float(value) for value in range(1, 10)])
    assert (nine.low, nine.high, nine.coverage) == (2.0, 8.0, pytest.approx(0.961, abs=1e-3))


@given(st.floats(0.1, 100.0), st.integers(1, 12), st.integers(1, 12))
def test_constant_figures_differ_by_nothing(value: float, first: int, second: int) -> None:
    """scipy 1.18 gives no p-value where all values tie."""
    made = compare([value] * first, [value] * second)
    assert (made.ratio, made.p_value, made.cliffs_delta) == (pytest.approx(1), 1.0, 0.0)
    assert made.verdict == "no material difference"


@given(FIGURES, FIGURES)
def test_swapping_the_sides_mirrors_the_effect(a: list[float], b: list[float]) -> None:
    there, back = compare(a, b), compare(b, a)
    assert there.cliffs_delta == pytest.approx(-back.cliffs_delta)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.p_value == pytest.approx(back.p_value)
    assert 0 <= there.p_value <= 1
    assert there.ratio_low <= there.ratio * (1 + 1e-9)
    assert there.ratio <= there.ratio_high * (1 + 1e-9)
    assert (there.ratio_low, there.ratio_high) == pytest.approx((1 / back.ratio_high, 1 / back.ratio_low))


def rounds(factor: float, count: int, turns: int, seed: int) -> tuple[list[float], list[float], list[list[float]]]:
    """Repetitions on a machine that others disturb by a third, alike for both; turns add little noise."""
    draw = np.random.default_rng(seed)
    shared = draw.lognormal(0, 0.3, (count, turns))
    first, second = (shared * draw.normal(level, 0.01, (count, turns)) for level in (1.0, factor))
    return list(np.median(first, axis=1)), list(np.median(second, axis=1)), (second / first).tolist()


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "no material difference"), (1.05, "slower"), (0.95, "faster")])
def test_rounds_see_through_what_disturbs_both(factor: float, verdict: str) -> None:
    for seed in range(5):
        a, b, turns = rounds(factor, 12, 5, seed)
        made = compare_rounds(a, b, turns)
        assert made.verdict == verdict
        assert made.ratio_low < factor < made.ratio_high or abs(made.ratio - factor) < 0.01
        assert made.test == "Wilcoxon signed-rank"
        assert made.ratio_high - made.ratio_low < 0.02


def test_few_rounds_are_compared_without_pairs() -> None:
    a, b, turns = rounds(1.05, 8, 5, 1)
    assert compare_rounds(a, b, turns) == compare(a, b)


def test_the_same_figures_in_every_round_differ_by_nothing() -> None:
    made = compare_rounds([1.0] * 9, [1.0] * 9, [[1.0]] * 9)
    assert (made.ratio, made.p_value, made.verdict) == (1.0, 1.0, "no material difference")


@settings(max_examples=40)
@given(st.integers(2, 12), st.integers(1, 40))
def test_inseparable_is_when_even_the_largest_difference_fails(rounds: int, comparisons: int) -> None:
    rng = np.random.default_rng(0)
    before = 1 + rng.random(rounds) / 100
    ratios = [[10 + value] for value in rng.random(rounds)]
    made = compare_rounds(before.tolist(), (before * 10).tolist(), ratios)
    told = any(one.verdict == "slower" for one in corrected([made] * comparisons))
    assert inseparable(rounds, comparisons) is not told


def test_the_fewest_repetitions_that_tell_are_those_before_which_nothing_does() -> None:
    assert [telling_repetitions(rows - 1) for rows in (1, 2, 3, 6, 7, 8)] == [1, 4, 5, 5, 5, 6]
    # nine rounds are tested by signed ranks, which are coarser than the eight before
    assert [telling_repetitions(17, least) for least in (1, 7, 8, 9)] == [6, 7, 8, 10]
