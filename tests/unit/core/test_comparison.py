"""Verdicts on repetitions: what is the same stays the same, what is slower is found, and few data say so."""

import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trt_workbench.core.statistics.comparison import (
    Comparison,
    compare,
    compare_rounds,
    inseparable,
    median_interval,
    telling_repetitions,
    together,
)
from trt_workbench.core.statistics.rank_tests import signed_ranks

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
    assert (made.ratio_low or 9) < factor < (made.ratio_high or 0)
    assert not made.unreliable


def test_few_repetitions_cannot_tell() -> None:
    made = compare([1.0, 1.01, 1.02], [2.0, 2.01, 2.02])
    assert made.verdict == "cannot tell"
    assert made.unreliable
    assert made.cliffs_delta == 1.0


@pytest.mark.parametrize("factor", [1.0199, 1 / 1.0199, 1.0201, 0.9799])
def test_two_percent_and_no_less_is_material(factor: float) -> None:
    figures = np.linspace(1.0, 1.0001, 12)
    made = compare(figures.tolist(), (figures * factor).tolist())
    assert made.p_value < 1e-4
    assert made.verdict == (
        "no material difference" if abs(factor - 1) < 0.02 else "slower" if factor > 1 else "faster"
    )


def test_correction_goes_by_the_p_values_whatever_their_order() -> None:
    made = compare([1.0, 1.01, 1.02], [2.0, 2.01, 2.02])
    values = (0.6, 0.01, 0.04, 0.7, 0.03)
    found = together([lambda _, value=value: replace(made, p_value=value) for value in values])  # type: ignore[misc]
    assert [one.p_value for one in found] == pytest.approx([1.0, 0.05, 0.12, 1.0, 0.12])
    assert [one.p_value for one in together([lambda _: replace(made, p_value=0.0)])] == [0.0]


def test_the_interval_of_rounds_is_wilcoxons_turned_round() -> None:
    turns = [[1.5, 1.0 + place / 10, 0.5 + place] for place in range(9)]
    made = compare_rounds([1.0] * 9, [2.0] * 9, turns)
    logs = [float(np.log(np.median(one))) for one in turns]
    means = sorted((logs[i] + logs[j]) / 2 for i in range(9) for j in range(i, 9))
    assert made.ratio == pytest.approx(np.exp(np.median(means)))
    assert made.ratio_low is not None
    assert made.ratio_high is not None
    for end, side in ((made.ratio_low, -1), (made.ratio_high, 1)):
        for step, told in ((-1e-9, side < 0), (1e-9, side > 0)):
            shifted = [one - np.log(end) - step for one in logs]
            assert (signed_ranks(shifted) < 0.05) is told, "just outside of the interval the test rejects"


def test_correction_can_take_a_verdict_back() -> None:
    # The least p of an exact test with five on each side is 2/252; times ten it is no longer below 0.05.
    pair = partial(compare, [1.0, 1.01, 1.02, 1.03, 1.04], [2.0, 2.01, 2.02, 2.03, 2.04])
    assert pair(0.95).verdict == "slower"
    found = together([pair] * 10)
    assert {(made.verdict, made.ratio_low, made.interval()) for made in found} == {
        ("cannot tell", None, "too few repetitions")
    }


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
    assert compare([1.0, 1.01, 1.02], [2.0, 2.01, 2.02]).coverage == 0, "95 % cannot be had of three and three"
    nine = median_interval([float(value) for value in range(1, 10)])
    assert (nine.low, nine.high, nine.coverage) == (2.0, 8.0, pytest.approx(0.961, abs=1e-3))


@given(st.floats(0.1, 100.0), st.integers(1, 12), st.integers(1, 12))
def test_constant_figures_differ_by_nothing(value: float, first: int, second: int) -> None:
    """scipy 1.18 gives no p-value where all values tie."""
    made = compare([value] * first, [value] * second)
    assert (made.ratio, made.p_value, made.cliffs_delta) == (pytest.approx(1), 1.0, 0.0)
    assert made.verdict == "no material difference"
    assert (made.ratio_low is None) is (math.comb(first + second, first) < 2 * 20)


MIRRORED = {"slower": "faster", "faster": "slower"}


