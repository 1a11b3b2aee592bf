"""The contract of a streaming model: its tensors, states, chunks, profiles, invariants and gates, as one JSON document.

docs/reference/streaming-contract.md describes every key. `reading.read_contract` refuses a document that contradicts
itself; the methods here may then rely on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import Strict
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.engine.profiles import Profile, ShapeRange
from trt_workbench.stream.contract.decoding import Decoding
from trt_workbench.stream.contract.expressions import Expression
from trt_workbench.stream.contract.parts import (
    Chunk,
    Chunking,
    Constant,
    FrameCounter,
    Gates,
    Input,
    Invariant,
    Length,
    Mask,
    Name,
    Output,
    Signal,
    State,
    SymbolProfile,
    TensorOf,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Symbols = Mapping[str, int]
# Names that invariants may use besides symbols and tensors, as `Chunk.names` gives them; version 1 lacks the last.
CHUNK_NAMES = ("chunk", "hop", "left_context", "new", "start")
_BOUNDED = Field(max_length=512)


class Contract(Strict):
    """A contract; docs/reference/streaming-contract.md."""

    schema_version: Literal[1, 2, 3]
    name: Name
    symbols: Annotated[dict[Name, Expression | None], _BOUNDED]
    inputs: Annotated[dict[Name, Input], _BOUNDED]
    outputs: Annotated[dict[Name, Output], _BOUNDED]
    state: Annotated[tuple[State, ...], _BOUNDED] = ()
    chunking: Chunking
    profiles: Annotated[tuple[SymbolProfile, ...], Field(min_length=1, max_length=64)]
    invariants: Annotated[tuple[Invariant, ...], _BOUNDED] = ()
    gates: Gates = Gates()
    decoding: Decoding | None = None

    @cached_property
    def signal(self) -> tuple[str, Signal]:
        """Name and tensor of the signal. Raises ValueError where there is none."""
        for name, one in self.inputs.items():
            if isinstance(one, Signal):
                return name, one
        raise ValueError("the contract has no input with the role signal")

    @cached_property
    def length(self) -> tuple[str, Length] | None:
        """Name and tensor of the input that says how much of a chunk is valid."""
        return next(((name, one) for name, one in self.inputs.items() if isinstance(one, Length)), None)

    @cached_property
    def computed(self) -> dict[str, FrameCounter | Mask]:
        """Inputs that follow from a chunk's place in its stream."""
        return {name: one for name, one in self.inputs.items() if isinstance(one, FrameCounter | Mask)}

    @cached_property
    def chunk_names(self) -> tuple[str, ...]:
        """Numbers of a chunk that expressions may use."""
        return CHUNK_NAMES if self.schema_version > 1 else CHUNK_NAMES[:-1]

    def constants(self, given: Mapping[str, float | str]) -> dict[str, float]:
        """Return the numbers of constants that a stream has of its own. Raises UsageProblem where there are none."""
        inputs = {name: one for name, one in self.inputs.items() if isinstance(one, Constant)}
        found = {}
        for name, value in given.items():
            if name not in inputs:
                raise UsageProblem(f"The contract has no constant {name}; {did_you_mean(name, inputs)}")
            try:
                found[name] = inputs[name].number(value)
            except ValueError as error:
                raise UsageProblem(f"Constant {name}: {error}") from error
        return found

    def with_constants(self, given: Mapping[str, float | str]) -> Contract:
        """Return the contract with other values of constants. Raises UsageProblem as `constants`."""
        self.constants(given)  # refuses what there is none of
        inputs = {
            name: one.model_copy(update={"value": given[name]}) if name in given else one
            for name, one in self.inputs.items()
        }
        fields = {name: getattr(self, name) for name in Contract.model_fields}
        return Contract.model_validate({**fields, "inputs": inputs}) if given else self

    def known(self, values: Symbols, chunk: Chunk) -> dict[str, int]:
        """Return symbols' values and the chunk's numbers, as expressions may use them."""
        return {**values, **{name: chunk.names[name] for name in self.chunk_names}}

    def counters(self, values: Symbols, chunk: Chunk) -> dict[str, int]:
        """Return the values of the counters at a chunk. Raises UsageProblem for one that has run out."""
        from trt_workbench.stream.contract.feeding import number_of

        known, given = self.known(values, chunk), self.computed.items()
        names = [name for name, one in given if isinstance(one, FrameCounter)]
        return {name: number_of(self, name, known, self.shape(name, values)) for name in names}

    @cached_property
    def time_symbol(self) -> str:
        """The symbol of a chunk's size."""
        _, signal = self.signal
        return signal.shape[signal.time_axis].text

    @cached_property
    def batch_symbol(self) -> str | None:
        """The symbol of the number of streams; None where the model takes a fixed number of them."""
        _, signal = self.signal
        text = "" if signal.batch_axis is None else signal.shape[signal.batch_axis].text
        return text if text in self.free else None

    @cached_property
    def free(self) -> tuple[str, ...]:
        """Symbols that shapes decide."""
        return tuple(name for name, value in self.symbols.items() if value is None)

    @cached_property
    def other_symbols(self) -> dict[str, int]:
        """Free symbols besides time and batch, best-tuned, of the first profile that takes most of the chunk sizes."""
        time, kinds = self.time_symbol, (self.chunking.first, self.chunking.later)
        best = max(self.profiles, key=lambda one: sum(one.covers({time: kind.size}) for kind in kinds))
        return {name: opt for name, (_, opt, _) in best.symbols.items() if name not in (time, self.batch_symbol)}

    @cached_property
    def tensors(self) -> dict[str, TensorOf]:
        """Inputs, then outputs."""
        return {**self.inputs, **self.outputs}

    def batch_axis(self, name: str) -> int | None:
        """Return the dimension of a tensor along which streams lie; None where it has none."""
        tensor = self.tensors[name]
        if tensor.batch_axis is not None or self.batch_symbol is None:
            return tensor.batch_axis
        found = [axis for axis, dim in enumerate(tensor.shape) if dim.text == self.batch_symbol]
        return found[0] if found else None

    def values(self, free: Symbols) -> dict[str, int]:
        """Return every symbol's value for values of the free ones.

        Raises:
            ValueError: a free symbol has no value, or a derived one is not a whole number of at least 0.
        """
        found: dict[str, int] = {name: free[name] for name in self.free if name in free}
        todo = {name: rule for name, rule in self.symbols.items() if rule is not None}
        while ready := [name for name, rule in todo.items() if rule.names <= found.keys()]:
            for name in ready:
                rule = todo.pop(name)
                try:
                    found[name] = rule.whole(found)
                except ValueError as error:
                    raise ValueError(f"{name} = {error}") from error
                if found[name] < 0:
                    raise ValueError(f"{name} = {rule} is {found[name]}, below 0")
        if lacking := [*(name for name in self.free if name not in found), *todo]:
            raise ValueError(f"{', '.join(lacking)} cannot be computed from {', '.join(free) or 'nothing'}")
        return found

    def shape(self, name: str, values: Symbols) -> tuple[int, ...]:
        """Return the shape of a tensor for values of all symbols. Raises ValueError where a size is no whole number."""
        return tuple(dim.whole(values) for dim in self.tensors[name].shape)

    def solve(self, shapes: Mapping[str, Sequence[int | None]]) -> tuple[dict[str, int], list[str]]:
        """Return the free symbols' values that shapes decide, and where they contradict one another or the contract.

        Args:
            shapes: by tensor; None is a dimension that is not known. Tensors that the contract lacks are left out.
        """
        found: dict[str, tuple[int, str]] = {}
        problems: list[str] = []
        places = [
            (name, axis, dim, size)
            for name, shape in shapes.items()
            if name in self.tensors and len(shape) == len(self.tensors[name].shape)
            for axis, (dim, size) in enumerate(zip(self.tensors[name].shape, shape, strict=True))
            if size is not None
        ]
        for name, axis, dim, size in places:
            if dim.text in self.free:
                before, where = found.setdefault(dim.text, (size, f"dimension {axis} of {name}"))
                if before != size:
                    problems.append(f"{dim} is {before} in {where} and {size} in dimension {axis} of {name}")
        values = {name: value for name, (value, _) in found.items()}
        known = self.as_far_as(values)
        for name, axis, dim, size in places:
            if dim.text in self.free or not dim.names <= known.keys():
                continue
            try:
                wanted = dim.whole(known)
            except ValueError as error:
                problems.append(f"dimension {axis} of {name}: {error}")
                continue
            if wanted != size:
                said = f"{dim} = {wanted}" if dim.names else f"{wanted}"
                problems.append(f"dimension {axis} of {name} is {size}, but the contract says {said}")
        return values, problems

    def as_far_as(self, given: Symbols) -> dict[str, int]:
        """Return the given symbols and those others that can be computed from them."""
        found = dict(given)
        for _ in self.symbols:
            for name, rule in self.symbols.items():
                if rule is not None and name not in found and rule.names <= found.keys():
                    try:
                        found[name] = rule.whole(found)
                    except ValueError:
                        continue
        return found

    def profiles_for(self, values: Symbols) -> list[SymbolProfile]:
        """Return the profiles that values of the free symbols lie within."""
        return [profile for profile in self.profiles if profile.covers({name: values[name] for name in self.free})]

    def engine_profile(self, profile: SymbolProfile) -> Profile:
        """Return a profile as the shapes of the inputs that an engine is built for."""
        corners = [self.values({name: size[place] for name, size in profile.symbols.items()}) for place in range(3)]
        shapes = {name: [self.shape(name, corner) for corner in corners] for name in self.inputs}
        return Profile(shapes={name: ShapeRange(min=a, opt=b, max=c) for name, (a, b, c) in shapes.items() if a})

    def chunks(self, frames: int, size: int | None = None) -> Iterator[Chunk]:
        """Yield the chunks of a stream of `frames` frames; the last one may hold fewer new ones than it could.

        Args:
            frames: of the whole stream.
            size: of every chunk, in place of the contract's; the left context stays as it is.

        Raises:
            ValueError: the size leaves no room next to the left context.
        """
        start = index = 0
        while start < frames:
            kind = self.chunking.later if index else self.chunking.first
            fed = size or kind.size
            if fed <= kind.left_context:
                left = kind.left_context
                raise ValueError(f"a chunk of {counted(fed, 'frame')} has no room for {left} frames of left context")
            new = min(fed - kind.left_context, frames - start)
            yield Chunk(index=index, start=start, new=new, left_context=kind.left_context, size=fed)
            start, index = start + new, index + 1

    def chunk_values(self, chunk: Chunk, streams: int = 1, **others: int) -> dict[str, int]:
        """Return all symbols' values for a chunk of so many streams; `others` in place of `other_symbols`."""
        batch = {} if self.batch_symbol is None else {self.batch_symbol: streams}
        return self.values({**self.other_symbols, **others, **batch, self.time_symbol: chunk.size})

    def initial_state(self, values: Symbols, folder: Path | None = None) -> dict[str, NDArray[Any]]:
        """Return what the state inputs hold before the first chunk.

        Args:
            values: of all symbols, as `values` and `chunk_values` return them.
            folder: that holds the files of initial values.
        """
        from trt_workbench.stream.contract.feeding import initial_value

        return {pair.input: initial_value(self, pair, values, folder) for pair in self.state}

    def next_state(self, outputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return what the state inputs of the next chunk hold."""
        return {pair.input: outputs[pair.output] for pair in self.state}

    def feed(self, chunk: Chunk, signal: NDArray[Any], values: Symbols) -> dict[str, NDArray[Any]]:
        """Return every input of a chunk except the states.

        Args:
            chunk: of `chunks`.
            signal: the whole stream, shaped as the signal except for its time axis.
            values: of all symbols.
        """
        from trt_workbench.stream.contract.feeding import chunk_inputs

        return chunk_inputs(self, chunk, signal, values)
