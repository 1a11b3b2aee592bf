"""Streams in real time, on a clock of the test's own: what is late, what is joined, when a level is given up."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.texts import held

from trt_workbench.stream.clock import Clock
from trt_workbench.stream.paced import pace, rounds
from trt_workbench.stream.paced_document import Level, Paced


class Virtual(Clock):
    """Time that passes only where somebody waits or works."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def wait(self, until: float) -> None:
        self.time = max(self.time, until)


class Stopping(Virtual):
    """Virtual time of a machine that stops for some seconds when the clock is waited for a given time."""

    def __init__(self, at: int, seconds: float) -> None:
        super().__init__()
        self.left, self.seconds = at, seconds

    def wait(self, until: float) -> None:
        super().wait(until)
        self.left -= 1
        if self.left < 0:
            self.time, self.seconds = self.time + self.seconds, 0.0


class Pool:
    """Takes `call` seconds for a batch and `row` for each stream in it."""

    def __init__(self, clock: Virtual, call: float, row: float, most: int = 8) -> None:
        self.clock, self.call, self.row, self.buckets = clock, call, row, (1, most)
        self.open_streams, self.pushes = 0, list[list[tuple[Any, Any]]]()

    def open(self) -> Any:
        pool = self

        class Stream:
            def close(self) -> None:
                pool.open_streams -= 1

        self.open_streams += 1
        return Stream()

    def push(self, streams: Sequence[Any], chunks: Sequence[Any]) -> None:
        assert len(set(streams)) == len(streams) == len(chunks)
        self.pushes.append(list(zip(streams, chunks, strict=True)))
        self.clock.time += self.call + self.row * len(streams)

    def timing(self) -> dict[str, float]:
        return {"inference": 1e3 * self.call, "host": 0.0}


def run(
    count: int, call: float, row: float, *, hop: float = 0.1, seconds: float = 1.0, clock: Virtual | None = None
) -> tuple[Level, Pool]:
    clock = clock or Virtual()
    pool = Pool(clock, call, row)
    done: list[int] = []
    level = pace(pool, lambda stream, chunk: (stream, chunk), count, hop, seconds, done.append, clock)  # type: ignore[arg-type]
    assert sum(done) == level.chunks == sum(map(len, pool.pushes))
    assert pool.open_streams == 0
    return level, pool


def test_streams_that_are_seldom_due_run_alone_and_are_late_by_their_own_time() -> None:
    level, pool = run(4, 0.01, 0.001)
    assert (level.chunks, level.complete, level.within_hop) == (40, True, None)
    assert (level.latency_ms["p99"], level.latency_p99_9_ms, level.verdict) == (None, None, "cannot tell")
    assert level.latency_ms["min"] == pytest.approx(11)
    assert level.latency_ms["max"] == pytest.approx(11)
    assert (level.rows_mean, level.rows_max) == (1, 1)
    assert level.real_time_factor == pytest.approx(0.11)
    # the last chunk of the last stream is due at 0.975 s
    assert level.busy == pytest.approx(0.44 / 0.986)
    assert level.parts_ms["wait"]["max"] == pytest.approx(0)
    assert level.parts_ms["inference"]["p50"] == pytest.approx(10)
    heard = [chunk for push in pool.pushes for _, chunk in push]
    assert heard == [(stream, chunk) for chunk in range(10) for stream in range(4)]


def test_chunks_that_come_meanwhile_are_joined_and_wait() -> None:
    level, pool = run(20, 0.01, 0.001, seconds=4)  # one is due every 5 ms, and a batch takes more than 10
    assert level.within_hop
    assert level.verdict == "yes"
    assert level.times_ms["p99"] is not None
    assert level.times_ms["p99.9"] is None
    assert [len(push) for push in pool.pushes[:3]] == [1, 2, 2]
    assert 2 <= level.rows_mean <= 4
    assert level.latency_ms["max"] < 30
    assert level.parts_ms["wait"]["max"] > 0
    for push in pool.pushes:
        assert len({stream for _, (stream, _) in push}) == len(push)