@given(FIGURES, FIGURES)
def test_swapping_the_sides_mirrors_the_effect(a: list[float], b: list[float]) -> None:
    there, back = compare(a, b), compare(b, a)
    assert back.verdict == MIRRORED.get(there.verdict, there.verdict)
    assert_verdict_is_of_the_interval(there)
    if there.ratio_low is None or there.ratio_high is None:
        assert back.ratio_low is back.ratio_high is None
        return
    assert back.ratio_low is not None
    assert back.ratio_high is not None
    assert there.cliffs_delta == pytest.approx(-back.cliffs_delta)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.p_value == pytest.approx(back.p_value)
    assert 0 <= there.p_value <= 1
    assert there.ratio_low <= there.ratio * (1 + 1e-9)
    assert there.ratio <= there.ratio_high * (1 + 1e-9)
    assert (there.ratio_low, there.ratio_high) == pytest.approx((1 / back.ratio_high, 1 / back.ratio_low))


def assert_verdict_is_of_the_interval(made: Comparison, digits: int = 2) -> None:
    """What is printed never contradicts the verdict."""
    printed = re.fullmatch(r"([\d.]+) to ([\d.]+), \d+ %", made.interval(digits))
    if printed is None:
        assert made.interval(digits) == "too few repetitions"
        near = abs(math.log(made.ratio)) < math.log(1.02)
        assert made.verdict == ("no material difference" if near else "cannot tell")
        return
    low, high = map(float, printed.groups())
    if made.verdict == "slower":
        assert low > 1
        assert made.ratio >= 1.02 * (1 - 1e-9)
    elif made.verdict == "faster":
        assert high < 1
        assert made.ratio <= (1 + 1e-9) / 1.02
    elif made.verdict == "cannot tell":
        assert low <= 1 <= high
    else:
        assert abs(math.log(made.ratio)) < math.log(1.02)


@settings(max_examples=60)
@example([[0.9] + [1.1] * 7 + [2.0] * 2], 1.0)  # ties: Wilcoxon's p is 0.0586
@given(
    st.lists(st.lists(st.floats(0.5, 2.0), min_size=9, max_size=14), min_size=1, max_size=5),
    st.sampled_from([1.0, 1.001, 1.3, 5.0]),
)
def test_no_verdict_contradicts_the_interval_that_is_printed(sets: list[list[float]], factor: float) -> None:
    """Of comparisons made together, in rounds and without; and the other way round each says the mirror image."""

    def both(turned: bool) -> list[Comparison]:
        made = []
        for values in sets:
            ratios = [[factor * value] for value in values]
            a, b = [1.0] * len(values), [ratio[0] for ratio in ratios]
            if turned:
                a, b, ratios = b, a, [[1 / ratio[0]] for ratio in ratios]
            made += [partial(compare_rounds, a, b, ratios), partial(compare, a, b)]
        return together(made)

    for there, back in zip(both(False), both(True), strict=True):
        for made in (there, back):
            assert_verdict_is_of_the_interval(made)
            assert_verdict_is_of_the_interval(made, 3)
        assert back.verdict == MIRRORED.get(there.verdict, there.verdict)
        assert (there.verdict in MIRRORED) <= (there.p_value <= 0.05)


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
        assert made.ratio_low is not None
        assert made.ratio_high is not None
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
    one = partial(compare_rounds, before.tolist(), (before * 10).tolist(), ratios)
    told = any(made.verdict == "slower" for made in together([one] * comparisons))
    assert inseparable(rounds, comparisons) is not told


def test_the_fewest_repetitions_that_tell_are_those_before_which_nothing_does() -> None:
    assert [telling_repetitions(rows - 1) for rows in (1, 2, 3, 6, 7, 8)] == [1, 4, 5, 5, 5, 6]
    # nine rounds are tested by signed ranks, which are coarser than the eight before
    assert [telling_repetitions(17, least) for least in (1, 7, 8, 9)] == [6, 7, 8, 10]


@pytest.mark.parametrize("rounds", [[], [[1.3]] * 2])
def test_without_an_interval_the_ratio_is_that_of_the_medians_beside_it(rounds: list[list[float]]) -> None:
    made = compare_rounds([106.4, 90.0, 107.0], [112.2, 150.0, 112.0], rounds)
    assert made.ratio_low is None
    assert made.ratio == pytest.approx(112.2 / 106.4)
    assert made.verdict == "cannot tell"
