"""From which run on a figure is another: found where it was planted, and nowhere else."""

import random

import pytest

from trt_workbench_history.changes import ChangePoint, SeriesEntry, change_points

REPETITIONS = 9


def series(
    levels: list[float], seed: int = 0, between: float = 0.004, within: float = 0.004
) -> list[SeriesEntry | None]:
    """Runs with noise between them, which all repetitions of a run share, and within them."""
    draw = random.Random(seed)
    runs = [level * draw.gauss(1, between) for level in levels]
    return [SeriesEntry(tuple(run * draw.gauss(1, within) for _ in range(REPETITIONS))) for run in runs]


def indices(found: list[ChangePoint]) -> list[int]:
    return [one.index for one in found]


@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_found_at_its_run(seed: int) -> None:
    found = change_points(series([1.0] * 8 + [1.06] * 7 + [0.9] * 6, seed), 20)
    assert indices(found) == [8, 15]
    assert [one.confirmed for one in found] == [True, True]
    assert found[0].low < found[0].ratio < found[0].high
    assert found[0].ratio == pytest.approx(1.06, abs=0.02)
    assert found[1].ratio < 1


def test_noise_is_no_change() -> None:
    """Of 60 histories of 30 runs, whose machine is off by 0.4 % a run."""
    assert [seed for seed in range(60) if change_points(series([1.0] * 30, seed), 29)] == []


def test_one_slow_run_is_no_change() -> None:
    assert change_points(series([1.0] * 6 + [1.3] + [1.0] * 6), 12) == []


def test_the_last_run_is_not_confirmed() -> None:
    found = change_points(series([1.0] * 6 + [1.3]), 6)
    assert (indices(found), found[0].confirmed) == ([6], False)


def test_a_slow_creep_is_found() -> None:
    """No two neighbours differ by 2 %: the level is that of all runs since the last change."""
    assert change_points(series([1.0 + 0.007 * run for run in range(16)], between=0), 15)


def test_a_difference_below_two_percent_is_not_material() -> None:
    assert change_points(series([1.0] * 8 + [1.01] * 8, between=0, within=0.0005), 15) == []


def test_too_few_repetitions_say_nothing() -> None:
    assert change_points([SeriesEntry((1.0, 1.01)), SeriesEntry((2.0, 2.01)), SeriesEntry((2.0, 2.01))], 2) == []


def test_a_run_that_is_not_to_be_relied_on_is_passed_over() -> None:
    runs = series([1.0] * 5 + [1.5] + [1.2] * 4)
    runs[5] = None
    assert indices(change_points(runs, 8)) == [6]


def test_scores_are_compared_by_their_intervals() -> None:
    def score(value: float, half: float = 0.01) -> SeriesEntry:
        return SeriesEntry((value,), value - half, value + half)

    assert change_points([score(0.5), score(0.495), score(0.5)], 2) == []
    found = change_points([score(0.5), score(0.4), score(0.4)], 2)
    assert (indices(found), found[0].ratio) == ([1], pytest.approx(0.8))
    assert found[0].high == pytest.approx(0.41 / 0.49)
    assert change_points([score(0.0, 0.0), score(0.0, 0.0)], 1) == []
    assert indices(change_points([score(0.0, 0.0), score(0.3)], 1)) == [1]
    assert change_points([SeriesEntry((0.5,)), SeriesEntry((0.1,))], 1) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("after", [0.0, 0.3])
def test_a_score_without_an_interval_may_fall_to_nothing(after: float) -> None:
    alone = [SeriesEntry((value,)) for value in (0.3, 0.3, 0.0, 0.0, after)]
    assert change_points(alone, 5) == []  # of single values nothing can be said
    several = [SeriesEntry((value,) * REPETITIONS) for value in (0.3, 0.3, 0.0, 0.0)]
    assert indices(change_points(several, 5)) == [2]
