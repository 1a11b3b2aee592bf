"""Chunks of a stream, run one after the other on a session as a contract says, and how their tensors are compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trt_workbench.backends.base import Session
from trt_workbench.core.array_files import numpy_dtype
from trt_workbench.core.compare import difference
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.expressions import Expression
from trt_workbench.stream.contract.feeding import fitted, noise
from trt_workbench.stream.contract.parts import Chunk
from trt_workbench.stream.settings import MOST_STREAMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = dict[str, Any]
# Of a signal that is drawn: 2 GiB of float32.
_MOST_NUMBERS = 2**29


class CannotRun(Exception):
    """The model refused inputs that the contract promises, at a chunk."""

    def __init__(self, said: str, chunk: Chunk) -> None:
        """Keep the chunk."""
        super().__init__(said)
        self.chunk = chunk


@dataclass(frozen=True)
class ChunkRun:
    """One chunk that ran.

    Attributes:
        chunk: which one.
        values: of all symbols.
        inputs: arrays by name.
        outputs: arrays by name.
    """

    chunk: Chunk
    values: Mapping[str, int]
    inputs: Arrays
    outputs: Arrays


class Stepper:
    """Runs chunks of a contract's model.

    Attributes:
        contract: it.
        streams: rows of a call, unless another number is asked for: the fewest that a profile takes.
    """

    def __init__(self, contract: Contract, session: Session, folder: Path, seed: int, given: Arrays | None) -> None:
        """Take a session.

        Args:
            contract: what it is run by.
            session: the loaded model.
            folder: that holds the contract's files.
            seed: of random signals.
            given: a signal of the user's own, by name; None for random ones.
        """
        self.contract, self._session, self._folder, self._seed, self._given = contract, session, folder, seed, given
        time, batch, later = contract.time_symbol, contract.batch_symbol, contract.chunking.later.size
        fewest = [one.symbols[batch][0] for one in contract.profiles if batch and one.covers({time: later})]
        self.streams = min(fewest, default=1)
        axis = contract.signal[1].batch_axis
        if batch is None and axis is not None:
            self.streams = (
                contract.signal[1].shape[axis].whole(contract.values({**contract.other_symbols, time: later}))
            )

    def signal(self, frames: int, stream: int = 0, streams: int | None = None) -> NDArray[Any]:
        """Return signals of `frames` frames: of each number `stream`, `stream` + 1, … its own, row by row."""
        name, tensor = self.contract.signal
        count, axis = streams or self.streams, tensor.batch_axis
        if count > MOST_STREAMS:  # invariants are evaluated row by row, which takes seconds for so many
            raise UsageProblem(
                f"The contract's profiles allow calls of {count} streams, but at most {MOST_STREAMS} are run; "
                "narrow the profiles."
            )
        chunk = next(self.contract.chunks(self.contract.chunking.first.hop))
        shape = list(self.contract.shape(name, self.values(chunk, count)))
        shape[tensor.time_axis] = frames
        if math.prod(shape) > _MOST_NUMBERS:
            raise UsageProblem(
                f"A random signal of {counted(frames, 'frame')} for {counted(count, 'stream')} needs too much memory; "
                "narrow the profiles, or ask for fewer --chunks."
            )
        if self._given is not None:
            return self._from_given(name, shape, tensor.time_axis, axis, stream)
        if axis is None:
            return noise(self.contract, self._drawn(shape, stream))
        row = [1 if place == axis else size for place, size in enumerate(shape)]
        return noise(self.contract, np.concatenate([self._drawn(row, stream + index) for index in range(count)], axis))

    def _drawn(self, shape: Sequence[int], stream: int) -> NDArray[np.float32]:
        # frame by frame in time, so that a longer signal begins like a shorter one
        time = self.contract.signal[1].time_axis
        drawn = np.random.default_rng([self._seed, stream]).standard_normal(
            (shape[time], *shape[:time], *shape[time + 1 :]), dtype=np.float32
        )
        return np.moveaxis(drawn, 0, time)

    def _from_given(self, name: str, shape: list[int], time: int, axis: int | None, stream: int) -> NDArray[Any]:
        given = (self._given or {})[name]
        if axis is not None and given.ndim == len(shape) - 1:
            given = np.expand_dims(given, axis)
        wanted = [size for place, size in enumerate(shape) if place not in (time, axis)]
        if (
            given.ndim != len(shape)
            or not given.shape[time]
            or wanted != [size for place, size in enumerate(given.shape) if place not in (time, axis)]
        ):
            raise UsageProblem(
                f"--input is {list(given.shape)}, the contract's {name} for {shape[time]} frames {shape}."
            )
        # streams differ in where they begin; a short signal is repeated
        frames = np.arange(shape[time]) + stream * 37
        part: NDArray[Any] = np.take(given, frames % given.shape[time], time)
        return part if axis is None else np.take(part, np.arange(shape[axis]) % part.shape[axis], axis)

    def initial(self, chunk: Chunk, streams: int | None = None) -> Arrays:
        """Return the state before the first chunk."""
        return self.contract.initial_state(self.values(chunk, streams), self._folder)

    def step(self, chunk: Chunk, signal: NDArray[Any], state: Arrays, edits: Arrays | None = None) -> ChunkRun:
        """Run one chunk.

        Args:
            chunk: which one.
            signal: the whole stream.
            state: what the state inputs hold.
            edits: inputs to put in place of those that follow from the stream.

        Raises:
            CannotRun: the model refused it.
        """
        values = self.values(chunk, self._streams_of(signal))
        inputs = {**self.contract.feed(chunk, signal, values), **state, **(edits or {})}
        try:
            outputs = self._session.run(fitted(inputs, self._session.inputs))
        except UsageProblem as error:
            raise CannotRun(str(error), chunk) from error
        wanted = {name: numpy_dtype(tensor.dtype) for name, tensor in self.contract.outputs.items()}
        return ChunkRun(
            chunk, values, inputs, {name: outputs[name].astype(wanted[name], copy=False) for name in wanted}
        )

    def run(self, chunks: Sequence[Chunk], signal: NDArray[Any], state: Arrays | None = None) -> Iterator[ChunkRun]:
        """Yield the chunks of a stream, its state fed back; from the initial one unless another is given."""
        held = state or self.initial(chunks[0], self._streams_of(signal))
        for chunk in chunks:
            step = self.step(chunk, signal, held)
            yield step
            held = self.contract.next_state(step.outputs)

    def values(self, chunk: Chunk, streams: int | None = None) -> dict[str, int]:
        """Return all symbols' values for a chunk."""
        return self.contract.chunk_values(chunk, streams or self.streams)

    def _streams_of(self, signal: NDArray[Any]) -> int | None:
        axis = self.contract.signal[1].batch_axis
        return None if axis is None else signal.shape[axis]


