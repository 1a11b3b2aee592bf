"""Streams in real time: each delivers a chunk a hop, and those that are due are joined into batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import takewhile
from statistics import median
from typing import Any

from numpy.typing import NDArray

from trt_workbench.core.precision import STREAM
from trt_workbench.core.statistics.summary import claimed_percentile, summarize
from trt_workbench.stream.clock import Clock
from trt_workbench.stream.joined import joined
from trt_workbench.stream.lane_gates import judged_as
from trt_workbench.stream.opening import OpenedStream
from trt_workbench.stream.paced_document import Kind, Level, Paced, Switch
from trt_workbench.stream.pool import PooledStream, StreamPool
from trt_workbench.stream.rows import Pieces

STREAMS = 3
"""That have to fit into the pool."""
_FEWEST, _MOST = 5, 200


def switch(pool: StreamPool, pieces: Pieces, seconds: float, clock: Clock | None = None) -> Switch:
    """Time a first chunk right after a later one, another first chunk, a later one, and another later one.

    Each by itself, over and over. All that a switch needs once is done before: the pool is warm.

    Args:
        pool: warm, with room for `STREAMS` streams.
        pieces: what they are fed; first and later chunks differ in size.
        seconds: after which no new round begins, from five rounds on.
        clock: the time; real by default.
    """
    time_of = clock or Clock()
    times: dict[str, list[float]] = {"first switched": [], "first again": [], "later switched": [], "later again": []}

    def timed(stream: PooledStream) -> float:
        piece, begin = pieces(0, stream.chunks), time_of.now()
        pool.push([stream], [piece])
        return (time_of.now() - begin) * 1e3

    old = pool.open()
    timed(old)
    end, rounds = time_of.now() + seconds, 0
    while rounds < _MOST and (rounds < _FEWEST or time_of.now() < end):
        new = [pool.open() for _ in range(STREAMS - 1)]
        timed(old)  # later; what opening has put on the device's queue is done after it
        for found, stream in zip(times.values(), (*new, old, old), strict=True):
            found.append(timed(stream))
        for stream in new:
            stream.close()
        rounds += 1
    old.close()
    kinds: tuple[Kind, ...] = ("first", "later")
    again = {kind: times[f"{kind} again"] for kind in kinds}
    switched = {kind: times[f"{kind} switched"] for kind in kinds}
    return Switch(
        rounds=rounds,
        again_ms={kind: summarize(found) for kind, found in again.items()},
        switched_ms={kind: summarize(found) for kind, found in switched.items()},
        cost={
            kind: median(b - a for a, b in zip(again[kind], switched[kind], strict=True)) / median(again[kind])
            for kind in kinds
        },
    )


# A level that is so many hops behind is given up unless it catches up: the machine may have stopped for a while.
_HOPS_BEHIND = 4
_FEWEST_ROUNDS = 3


def rounds(seconds: float, hop_s: float) -> int:
    """Return how many chunks each stream of a level has."""
    return max(_FEWEST_ROUNDS, math.ceil(seconds / hop_s))


def run_paced(
    opened: OpenedStream, precision: str, signal: NDArray[Any], hop_s: float, progress: Callable[[int], None]
) -> Paced:
    """Compare streams in batches with each alone, and if they are equal, run every level of the settings.

    Args:
        opened: the target.
        precision: of it.
        signal: of one stream; every stream begins elsewhere in it.
        hop_s: seconds from one chunk of a stream to the next.
        progress: called with chunks that were run.

    Raises:
        UsageProblem: the contract does not fit the target, or its format is simulated.
        DeviceFailure: the device failed.
    """
    settings, session, contract = opened.settings, opened.joined_session(precision), opened.contract
    session.require_native()
    folder, record = opened.contract_path.parent, opened.record(session)
    kind = judged_as(record.get("precision_ran"), precision, opened.contract)
    limit = contract.gates.of(kind).rel_l2_max or STREAM.limit(kind)
    pieces, most = Pieces(contract, signal, settings.chunk), max(settings.streams)
    sizes = {settings.chunk or one.size for one in (contract.chunking.first, contract.chunking.later)}
    switches, switched = len(sizes) > 1, None
    capacity = max(most, STREAMS) if switches else most
    with StreamPool(session, contract, folder=folder, capacity=capacity, size=settings.chunk, timing=True) as pool:
        check = joined(pool, session, pieces, min(most, pool.buckets[-1]), limit, folder, lambda: progress(0))
        levels = []
        if check.passed:
            pool.warm_up()
            switched = switch(pool, pieces, settings.seconds) if switches else None
            levels = [pace(pool, pieces, count, hop_s, settings.seconds, progress) for count in settings.streams]
        within = list(takewhile(lambda level: level.within_hop, levels))
        return Paced(
            precision=precision,
            judged_as=kind,
            provenance={key: value for key, value in record.items() if key != "precision_ran"},
            on_device=pool.on_device,
            cuda_graphs=pool.graph_status(),
            hop_ms=hop_s * 1e3,
            seconds=settings.seconds,
            buckets=list(pool.buckets),
            memory_bytes=pool.memory_bytes(),
            check=check,
            switch=switched,
            levels=levels,
            most_streams=within[-1].streams if within else None,
        )


def pace(
    pool: StreamPool,
    pieces: Pieces,
    count: int,
    hop_s: float,
    seconds: float,
    progress: Callable[[int], None],
    clock: Clock | None = None,
) -> Level:
    """Run `count` streams in real time, their starts spread over a hop.

    Args:
        pool: with room for them.
        pieces: what they are fed.
        count: of streams.
        hop_s: seconds from one chunk of a stream to the next.
        seconds: of real time, and at least three hops.
        progress: called with the chunks of every batch.
        clock: the time; real by default.

    Returns:
        What was found of the chunks that were run, at least one.
    """
    time_of = clock or Clock()
    streams = [pool.open() for _ in range(count)]
    total, most = count * rounds(seconds, hop_s), pool.buckets[-1]
    latency: list[float] = []
    parts: dict[str, list[float]] = {}
    rows: list[int] = []
    busy, complete, done, behind = 0.0, True, 0, _Behind(_HOPS_BEHIND * hop_s, count)
    begin = time_of.now()

    def due(chunk: int) -> float:
        return begin + (chunk // count + chunk % count / count) * hop_s

    while done < total:
        time_of.wait(due(done))
        started = time_of.now()
        if behind.hopeless(started - due(done), done):
            complete = False
            break
        last = min(total, done + min(count, most))  # no stream twice in a batch
        ready = next((chunk for chunk in range(done + 1, last) if due(chunk) > started), last)
        some = [streams[chunk % count] for chunk in range(done, ready)]
        pool.push(some, [pieces(chunk % count, chunk // count) for chunk in range(done, ready)])
        ended = time_of.now()
        rows.append(len(some))
        busy += ended - started
        pushed = pool.timing()
        for chunk in range(done, ready):
            latency.append((ended - due(chunk)) * 1e3)
            # parts on the device's clock may add up to a little more than the whole on the host's
            for part, value in {"wait": (started - due(chunk)) * 1e3, **pushed}.items():
                parts.setdefault(part, []).append(max(value, 0.0))
        done = ready
        progress(len(some))
    wall = time_of.now() - begin
    for stream in streams:
        stream.close()
    summary = summarize(latency)
    return Level(
        streams=count,
        chunks=done,
        complete=complete,
        latency_ms=summary,
        latency_p99_9_ms=claimed_percentile(latency, 99.9),
        within_hop=complete and (None if (p99 := summary["p99"]) is None else p99 <= hop_s * 1e3),
        real_time_factor=busy / (done * hop_s),
        busy=busy / wall,
        rows_mean=done / len(rows),
        rows_max=max(rows),
        parts_ms={part: summarize(values) for part, values in parts.items()},
    )


class _Behind:
    """How late a level is once it is too late, and whether it is catching up."""

    def __init__(self, limit: float, count: int) -> None:
        """Take the seconds from which a level is too late, and the number of streams."""
        self._limit, self._count = limit, count
        self._since: tuple[float, int] | None = None

    def hopeless(self, late: float, chunk: int) -> bool:
        """Whether a chunk is as late as the one before it of its stream was, and both too late."""
        if late <= self._limit:
            self._since = None
        elif self._since is None or chunk >= self._since[1] + self._count:
            if self._since and late >= self._since[0]:
                return True
            self._since = late, chunk
        return False
