"""Chunks of several streams as the rows of one call: left context, padding, lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.feeding import normalize, number_of, put
from trt_workbench.stream.contract.parts import Chunk, ChunkSize, FrameCounter, Mask

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Piece:
    """A chunk of one stream.

    Attributes:
        context: frames of the stream before it, time last, batch axis left out.
        frames: the new ones, likewise.
        kind: first or later chunk of the contract.
        size: frames that the model is fed.
        numbers: of the inputs that are computed, by name.
        constants: numbers of the stream's own constants, by name.
    """

    context: NDArray[Any]
    frames: NDArray[Any]
    kind: ChunkSize
    size: int
    numbers: Mapping[str, int]
    constants: Mapping[str, float]

    @property
    def valid(self) -> int:
        """Frames that are no padding."""
        return self.kind.left_context + int(self.frames.shape[-1])

    @property
    def is_last(self) -> bool:
        """Whether it is short, as only a stream's last chunk may be."""
        return self.valid < self.size

    def context_after(self) -> NDArray[Any]:
        """Return what the next chunk has before it."""
        kept = self.context.shape[-1]
        # a copy: a view would keep whole chunks alive
        whole = np.concatenate((self.context, self.frames), -1) if kept else self.context
        return whole[..., whole.shape[-1] - kept :].copy()


