"""Ranks are shared where runtimes cannot be told apart; regressions are found between runs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.records import record, repetitions, run_of
from tests.texts import refused

from trt_workbench.bench.ranking import kept_records, rank, round_ratios
from trt_workbench.bench.regression import changes
from trt_workbench.bench.view import tables
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.records import Record


def test_clear_differences_are_ranked() -> None:
    records = [*repetitions("slow", 3.0), *repetitions("fast", 1.0), *repetitions("mid", 2.0)]
    standings = rank(records)
    assert [(one.runtime, one.rank) for one in standings] == [("fast", 1), ("mid", 2), ("slow", 3)]
    assert standings[0].against_best is None
    assert standings[2].against_best is not None
    assert standings[2].against_best.ratio == pytest.approx(3.0)


def test_ties_share_a_rank() -> None:
    records = [*repetitions("a", 1.0), *repetitions("b", 1.005), *repetitions("c", 1.5)]
    assert [(one.runtime, one.rank) for one in rank(records)] == [("a", 1), ("b", 1), ("c", 3)]


def test_unstable_repetitions_are_left_out_where_stable_ones_remain() -> None:
    records = [*repetitions("a", 1.0), record("a", 9, 50.0, unstable=["throttled"])]
    (standing,) = rank(records)
    assert standing.latency_ms.high < 2
    assert (standing.repetitions, standing.unstable) == (10, 1)


def test_throughput_and_latency_are_of_the_same_repetitions() -> None:
    stable = [record("a", index, 2.0) for index in range(4)]
    (standing,) = rank([*stable, *(record("a", 4 + index, 1.0, unstable=["throttled"]) for index in range(7))])
    assert standing.latency_ms.median == 2.0
    assert standing.items_per_s == 500.0


def test_where_too_few_stable_repetitions_could_show_a_difference_all_count() -> None:
    """Two of five once ranked a runtime that takes five times as long before one that takes 1.3 times as long."""
    slow = [record("slow", index, 5.0 + index / 50, unstable=["drifted"] * (index > 1)) for index in range(5)]
    standings = rank([*repetitions("fast", 1.0)[:5], *repetitions("mid", 1.3)[:5], *slow])
    assert [(one.runtime, one.rank) for one in standings] == [("fast", 1), ("mid", 2), ("slow", 3)]


def test_only_unstable_repetitions_still_count() -> None:
    (standing,) = rank([record("a", 0, 2.0, unstable=["throttled"])])
    assert standing.latency_ms.median == 2.0


def test_failed_runtimes_have_no_rank() -> None:
    failed = record("b", 0, None, error="boom")
    assert [one.runtime for one in rank([*repetitions("a", 1.0), failed])] == ["a"]


def test_nothing_measured() -> None:
    assert rank([record("b", 0, None)]) == []


@pytest.mark.parametrize(
    ("factor", "tolerance", "outcome"),
    [
        (1.0, 0.02, "no material difference"),
        (1.05, 0.02, "regression"),
        (1.05, 0.10, "no material difference"),
        (0.9, 0.02, "improvement"),
    ],
)
def test_changes_between_runs(factor: float, tolerance: float, outcome: str) -> None:
    (change,) = changes(repetitions("a", 1.0), repetitions("a", factor), tolerance)
    assert change.outcome == outcome
    assert not change.model_changed


def test_a_point_of_one_run_alone_and_another_model() -> None:
    a = [*repetitions("both", 1.0), *repetitions("gone", 1.0)]
    b = [*repetitions("both", 1.0, model_sha256="1" * 64), *repetitions("new", 1.0)]
    found = {change.runtime: change for change in changes(a, b, 0.02)}
    assert found["both"].model_changed
    assert found["gone"].outcome == "only in A"
    assert found["new"].outcome == "only in B"


def test_runs_without_a_common_point_are_not_compared() -> None:
    with refused(UsageProblem):
        changes(repetitions("a", 1.0), repetitions("b", 1.0), 0.02)
    with refused(UsageProblem):
        changes(repetitions("a", 1.0), [], 0.02)


def test_turns_of_one_group_are_compared_with_one_another() -> None:
    def runtime(name: str, factor: float, group: str) -> list[Record]:
        # the machine halves its speed in every other round, and within a round in every other turn
        shared = [[1.0, 2.0] if number % 2 else [2.0, 4.0] for number in range(10)]
        return [
            record(name, number, 1.5, group=group, slice_p50_ms=[factor * value for value in turns])
            for number, turns in enumerate(shared)
        ]

    a, b = (kept_records(runtime(name, factor, "g"))[name] for name, factor in (("a", 1.0), ("b", 1.05)))
    assert round_ratios(a, b) == [[1.05, 1.05]] * 10
    assert [one.rank for one in rank([*runtime("a", 1.0, "g"), *runtime("b", 1.05, "g")])] == [1, 2]
    other = kept_records(runtime("b", 1.05, "later"))["b"]
    assert round_ratios(a, other) == []


def pairs(runs: int, factor: float, processes: int, rounds: int, **how: Any) -> float:
    """Return in what share of runs `b` is ranked apart from `a`, if it takes `factor` times as long.

    A round disturbs both alike, by 1 %, and each of them by 0.3 %; a process has its own speed, within 1.5 %. `luck`:
    what may disturb one side for a whole run; `unstable`: what all repetitions are marked with.
    """
    rng, apart = np.random.default_rng(7), 0
    for _ in range(runs):
        own = rng.normal(0, 0.015, (2, processes)).repeat(rounds // processes, axis=1)
        noise = own + rng.normal(0, 0.01, rounds) + rng.normal(0, 0.003, (2, rounds))
        noise[1] += np.log(factor) + rng.choice([-1, 1]) * how.get("luck", 0.0)
        records = [
            record(name, number, p50, group=f"{number * processes // rounds}", unstable=how.get("unstable", []))
            for name, times in zip("ab", np.exp(noise).tolist(), strict=True)
            for number, p50 in enumerate(times)
        ]
        apart += {one.runtime: one.rank for one in rank(records)} != {"a": 1, "b": 1}
    return apart / runs


@pytest.mark.parametrize(("processes", "rounds"), [(2, 10), (4, 12), (9, 9), (9, 18)])
def test_what_is_the_same_is_seldom_ranked_apart_however_processes_differ(processes: int, rounds: int) -> None:
    assert pairs(100, 1.0, processes, rounds) <= 0.05


@pytest.mark.long
def test_a_planted_twentieth_is_found() -> None:
    assert pairs(100, 1.05, 9, 9) >= 0.95
    assert pairs(100, 1.05, 9, 18) >= 0.95


def in_turns(runs: int, factor: float, slice_noise: float, **how: Any) -> tuple[float, float]:
    """Return in what share of runs `b` is ranked below `a`, and above it, by nine rounds of ten turns each.

    The machine changes its speed by up to a half for some slices, which reaches the two that follow one another, as on
    a virtual machine with neighbours; every slice is disturbed by `slice_noise`, and a process by 0.5 %.
    """
    rng, found = np.random.default_rng(11), [0, 0]
    for _ in range(runs):
        records = []
        for number in range(9):
            changes = rng.random(20) < 0.2
            state = rng.choice([0.0, 0.12, 0.4], 20)[np.maximum.accumulate(np.where(changes, np.arange(20), 0))]
            noise = (state + rng.normal(0, slice_noise, 20)).reshape(10, 2)
            noise[1::2] = noise[1::2, ::-1]  # every other turn in reverse
            noise += rng.normal([0, np.log(factor)], 0.005)
            for name, times in zip("ab", np.exp(noise).T.tolist(), strict=True):
                shaken = {"unstable": ["drifted"] if how.get("unstable", True) else []}
                records.append(
                    record(name, number, float(np.median(times)), group=str(number), slice_p50_ms=times, **shaken)
                )
        ranks = {one.runtime: one.rank for one in rank(records)}
        found = [found[0] + (ranks["b"] > ranks["a"]), found[1] + (ranks["b"] < ranks["a"])]
    return found[0] / runs, found[1] / runs


@pytest.mark.long(but=1)
@pytest.mark.parametrize("noise", [0.003, 0.02, 0.1])
def test_where_speeds_change_in_turns_the_same_is_not_ranked_apart(noise: float) -> None:
    assert sum(in_turns(150, 1.0, noise)) <= 0.03  # an interval of 99 %


@pytest.mark.long
def test_where_speeds_change_in_turns_a_planted_twentieth_is_found() -> None:
    assert in_turns(100, 1.05, 0.02)[0] >= 0.95
    assert in_turns(100, 1 / 1.05, 0.02)[1] >= 0.95
    assert in_turns(100, 1.05, 0.02, unstable=False)[0] >= 0.95


@pytest.mark.long
def test_what_disturbs_a_side_for_a_whole_run_is_no_rank_where_it_shows() -> None:
    shaken = {"unstable": ["its threads waited for a processor"]}
    assert pairs(50, 1.0, 9, 9, luck=0.08, **shaken) == 0
    assert pairs(20, 1.0, 9, 45, luck=0.08, **shaken) == 0  # several repetitions of one process are no turns
    assert pairs(50, 1.5, 9, 9, luck=0.08, **shaken) == 1  # which no such disturbance explains
    assert pairs(50, 1.5, 9, 9, luck=0.08) == 1


def test_repetitions_without_turns_are_one_turn() -> None:
    a, b = ({0: record(name, 0, p50)} for name, p50 in (("a", 2.0), ("b", 3.0)))
    assert round_ratios(a, b) == [[1.5]]


def test_a_point_that_fails_in_the_second_run_is_named() -> None:
    failed = record("a", 0, None, error="boom")
    (change,) = changes(repetitions("a", 1.0), [failed], 0.02)
    assert change.outcome == "failed in B"
    (change,) = changes([failed], repetitions("a", 1.0), 0.02)
    assert change.outcome == "only in B"


@pytest.mark.parametrize("sides", [("A",), ("B",), ("A", "B")])
@pytest.mark.parametrize("factor", [1.5, 1 / 1.5])
def test_nothing_is_told_of_a_point_that_is_unstable_in_a_run(sides: tuple[str, ...], factor: float) -> None:
    def run(side: str, p50: float) -> list[Record]:
        return repetitions("a", p50, unstable=["throttled"] if side in sides else [])

    (change,) = changes(run("A", 1.0), run("B", factor), 0.02)
    assert (change.outcome, change.unstable) == ("cannot tell", dict.fromkeys(sides, ("throttled",)))
    # one stable repetition stands for the point, as before
    some = [*run("A", 1.0), *repetitions("a", 1.0)]
    (change,) = changes(some, repetitions("a", factor), 0.02)
    assert change.outcome == ("regression" if factor > 1 else "improvement")


def test_repetitions_that_differ_more_than_their_noise_tell_nothing() -> None:
    wild = [record("a", number, 1.0 + number % 2, p50_interval_ms=(0.99, 2.01)) for number in range(9)]
    wild = [
        one.model_copy(update={"p50_interval_ms": (one.latency_ms["p50"] * 0.99, one.latency_ms["p50"] * 1.01)})
        for one in wild
        if one.latency_ms
    ]
    calm = repetitions("a", 9.0)
    for first, second in ((wild, calm), (calm, wild)):
        (change,) = changes(first, second, 0.02)
        assert change.outcome == "cannot tell"
        assert "between repetitions" in next(iter(change.unstable.values()))[0]


OPPOSITE = {"regression": "improvement", "improvement": "regression"}


@given(
    st.lists(st.floats(0.5, 2.0), min_size=3, max_size=12),
    st.lists(st.floats(0.5, 2.0), min_size=3, max_size=12),
    st.sampled_from([1.0, 1.04, 3.0]),
    st.sampled_from([0.0, 0.02, 0.05, 0.3]),
)
def test_swapping_the_runs_mirrors_the_outcome(a: list[float], b: list[float], factor: float, tolerance: float) -> None:
    first, second = (
        [record("a", place, p50 * by, p50_interval_ms=(p50 / 9, p50 * 90)) for place, p50 in enumerate(values)]
        for values, by in ((a, 1.0), (b, factor))
    )
    (there,), (back,) = changes(first, second, tolerance), changes(second, first, tolerance)
    assert back.outcome == OPPOSITE.get(there.outcome, there.outcome)
    assert (there.comparison is None) is (back.comparison is None)


def test_an_unstable_repetition_in_turns_keeps_no_point_from_being_compared_with_another_run() -> None:
    """Within a run it counts, so that there are nine rounds; between two runs it is left out."""

    def nine(p50: float) -> list[Record]:
        return [
            record("a", number, p50 + number / 1000, slice_p50_ms=[p50] * 10, unstable=["throttled"] * (number == 4))
            for number in range(9)
        ]

    assert sorted(kept_records(nine(1.0))["a"]) == list(range(9))
    assert 4 not in kept_records(nine(1.0), one_run=False)["a"]
    (change,) = changes(nine(1.0), nine(1.5), 0.02)
    assert (change.outcome, change.unstable) == ("regression", {})


RUNTIME = st.tuples(
    st.sampled_from([1.0, 1.01, 1.05, 1.3]),  # how slow it is
    st.sampled_from([0.001, 0.02, 0.2]),  # noise of a slice
    st.sampled_from([0.0, 0.2, 1.0]),  # share of repetitions that are unstable
    st.sampled_from([0.0, 0.2]),  # share of repetitions that failed
    st.sampled_from([[], [0], [0, 1, 2, 3]]),  # repetitions of an earlier release, without slices
)


@settings(max_examples=60)
@given(
    st.lists(RUNTIME, min_size=2, max_size=4),
    st.sampled_from([3, 9, 12]),
    st.sampled_from([1, 3, 10]),
    st.integers(0, 2**32),
)
def test_ranks_and_sentences_never_contradict_the_printed_intervals(
    runtimes: list[tuple[float, float, float, float, list[int]]], rounds: int, slices: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    speed, records = np.exp(rng.choice([0.0, 0.1, 0.5], (rounds, 1))), []
    for name, (factor, noise, shaken, failed, old) in zip("abcd", runtimes, strict=False):
        times = factor * speed * np.exp(rng.normal(0, noise, (rounds, slices)))
        for number, turns in enumerate(times.tolist()):
            how = {"slice_p50_ms": [] if number in old else turns, "group": None if number in old else f"{number}"}
            if rng.random() < shaken:
                how["unstable"] = ["throttled"]
            if rng.random() >= failed:
                records.append(record(name, number, float(np.median(turns)), **how))
    run = run_of(records or [record()])
    (table,) = tables(run)
    first, *others = [row.standing for row in table.rows]
    assert (first.rank, first.against_best) == (1, None)
    assert [one.rank for one in others] == sorted(one.rank for one in others)
    for one in others:
        against = one.against_best
        assert against is not None
        assert (one.rank == 1) is (against.verdict != "slower")
        apart = against.ratio_low is not None and against.ratio_low > 1
        assert apart or one.rank == 1
        assert against.verdict != "faster"
    tied = [one.runtime for one in others if one.rank == 1]
    assert ("cannot be ranked above" in table.sentence) is bool(tied)
    assert ("is fastest" in table.sentence) <= (not tied and not first.all_unstable)
    assert ("lowest" in table.sentence) <= all(first.latency_ms.median <= one.latency_ms.median for one in others)
    assert first.latency_ms.in_words in table.sentence
    for one in [one for one in others if one.rank > 1][:1]:
        assert one.against_best is not None
        said = f"{one.runtime} takes {one.against_best.ratio:.2f} times as long ({one.against_best.interval()})"
        assert said in table.sentence


def test_what_is_not_slower_than_the_best_shares_its_rank_whatever_stands_between() -> None:
    """The comparison that is shown, with the best, decides: not one with the neighbour."""
    noisy = [record("noisy", number, (1.0, 1.9)[number % 2] + number / 1000) for number in range(9)]
    standings = rank([*repetitions("best", 1.0), *repetitions("mid", 1.3), *noisy])
    told = {one.runtime: (one.rank, one.against_best and one.against_best.verdict) for one in standings}
    assert told == {"best": (1, None), "noisy": (1, "cannot tell"), "mid": (3, "slower")}
    for one in standings[1:]:
        assert one.against_best is not None
        assert (one.rank == 1) is (one.against_best.verdict != "slower")
