"""Many streams of one model: each has its state, several are run at once, and they come and go at any time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.pooling import PooledState, PoolingSession, StatePool
from trt_workbench.core.array_files import numpy_dtype
from trt_workbench.core.counts import grouped
from trt_workbench.core.elements import equal
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.host_pool import HostPool
from trt_workbench.stream.rows import Arrays, Piece, Rows, numbers_of_rows, row_of

# Numbers of rows up to which a model without engines is run with each of them: a processor computes every row that
# fills up a batch. An engine may have a profile for the numbers of `numbers_of_rows` alone.
_FEW_ROWS = 16


@dataclass(frozen=True)
class SavedStream:
    """A stream at one moment.

    Attributes:
        state: by state input, of extent 1 along the batch axis.
        context: the last frames of the signal, time last, batch axis left out.
        chunks: how many were pushed.
        ended: whether the last one was short.
        frames: new ones that were pushed.
    """

    state: Mapping[str, NDArray[Any]]
    context: NDArray[Any]
    chunks: int
    ended: bool
    frames: int = 0


class PooledStream:
    """A stream of a pool; made by `StreamPool.open`.

    Attributes:
        chunks: how many were pushed.
        frames: new ones that were pushed.
        ended: whether a chunk was short, which is the end of a stream.
    """

    def __init__(self, pool: StreamPool, number: int, context: NDArray[Any], constants: Mapping[str, float]) -> None:
        """Take the number that the pool's states have for it, the content before its first frame, and constants."""
        self._pool, self._number, self._context, self._constants = pool, number, context, constants
        self.chunks, self.frames, self.ended = 0, 0, False

    def push(self, frames: NDArray[Any]) -> Arrays:
        """Run the next chunk, as `StreamPool.push` does."""
        return self._pool.push([self], [frames])[0]

    def save(self) -> SavedStream:
        """Return what `restore` of any stream of an equal pool continues from."""
        with self._pool._alone(self) as states:
            return SavedStream(states.save(self._number), self._context, self.chunks, self.ended, self.frames)

    def restore(self, saved: SavedStream) -> None:
        """Continue where a stream was saved. Raises UsageProblem if its state does not fit this pool."""
        with self._pool._alone(self) as states:
            if saved.context.shape != self._context.shape or saved.context.dtype != self._context.dtype:
                raise UsageProblem("The stream was saved by a pool with different chunks.")
            states.restore(self._number, saved.state)
            self._context, self.chunks, self.ended = saved.context, saved.chunks, saved.ended
            self.frames = saved.frames

    def close(self) -> None:
        """Release the stream; the others of the pool go on. Safe to call twice."""
        self._pool._close(self)


