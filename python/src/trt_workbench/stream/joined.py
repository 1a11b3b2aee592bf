"""Whether streams of different age in one batch equal each of them run alone: checked before any of them is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.core.compare import difference
from trt_workbench.stream.contract.feeding import fitted
from trt_workbench.stream.paced_document import JoinedCheck
from trt_workbench.stream.pool import PooledStream, StreamPool
from trt_workbench.stream.rows import Pieces, row_of

# With streams of each number: once with the new ones in their first chunk, once with all of them continuing.
_PUSHES = 2


def alone(
    session: Session, pieces: Pieces, stream: int, chunks: int, folder: Path
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield after each chunk the outputs of a stream by itself, and its state by input; the host passes that on."""
    contract, signal = pieces.contract, pieces.whole(stream, chunks)
    axis = contract.signal[1].batch_axis
    states = {pair.output for pair in contract.state}
    cut = list(contract.chunks(signal.shape[contract.signal[1].time_axis], pieces.size))
    values = [contract.chunk_values(chunk) for chunk in cut]
    if axis is not None:  # a model with a fixed number of rows gets the stream in all of them
        signal = np.repeat(signal, contract.shape(contract.signal[0], values[0])[axis], axis)
    state = contract.initial_state(values[0], folder)
    for chunk, known in zip(cut, values, strict=True):
        outputs = session.run(fitted({**contract.feed(chunk, signal, known), **state}, session.inputs))
        state = contract.next_state(outputs)
        found = {**{name: array for name, array in outputs.items() if name not in states}, **state}
        yield {name: row_of(array, contract.batch_axis(name), 0) for name, array in found.items()}


def joined(
    pool: StreamPool, session: Session, pieces: Pieces, most: int, limit: float, folder: Path, run: Callable[[], None]
) -> JoinedCheck:
    """Compare streams that are opened one after the other, run in batches and closed, with each of them alone.

    Args:
        pool: without open streams.
        session: the same model's, for the streams alone.
        pieces: what the streams are fed.
        most: streams that are open at once at most.
        limit: of the relative L2.
        folder: that holds the contract's files.
        run: called after every batch.
    """
    sizes = [*(size for size in pool.buckets if size < most), most]
    longest = _PUSHES * len(sizes) + 2
    expected: dict[PooledStream, Iterator[Mapping[str, NDArray[Any]]]] = {}
    numbers: dict[PooledStream, int] = {}
    live: list[PooledStream] = []
    found = _Found(limit)

    def fill(size: int) -> None:
        while len(live) < size:
            stream = pool.open()
            live.append(stream)
            numbers[stream] = len(numbers)
            expected[stream] = alone(session, pieces, numbers[stream], longest, folder)

    def push() -> None:
        live.append(live.pop(0))  # a stream has another row each time
        chunks = [stream.chunks for stream in live]
        outputs = pool.push(live, [pieces(numbers[stream], chunk) for stream, chunk in zip(live, chunks, strict=True)])
        for stream, chunk, one in zip(live, chunks, outputs, strict=True):
            # its state as well: an error there may not reach an output for many chunks
            own = {**one, **stream.save().state}
            found.add(f"chunk {chunk} of stream {numbers[stream]}", own, next(expected[stream]), len(live))
        run()

    for size in sizes:
        fill(size)
        for _ in range(_PUSHES):
            push()
    for stream in live[::2]:
        live.remove(stream)
        stream.close()
    if live:
        push()
    fill(most)  # new streams in the places of those that were closed
    push()
    for stream in live:
        stream.close()
    return found.verdict(most)


class _Found:
    """The worst of what was compared."""

    def __init__(self, limit: float) -> None:
        self._limit, self._worst, self._where, self._tensor = limit, -1.0, "", ""
        self._chunks, self._rows, self._equal = 0, set[int](), True

    def add(
        self, where: str, found: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]], rows: int
    ) -> None:
        self._chunks += 1
        self._rows.add(rows)
        for name, want in expected.items():
            one = difference(found[name], want)
            self._equal &= one.equal
            if one.distance > self._worst:
                self._worst, self._tensor, self._where = one.distance, name, f"{where} in a batch of {rows}"

    def verdict(self, streams: int) -> JoinedCheck:
        passed, finite = self._worst <= self._limit, bool(np.isfinite(self._worst))
        text = "bit-identical" if self._equal else f"relative L2 at most {self._worst:.2g} ({self._tensor})"
        if not passed:
            off = f"differs by {self._worst:.3g} (relative L2, limit {self._limit:g})" if finite else "differs"
            text = f"{self._tensor} of {self._where} {off} from the same stream alone"
        return JoinedCheck(
            passed=passed,
            streams=streams,
            chunks=self._chunks,
            rows=sorted(self._rows),
            bit_equal=self._equal,
            rel_l2_max=self._worst if finite else None,
            limit=self._limit,
            tensor=None if self._equal else self._tensor,
            text=text,
        )
