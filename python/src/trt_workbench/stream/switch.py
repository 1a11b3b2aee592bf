"""What it costs that a chunk has another size than the one before it: other shapes, and perhaps another profile."""

from __future__ import annotations

from statistics import median

from trt_workbench.core.statistics.summary import summarize
from trt_workbench.stream.clock import Clock
from trt_workbench.stream.paced_document import Kind, Switch
from trt_workbench.stream.pieces import Pieces
from trt_workbench.stream.pool import PooledStream, StreamPool

STREAMS = 3
"""That have to fit into the pool."""
_FEWEST, _MOST = 5, 200


def switch(pool: StreamPool, pieces: Pieces, seconds: float, clock: Clock | None = None) -> Switch:
    """Time a first chunk right after a later one, another first chunk, a later one, and another later one.

    Each by itself, over and over. All that a switch needs once is done before: the pool is warm.

    Args:
        pool: warm, with room for `STREAMS` streams.
        pieces: what they hear; first and later chunks differ in size.
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