class Rows:
    """Makes the inputs of a call, except the states.

    Attributes:
        contract: of the model.
        axes: batch axis of every input and output that is no state and has one.
    """

    def __init__(self, contract: Contract, dtypes: Mapping[str, np.dtype[Any]], size: int | None) -> None:
        """Take a contract.

        Args:
            contract: of the model.
            dtypes: of the inputs, as the session takes them.
            size: frames of every chunk, left context included, in place of the contract's.

        Raises:
            UsageProblem: a chunk of this size leaves no room for new frames.
        """
        self.contract, self._dtypes, self._size = contract, dtypes, size
        self._name, signal = contract.signal
        states = {name for pair in contract.state for name in (pair.input, pair.output)}
        named = {name: contract.batch_axis(name) for name in contract.tensors if name not in states}
        self.axes = {name: axis for name, axis in named.items() if axis is not None}
        self._others = [name for name in contract.inputs if name != self._name and name not in states]
        self.kinds = (contract.chunking.first, contract.chunking.later)
        for kind in self.kinds:
            if self.fed(kind) <= kind.left_context:
                raise UsageProblem(
                    f"A chunk of {self.fed(kind)} frames has no room for {kind.left_context} frames of left context."
                )
        rank, batch, time = len(signal.shape), signal.batch_axis, signal.time_axis
        self._has_batch = batch is not None
        axes = [axis for axis in range(rank) if axis not in (batch, time)]
        # rows first, time last; an array without a batch axis gets one in front
        self._order = (batch, *axes, time) if batch is not None else (0, *(axis + 1 for axis in (*axes, time)))
        self._shapes: dict[int, dict[str, tuple[int, ...]]] = {}
        self._ranges: dict[int, tuple[int, int]] = {}
        self._known: dict[int, dict[str, int]] = {}

    def fed(self, kind: ChunkSize) -> int:
        """Return how many frames the model is fed in a chunk."""
        return self._size or kind.size

    def values(self, size: int) -> dict[str, int]:
        """Return all symbols' values for chunks of `size` frames. Raises UsageProblem where they do not fit."""
        try:
            return self.contract.chunk_values(next(self.contract.chunks(1)).model_copy(update={"size": size}))
        except ValueError as error:
            raise UsageProblem(f"A chunk of {size} frames does not fit the contract: {error}.") from error

    def shape(self, name: str, size: int, rows: int = 1) -> tuple[int, ...]:
        """Return the shape of an input in a call with chunks of `size` frames."""
        shape, axis = self.contract.shape(name, self.values(size)), self.contract.batch_axis(name)
        return shape if axis is None else (*shape[:axis], rows, *shape[axis + 1 :])

    def first_context(self) -> NDArray[Any]:
        """Return what a stream's first chunk has before it."""
        frames = max(kind.left_context for kind in self.kinds)
        whole = np.empty(self.shape(self._name, self.fed(self.kinds[1])), self._dtypes[self._name])
        shape = self._by_row(whole).shape[1:-1]
        return np.full((*shape, frames), self.contract.chunking.left_fill, whole.dtype)

    def cut(
        self, frames: NDArray[Any], context: NDArray[Any], index: int, start: int, constants: Mapping[str, float] = {}
    ) -> Piece:
        """Return a stream's chunk with so many chunks and new frames before it, and constants of its own.

        Raises:
            UsageProblem: its shape or dtype does not fit, or a counter has run out.
        """
        kind, signal = self.kinds[index > 0], self.contract.signal[1]
        size, dtype = self.fed(kind), self._dtypes[self._name]
        array = np.asarray(frames)
        if signal.batch_axis is not None and array.ndim == len(signal.shape) - 1:
            array = np.expand_dims(array, signal.batch_axis)
        if array.ndim == len(signal.shape) and array.dtype == dtype:
            bare = self._by_row(array)
            fits = bare.shape[0] == 1 and bare.shape[1:-1] == context.shape[:-1]
            if fits and 1 <= bare.shape[-1] <= size - kind.left_context:
                new = int(bare.shape[-1])
                chunk = Chunk(index=index, start=start, new=new, left_context=kind.left_context, size=size)
                return Piece(context, bare[0], kind, size, self._numbers(chunk), constants)
        raise UsageProblem(
            f"The new frames of a chunk are {dtype} {list(self.hop(first=not index).shape)} for {self._name}, or fewer "
            f"at the stream's end; these are {array.dtype} {list(np.shape(frames))}."
        )

    def hop(self, *, first: bool) -> NDArray[Any]:
        """Return new frames of a whole chunk, all of them what fills up a stream."""
        kind = self.kinds[not first]
        shape = list(self.shape(self._name, self.fed(kind)))
        shape[self.contract.signal[1].time_axis] = self.fed(kind) - kind.left_context
        return np.full(shape, self.contract.chunking.left_fill, self._dtypes[self._name])

    def alike(self, piece: Piece) -> tuple[float, ...]:
        """Return what chunks of one call have in common: their size, and the numbers that rows do not have each."""
        length = self.contract.length
        common = [piece.valid] if length and length[0] not in self.axes else []
        own = (*piece.numbers.items(), *piece.constants.items())
        return (piece.size, *common, *(number for name, number in own if name not in self.axes))

    def _numbers(self, chunk: Chunk) -> dict[str, int]:
        """Return the numbers of inputs that are computed. Raises UsageProblem where an input cannot have its number."""
        if not self.contract.computed:
            return {}
        if chunk.size not in self._known:
            self._known[chunk.size] = self.values(chunk.size)
        known, computed = self.contract.known(self._known[chunk.size], chunk), self.contract.computed
        return {name: number_of(self.contract, name, known, self.shape(name, chunk.size)) for name in computed}

    def inputs(self, pieces: Sequence[Piece]) -> Arrays:
        """Return every input except the states, with a row for each piece, all of one size."""
        size = pieces[0].size
        if size not in self._shapes:
            self._shapes[size] = {name: self.shape(name, size) for name in (self._name, *self._others)}
            if self.contract.length:
                low, high = (bound.whole(self.values(size)) for bound in self.contract.length[1].range)
                self._ranges[size] = low, high
        found: Arrays = {}
        for name, shape in self._shapes[size].items():
            axis = self.axes.get(name)
            whole = shape if axis is None else (*shape[:axis], len(pieces), *shape[axis + 1 :])
            found[name] = np.empty(whole, self._dtypes[name])
        for row, piece in zip(self._by_row(found[self._name]), pieces, strict=True):
            start = piece.kind.left_context
            row[..., :start] = piece.context[..., piece.context.shape[-1] - start :]
            row[..., start : piece.valid] = piece.frames
            row[..., piece.valid :] = self.contract.chunking.left_fill
            if self.contract.chunking.normalize:
                normalize(self.contract, row, piece.valid)
        for name in self._others:
            tensor, axis = self.contract.inputs[name], self.axes.get(name)
            if tensor.role == "constant":
                for row in range(1 if axis is None else len(pieces)):
                    row_of(found[name], axis, row)[...] = pieces[row].constants.get(name, tensor.number())
                continue
            if isinstance(tensor, FrameCounter | Mask):
                rows = range(1 if axis is None else len(pieces))
                for row in rows:
                    put(row_of(found[name], axis, row), tensor, pieces[row].numbers[name])
                continue
            low, high = self._ranges[size]
            lengths = [min(max(piece.valid, low), high) for piece in pieces]
            if axis is None:
                found[name][...] = lengths[0]
            else:
                np.moveaxis(found[name], axis, -1)[...] = lengths
        return found

    def _by_row(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a view of a signal with rows first and time last."""
        return (array if self._has_batch else array[None]).transpose(self._order)


def numbers_of_rows(least: int, most: int) -> set[int]:
    """Return the numbers of rows that calls have: the fewest, doubled time and again, and the most."""
    return {least << power for power in range(most.bit_length()) if least << power < most} | {most}


def row_of(array: NDArray[Any], axis: int | None, row: int) -> NDArray[Any]:
    """Return a view of one row, of extent 1 along `axis`; all of an array without one."""
    return array if axis is None else array[(slice(None),) * axis + (slice(row, row + 1),)]


class Pieces:
    """New frames of any number of streams, cut from one signal beforehand; each stream begins elsewhere in it.

    Attributes:
        contract: of the model.
        size: frames of every chunk in place of the contract's.
    """

    def __init__(self, contract: Contract, signal: NDArray[Any], size: int | None, most: int = 64) -> None:
        """Cut a signal of one stream, or of a fixed batch whose first row is taken, that is repeated at its end."""
        self.contract, self.size = contract, size
        axis, batch = contract.signal[1].time_axis, contract.signal[1].batch_axis
        row = row_of(signal, batch, 0)
        kinds = (contract.chunking.first, contract.chunking.later)
        hops = [(size or kind.size) - kind.left_context for kind in kinds]
        count = max(1, min(most, row.shape[axis] // hops[1]))
        self._cut = [
            [np.take(row, range(one * hops[1], one * hops[1] + hop), axis, mode="wrap") for one in range(count)]
            for hop in hops
        ]

    def __call__(self, stream: int, chunk: int) -> NDArray[Any]:
        """Return the new frames of a stream's chunk."""
        pieces = self._cut[chunk > 0]
        return pieces[(7 * stream + chunk) % len(pieces)]

    def whole(self, stream: int, chunks: int) -> NDArray[Any]:
        """Return a stream's signal up to a number of chunks."""
        return np.concatenate([self(stream, chunk) for chunk in range(chunks)], self.contract.signal[1].time_axis)
