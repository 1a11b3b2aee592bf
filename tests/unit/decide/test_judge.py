"""Latencies of a decision: ranks, and where there can be none."""

import pytest
from tests.records import record

from trt_workbench.decide.judge import _speeds
from trt_workbench.decide.tried import Tried

# p50 of YOLOX-Nano on an H200, milliseconds, of the repetitions that were stable first; and how many were not.
FOUND = {
    ("fp16", "trt"): ([0.8935, 0.9073, 0.9010], 2),
    ("fp32", "trt"): ([1.440, 1.428, 1.479], 0),
    ("fp32", "ort-cuda"): ([2.214, 2.351, 2.108], 1),
    ("fp16", "ort-cuda"): ([2.391, 2.258, 2.440], 0),
    ("fp32", "torch"): ([4.508, 5.009, 4.478], 2),
    ("fp16", "torch"): ([5.156, 4.610, 4.815], 0),
}


def ranks(repetitions: int) -> dict[tuple[str, str], int | None]:
    tried = [Tried(precision, backend) for precision, backend in FOUND]
    records = []
    for one in tried:
        values, marked = FOUND[one.precision, one.backend]
        for number in range(repetitions):
            unstable = ["the median moved"] if number >= repetitions - marked else []
            p50 = values[number % 3] * (1 + 1e-4 * number)
            records.append(record(one.runtime, number, p50, unstable=unstable, group="0", backend=one.backend))
    speeds = _speeds(tried, records)
    assert {speed.repetitions for speed in speeds.values()} == {repetitions}
    return {(one.precision, one.backend): speeds[one.runtime].rank for one in tried}


def test_of_three_repetitions_of_six_rows_there_are_no_ranks() -> None:
    assert set(ranks(3).values()) == {None}


def test_a_repetition_that_one_row_has_alone_tells_nothing() -> None:
    """After an interruption: ranks would say that rows could have been told apart."""
    tried = [Tried(precision, backend) for precision, backend in FOUND]
    records = [
        record(one.runtime, number, 1.0 + place, group="0")
        for place, one in enumerate(tried)
        for number in range(5 if place == 0 else 4)
    ]
    assert {one.rank for one in _speeds(tried, records).values()} == {None}
    # of three rows five repetitions and four do
    few = [one for one in records if one.runtime in {row.runtime for row in tried[:3]}]
    assert [one.rank for one in _speeds(tried[:3], few).values()] == [1, 2, 3]


def test_unstable_repetitions_count_where_too_few_others_are_left() -> None:
    found = ranks(5)
    assert (found["fp16", "trt"], found["fp32", "trt"], found["fp32", "ort-cuda"]) == (1, 2, 3)
    assert found["fp32", "torch"] == 5


@pytest.mark.parametrize("repetitions", [1, 3])
def test_a_row_alone_has_a_rank(repetitions: int) -> None:
    records = [record("trt-fp32", number) for number in range(repetitions)]
    assert _speeds([Tried("fp32", "trt")], records)["trt-fp32"].rank == 1