def test_no_batch_is_larger_than_the_largest() -> None:
    level, pool = run(64, 0.012, 0.0001)  # 64 chunks in 8 batches of 12.8 ms take a little more than a hop
    assert max(map(len, pool.pushes)) == level.rows_max == 8
    assert level.complete


def test_two_chunks_of_one_stream_are_never_in_one_batch() -> None:
    level, pool = run(2, 0.13, 0.0, seconds=1.0)  # the pool says so
    assert [len(push) for push in pool.pushes[:4]] == [1, 2, 2, 2]
    assert level.rows_max == 2


def test_a_level_that_falls_behind_is_given_up() -> None:
    level, _ = run(64, 0.02, 0.0, seconds=60)
    assert not level.complete
    assert not level.within_hop
    assert level.chunks < 64 * 600
    assert 400 < level.latency_ms["max"] < 500
    assert level.busy == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("at", [0, 1, 7])
@pytest.mark.parametrize("count", [1, 4])
def test_a_machine_that_stops_makes_chunks_late_and_ends_no_level_that_catches_up(at: int, count: int) -> None:
    """Stopped for 4.5 hops before the first chunk is taken, or later."""
    level, _ = run(count, 0.01, 0.001, clock=Stopping(at, 0.45))
    assert (level.chunks, level.complete) == (10 * count, True)
    assert level.latency_ms["max"] > 450
    late = level.latency_ms["p50"] if at == 0 else level.latency_ms["max"]
    assert not level.within_hop
    assert late > 11
    assert level.latency_ms["min"] == pytest.approx(11), "the level has caught up at its end"


def test_a_machine_that_stops_under_a_level_that_is_too_much_ends_it() -> None:
    level, _ = run(64, 0.02, 0.0, seconds=60, clock=Stopping(0, 1.0))
    assert not level.complete
    assert 64 <= level.chunks < 64 * 10
    assert level.busy < 1


@pytest.mark.parametrize(("seconds", "within"), [(0.3, None), (66.1, None), (66.2, False)])
def test_late_at_p99_is_not_within_a_hop_however_complete(seconds: float, within: bool | None) -> None:
    level, _ = run(1, 0.1 + 1e-9, 0.0, hop=0.1, seconds=seconds)
    assert level.complete
    assert level.chunks == round(10 * seconds)
    assert level.within_hop is within
    assert level.verdict == ("no" if within is False else "cannot tell")


def test_what_is_said_of_levels_follows_from_them() -> None:
    known, few, behind = (run(4, 0.01, 0.001, seconds=s)[0] for s in (20, 1, 1))
    behind = behind.model_copy(update={"complete": False, "within_hop": False})

    def text(*levels: Level) -> str:
        return Paced.model_construct(levels=list(levels)).text

    held(text(known))
    held(text(behind))
    unknown = "cannot tell for 4, as 40 chunks are too few to claim p99 (needed: 662); raise --seconds"
    assert text(few, behind) == f"Within a hop at p99: {unknown}."
    held(text(known, few))
    old = few.model_copy(update={"within_hop": True, "latency_ms": {**few.latency_ms, "p99": 11.0}})
    assert text(old) == f"Within a hop at p99: {unknown}.", "a run of an earlier release"


@pytest.mark.parametrize(("seconds", "hop", "expected"), [(5.0, 0.56, 9), (0.1, 0.56, 3), (10.0, 0.01, 1000)])
def test_a_level_has_at_least_three_chunks_a_stream(seconds: float, hop: float, expected: int) -> None:
    assert rounds(seconds, hop) == expected


def test_real_time_passes() -> None:
    clock = Clock()
    until = clock.now() + 0.01
    clock.wait(until)
    assert until <= clock.now() < until + 1
    clock.wait(until)