class StreamPool(AbstractContextManager["StreamPool"]):
    """Streams of one model by its contract. A context manager that closes the streams, not the session.

    States stay on the device where the session can keep them there, else in the host's memory. One thread at a time
    may use a pool with all its streams; a second one is refused.

    Attributes:
        contract: of the model.
        on_device: whether states stay on the session's device.
        capacity: most streams that are open at once.
        buckets: numbers of rows that the model is run with.
    """

    def __init__(
        self,
        session: Session,
        contract: Contract,
        *,
        folder: Path | None = None,
        capacity: int = 256,
        size: int | None = None,
        on_device: bool | None = None,
        timing: bool = False,
    ) -> None:
        """Make room for the streams.

        Args:
            session: of the model; nothing else may use it while the pool is in use.
            contract: of the model.
            folder: that holds the contract's files of initial values.
            capacity: most streams that are open at once.
            size: frames of every chunk, left context included, in place of the contract's.
            on_device: whether states stay on the device; by default where the session can keep them there.
            timing: measure the parts of a push on the device, too, which takes a little time itself.

        Raises:
            UsageProblem: contract and session do not fit one another, or the session keeps no states on a device.
            DeviceFailure: the device is out of memory or failed.
        """
        self.contract, self.capacity = contract, capacity
        dtypes = {spec.name: numpy_dtype(spec.dtype) for spec in session.inputs}
        if lacking := [name for name in contract.inputs if name not in dtypes]:
            raise UsageProblem(f"The session takes no input {lacking[0]}; load it without keeping state itself.")
        self._rows = Rows(contract, dtypes, size)
        self._limits = {size: self._limit(session, size) for size in map(self._rows.fed, self._rows.kinds)}
        pairs = list(self._pairs(dtypes, folder))
        can = isinstance(session, PoolingSession) and all(pair.axis is not None for pair in pairs)
        self.on_device = can if on_device is None else on_device
        if self.on_device and not can:
            raise UsageProblem("The session keeps no states of streams on its device; they can stay on the host.")
        self.buckets = self._buckets(isinstance(session, PoolingSession))
        self._states: StatePool
        if self.on_device:
            assert isinstance(session, PoolingSession)
            self._states = session.stream_pool(pairs, self._rows.axes, capacity, self.buckets, timing=timing)
        else:
            self._states = HostPool(session, pairs, self._rows.axes, capacity, self.buckets)
        self._open: set[PooledStream] = set()
        self._lock = threading.Lock()
        self._timing: dict[str, float] = {}

    def open(self, constants: Mapping[str, float | str] | None = None) -> PooledStream:
        """Return a new stream in the contract's initial state.

        Args:
            constants: numbers, or names of them, in place of those of the contract's inputs with the role constant.

        Raises:
            UsageProblem: `capacity` streams are open, another thread uses the pool, or there is no such constant.
        """
        numbers = self.contract.constants(constants or {})
        with self._alone() as states:
            stream = PooledStream(self, states.open(), self._rows.first_context(), numbers)
            self._open.add(stream)
            return stream

    @property
    def streams(self) -> int:
        """How many are open."""
        return len(self._open)

    def push(self, streams: Sequence[PooledStream], chunks: Sequence[NDArray[Any]]) -> list[Arrays]:
        """Run the next chunk of several streams, of whatever age; those of one size are run at once.

        Args:
            streams: open streams of this pool, each once.
            chunks: for each of them its new frames, shaped as the signal with or without the batch axis: a whole hop of
                the contract, or fewer, which ends the stream. Left context, padding and lengths are the pool's work.

        Returns:
            For each of them every output that is no state, of extent 1 along the batch axis: views of the arrays of
            the whole batch.

        Raises:
            UsageProblem: a stream is closed or has ended, or a chunk does not fit: nothing is run and no stream has
                changed. A model that refuses a call leaves the streams of that call unchanged.
            DeviceFailure: the device failed.
        """
        begin = time.perf_counter()
        with self._alone(*streams) as states:
            if len(set(streams)) < len(streams) or len(streams) != len(chunks):
                raise UsageProblem("A push takes different streams, and one chunk for each of them.")
            pieces = [self._cut(stream, frames) for stream, frames in zip(streams, chunks, strict=True)]
            alike: dict[Any, list[int]] = grouped(range(len(pieces)), lambda place: self._rows.alike(pieces[place]))
            found: list[Arrays] = [{}] * len(streams)
            self._timing = {}
            for (size, *_), places in alike.items():
                most = self._limits[size][1]
                for some in (places[first : first + most] for first in range(0, len(places), most)):
                    outputs = self._run(states, [streams[place] for place in some], [pieces[place] for place in some])
                    for place, one in zip(some, outputs, strict=True):
                        found[place] = one
        self._timing["host"] = (time.perf_counter() - begin) * 1e3 - sum(self._timing.values())
        return found

    def hop(self, *, first: bool) -> NDArray[Any]:
        """Return new frames as `push` takes them for a whole chunk, a stream's first or a later one: all left_fill."""
        return self._rows.hop(first=first)

    def warm_up(self) -> None:
        """Run every number of rows with both chunk sizes until the runtime has tuned itself; no stream changes."""
        with self._alone() as states:
            largest_first = sorted((True, False), key=lambda first: -self._rows.fed(self._rows.kinds[not first]))
            for first in largest_first:
                hop = self.hop(first=True).shape[self.contract.signal[1].time_axis]
                place = (0, 0) if first else (1, hop)
                quiet = self._rows.cut(self.hop(first=first), self._rows.first_context(), *place)
                states.warm_up(self._rows.inputs([quiet]))

    def timing(self) -> dict[str, float]:
        """Return the parts of the last push, milliseconds.

        On a device, asked for `timing`: `host_to_device`, `compute` (gather, model, scatter), `device_to_host`. On the
        host: `inference`, `state` (joining and splitting). And `host`: the rest of the push.
        """
        return dict(self._timing)

    def memory_bytes(self) -> dict[str, int]:
        """Return what the states take by purpose, `per_stream` among it."""
        return self._states.memory_bytes()

    def graph_status(self) -> str:
        """Return whether CUDA graphs are in use, such as "on: 2 graphs captured"; empty on the host."""
        return self._states.graph_status()

    def close(self) -> None:
        """Close all streams. Safe to call twice."""
        self._open.clear()
        self._states.release()

    def __exit__(self, *_: object) -> None:
        """Close the streams."""
        self.close()

    @contextmanager
    def _alone(self, *streams: PooledStream) -> Iterator[StatePool]:
        """Yield the states to one thread. Raises UsageProblem for a second one, and for streams that are not open."""
        if not self._lock.acquire(blocking=False):
            raise UsageProblem("Another thread uses the pool; use it from one thread at a time.")
        try:
            if not self._open.issuperset(streams):
                raise UsageProblem("The stream is closed, or one of another pool.")
            yield self._states
        finally:
            self._lock.release()

    def _close(self, stream: PooledStream) -> None:
        if stream in self._open:
            with self._alone(stream) as states:
                states.close(stream._number)
                self._open.discard(stream)

    def _limit(self, session: Session, size: int) -> tuple[int, int]:
        """Return the fewest and the most rows of a call: by the contract, the model and the session."""
        contract, (name, signal) = self.contract, self.contract.signal
        axis, symbol = signal.batch_axis, self.contract.batch_symbol
        if axis is None or any(contract.batch_axis(pair.input) is None for pair in contract.state):
            return 1, 1
        fixed = next(spec for spec in session.inputs if spec.name == name).shape[axis]
        if symbol is None:
            fixed = contract.shape(name, self._rows.values(size))[axis]
        if fixed is not None:
            return fixed, fixed
        fits = [one.symbols[symbol or ""] for one in contract.profiles if one.covers({contract.time_symbol: size})]
        if not fits:
            raise UsageProblem(f"A chunk of {size} frames lies outside every profile of the contract.")
        least, most = min(one[0] for one in fits), max(one[2] for one in fits)
        if isinstance(session, PoolingSession):
            most = min(most, session.most_rows(name, self._rows.shape(name, size), axis) or most)
        return min(least, most), most

    def _buckets(self, has_profiles: bool) -> tuple[int, ...]:
        """Return the numbers of rows to run, of those that a profile takes.

        All of them where they are few and no engine has profiles, else powers of two and the most of each chunk size.
        """
        least, most = min(low for low, _ in self._limits.values()), max(high for _, high in self._limits.values())
        ends = {high for _, high in self._limits.values()}
        wanted = set(range(least, most + 1)) if not has_profiles and most <= _FEW_ROWS else numbers_of_rows(least, most)
        symbol = self.contract.batch_symbol
        taken = {rows for rows in wanted if any(one.covers({symbol or "": rows}) for one in self.contract.profiles)}
        return tuple(sorted(taken | ends))

    def _pairs(self, dtypes: Mapping[str, np.dtype[Any]], folder: Path | None) -> Iterator[PooledState]:
        contract = self.contract
        initial = contract.initial_state(self._rows.values(self._rows.fed(contract.chunking.first)), folder)
        for pair in contract.state:
            axis = contract.batch_axis(pair.input)
            value = row_of(initial[pair.input], axis, 0)
            fitting = value.astype(dtypes[pair.input])
            if not equal(fitting, value):
                raise UsageProblem(f"The initial value of {pair.input} does not fit into {fitting.dtype}.")
            yield PooledState(pair.input, pair.output, axis, fitting)

    def _cut(self, stream: PooledStream, frames: NDArray[Any]) -> Piece:
        if stream.ended:
            raise UsageProblem("The stream has ended with a chunk that was shorter than a hop; open another one.")
        return self._rows.cut(frames, stream._context, stream.chunks, stream.frames, stream._constants)

    def _run(self, states: StatePool, streams: Sequence[PooledStream], pieces: Sequence[Piece]) -> list[Arrays]:
        """Run chunks in one call, and move their streams on."""
        outputs = states.push([stream._number for stream in streams], self._rows.inputs(pieces))
        for part, value in states.timing().items():
            self._timing[part] = self._timing.get(part, 0.0) + value
        for stream, piece in zip(streams, pieces, strict=True):
            stream._context, stream.ended = piece.context_after(), piece.is_last
            stream.chunks += 1
            stream.frames += int(piece.frames.shape[-1])
        axes = self._rows.axes
        return [
            {name: row_of(array, axes.get(name), row) for name, array in outputs.items()} for row in range(len(streams))
        ]