def row_values(contract: Contract, step: ChunkRun, names: frozenset[str]) -> list[dict[str, Any]]:
    """Return for every row of a call what expressions may name: symbols, the chunk's numbers, tensors of one entry."""
    arrays = {**step.inputs, **step.outputs}
    counts = {
        name: arrays[name].shape[axis]
        for name in contract.tensors
        if name in arrays and (axis := contract.batch_axis(name)) is not None and axis < arrays[name].ndim
    }
    rows = []
    for row in range(max(counts.values(), default=1)):
        known: dict[str, Any] = {**contract.known(step.values, step.chunk)}
        for name in names & arrays.keys():
            flat = arrays[name].reshape(-1)
            known[name] = flat[row if name in counts and len(flat) > row else 0].item() if len(flat) else 0
        rows.append(known)
    return rows


def valid_part(
    array: NDArray[Any],
    axis: int,
    lengths: Sequence[int],
    batch: int | None,
    at: str,
    offsets: Sequence[int] = (),
) -> NDArray[np.bool_]:
    """Return which entries of an array are valid: of each row, so many of an axis at its start, after some, or end."""
    size = array.shape[axis]
    places = np.arange(size)
    mask = np.zeros(array.shape, bool)
    for row, length in enumerate(lengths):
        first = offsets[row] if row < len(offsets) else 0
        chosen = (places >= first) & (places < first + length) if at == "start" else places >= size - length
        where: list[Any] = [slice(None)] * array.ndim
        if batch is not None:
            where[batch] = slice(row, row + 1)
        mask[tuple(where)] |= chosen.reshape([-1 if place == axis else 1 for place in range(array.ndim)])
    return mask


def lengths_by(expression: Expression, contract: Contract, step: ChunkRun) -> list[int]:
    """Return a length by row."""
    return [max(0, int(expression(known))) for known in row_values(contract, step, expression.names)]


def apart(one: NDArray[Any], other: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> float:
    """Return the distance of two arrays that should be equal, of the part in a mask."""
    if mask is not None and one.shape == other.shape:
        one, other = one[mask], other[mask]
    return difference(one, other).distance
