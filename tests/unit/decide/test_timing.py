"""What is timed in the time that is left: never so seldom that nothing can be told."""

import numpy as np
import pytest
from tests.texts import held

from trt_workbench.decide.timing import measuring_s, timing, wanted
from trt_workbench.decide.tried import DraftRow
from trt_workbench.quantize.scores import ResampledScore


def tried(precision: str, backend: str, call_ms: float | None) -> DraftRow:
    return DraftRow(precision, backend, scores=ResampledScore(0.3, np.zeros(1), "", 1, call_ms=call_ms))


ROWS = [
    tried("fp32", "trt", 1.5),
    tried("fp32", "ort-cuda", 2.3),
    tried("fp32", "torch", 4.5),
    tried("fp16", "trt", 0.9),
    tried("fp16", "ort-cuda", 2.4),
    tried("fp16", "torch", None),
]


@pytest.mark.parametrize(
    ("rows", "left_s", "measured", "repetitions"),
    [
        (2, None, 2, 9),
        (2, 43.3, 2, 9),
        (2, 34.0, 2, 7),
        (2, 19.3, 2, 4),
        (2, 19.0, 0, 0),  # of three repetitions of two rows nothing can be told
        (6, 72.1, 6, 5),
        (6, 71.9, 5, 5),
        (6, 48.0, 4, 5),
        (6, 24.0, 2, 5),
        (6, 19.0, 0, 0),
    ],
)
def test_a_budget_takes_repetitions_then_rows(rows: int, left_s: float | None, measured: int, repetitions: int) -> None:
    found = timing(ROWS[:rows], 9, left_s)
    assert (len(found.rows), found.repetitions) == (measured, repetitions)
    assert bool(found.words) == ((measured, repetitions) != (rows, 9))
    assert left_s is None or measuring_s(ROWS[:measured], repetitions) <= left_s


def test_the_slowest_when_they_were_scored_are_left_out_and_the_fastest_baseline_stays() -> None:
    found = timing(ROWS, 9, 57.7)
    assert [one.label for one in found.rows] == ["fp32 on trt", "fp32 on ort-cuda", "fp16 on trt", "fp16 on ort-cuda"]
    held(*found.words)
    slow = [tried("fp32", "trt", 50.0), tried("fp16", "trt", 2.0), tried("int8", "trt", 1.0)]
    assert [one.precision for one in timing(slow, 9, 30.0).rows] == ["fp32", "int8"]


def test_a_repetition_of_a_slow_row_takes_ten_calls_and_one_before_them() -> None:
    slow = tried("fp16", "torch", 500.0)
    assert measuring_s([slow], 4) == pytest.approx(4 * (2 + 5.5))
    assert measuring_s([slow], 0) == 0
    assert [one.label for one in timing([*ROWS[:2], slow], 9, 45.0).rows] == ["fp32 on trt", "fp32 on ort-cuda"]


def test_more_repetitions_than_were_asked_for_where_those_tell_nothing() -> None:
    found = timing(ROWS, 3, None)
    assert found.repetitions == 5
    held(*found.words)
    places = [DraftRow("fp32", f"runtime{number}") for number in range(18)]
    assert wanted(places, 9) == 10
    assert (wanted(places, 0), wanted([], 9), wanted(places[:1], 2)) == (0, 0, 2)


def test_all_builds_of_a_row_are_one_row_and_what_is_measured_takes_no_time() -> None:
    builds = [DraftRow(name, "trt", build=number) for name in ("fp32", "fp16", "int8") for number in range(1, 9)]
    assert wanted(builds, 9) == 9
    before = measuring_s(builds, 9)
    for one in builds[:8]:
        one.measured = 9
    builds[8].lost = True
    assert measuring_s(builds, 9) == pytest.approx(before * 15 / 24)
    assert timing(builds, 9, measuring_s(builds[:10], 7) + 0.1).rows == (*builds[:9], builds[9])


def test_nothing_is_timed_where_nobody_asks() -> None:
    assert timing(ROWS, 0, None).rows == ()
    assert timing([], 9, None).rows == ()
