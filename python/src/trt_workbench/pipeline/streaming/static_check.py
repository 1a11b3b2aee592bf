"""Whether a contract contradicts itself: every contradiction in one sentence."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from trt_workbench.pipeline.streaming.contract import CHUNK_NAMES, Contract
from trt_workbench.pipeline.streaming.expressions import RESERVED, Expression
from trt_workbench.pipeline.streaming.parts import (
    Chunk,
    Constant,
    FromFile,
    Length,
    Signal,
    State,
    StateInput,
    TensorOf,
)

# Of one tensor in one call: 1 GiB of float32. The largest state of a stream that is in use has 25 MB.
_MOST_ELEMENTS = 2**28
_WHOLE = ("int64", "int32", "int8", "uint8")
# In a sentence, but for numbers in the names of tensors.
_NUMBER = re.compile(r"(?<![\w./])\d+")


def contradictions(contract: Contract) -> list[str]:
    """Return where a contract contradicts itself, one sentence each; later parts need the earlier ones sound."""
    for checks in (_STRUCTURE, _SIZES):
        if problems := [problem for check in checks for problem in check(contract)]:
            return list(dict.fromkeys(problems))
    return []


def corners(contract: Contract) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the smallest, best-tuned and largest symbols of every profile, and in words which they are.

    Raises:
        ValueError: a derived symbol cannot be computed there.
    """
    for where, free in _corners(contract):
        yield where, contract.values(free)


def _corners(contract: Contract) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the free symbols of `corners`."""
    for profile in contract.profiles:
        for place, word in enumerate(("min", "opt", "max")):
            free = {name: sizes[place] for name, sizes in profile.symbols.items()}
            yield f"{word} of profile {profile.name}", free


def chunk_points(contract: Contract) -> Iterator[tuple[str, Chunk, dict[str, int]]]:
    """Yield the first and a later whole chunk with all symbols' values in each profile that covers it."""
    for word, index in (("first", 0), ("later", 1)):
        kind = contract.chunking.later if index else contract.chunking.first
        chunk = Chunk(index=index, start=0, new=kind.hop, left_context=kind.left_context, size=kind.size)
        for profile in contract.profiles:
            free = {name: best for name, (_, best, _) in profile.symbols.items()} | {contract.time_symbol: kind.size}
            if profile.covers(free):
                yield f"{word} chunk", chunk, contract.values(free)


def near(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the known one that is most like it."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def _signals(contract: Contract) -> Iterator[str]:
    signals = [name for name, one in contract.inputs.items() if isinstance(one, Signal)]
    lengths = [name for name, one in contract.inputs.items() if isinstance(one, Length)]
    if len(signals) != 1:
        yield f"a contract has one input with the role signal, this one has {len(signals)} ({', '.join(signals)})"
    if len(lengths) > 1:
        yield f"a contract has at most one input with the role length, this one has {', '.join(lengths)}"
    for name in signals:
        signal = contract.inputs[name]
        assert isinstance(signal, Signal)
        if signal.time_axis >= len(signal.shape):
            yield f"time_axis {signal.time_axis} of {name} is outside its {len(signal.shape)} dimensions"
        elif (text := signal.shape[signal.time_axis].text) not in contract.free:
            yield f"the time axis of {name} has the size {text}, which has to be a symbol of its own (null)"
        elif signal.time_axis == signal.batch_axis:
            yield f"{name} has its frames and its streams along one dimension, {signal.time_axis}"
    for name in lengths:
        length = contract.inputs[name]
        if isinstance(length, Length) and length.of not in signals:
            yield f"{name} is the length of {length.of}, which is no signal"


def _symbols(contract: Contract) -> Iterator[str]:
    taken = {*CHUNK_NAMES, *RESERVED, *contract.tensors}
    for name, rule in contract.symbols.items():
        if not name.isidentifier() or name in taken:
            yield f"{name} cannot be a symbol's name: it {'is taken' if name in taken else 'is no identifier'}"
        if rule is not None:
            yield from _unknown(f"symbol {name}", rule, contract.symbols)
    if cyclic := _cyclic(contract):
        yield f"{', '.join(cyclic)} are computed from one another"
    for name in contract.free:
        if not any(dim.text == name for one in contract.inputs.values() for dim in one.shape):
            yield f"symbol {name} is free (null), but no input has a dimension that is {name} by itself"


def _cyclic(contract: Contract) -> list[str]:
    todo = {name: rule.names & contract.symbols.keys() for name, rule in contract.symbols.items() if rule is not None}
    while ready := [name for name, needs in todo.items() if not needs & todo.keys()]:
        for name in ready:
            del todo[name]
    return list(todo)


def _tensors(contract: Contract) -> Iterator[str]:
    if both := contract.inputs.keys() & contract.outputs.keys():
        yield f"{', '.join(sorted(both))} is both an input and an output"
    for name, tensor in contract.tensors.items():
        for axis, dim in enumerate(tensor.shape):
            yield from _unknown(f"dimension {axis} of {name}", dim, contract.symbols)
        if tensor.batch_axis is not None and tensor.batch_axis >= len(tensor.shape):
            yield f"batch_axis {tensor.batch_axis} of {name} is outside its {len(tensor.shape)} dimensions"
    for name, given in contract.inputs.items():
        if isinstance(given, StateInput | Length) and given.range:
            if given.dtype not in _WHOLE:
                yield f"{name} has a range, which inputs of whole numbers alone have, and is {given.dtype}"
            for bound in given.range:
                yield from _unknown(f"the range of {name}", bound, contract.symbols)
    for name, output in contract.outputs.items():
        if output.valid:
            if output.valid.axis >= len(output.shape):
                yield f"the valid part of {name} lies along axis {output.valid.axis}, outside its dimensions"
            yield from _unknown(f"the valid part of {name}", output.valid.by, _known(contract, contract.tensors))


def _states(contract: Contract) -> Iterator[str]:
    for side in ("input", "output"):
        for name, count in Counter(getattr(pair, side) for pair in contract.state).items():
            if count > 1:
                yield f"{side} {name} is in {count} state pairs"
    paired = {pair.input for pair in contract.state}
    for name, given in contract.inputs.items():
        if isinstance(given, StateInput) and name not in paired:
            yield f"input {name} has the role state, and no state pair says which output it takes"
    for pair in contract.state:
        yield from _pair(contract, pair)


def _pair(contract: Contract, pair: State) -> Iterator[str]:
    words = f"the state pair {pair.output} to {pair.input}"
    before, after = contract.inputs.get(pair.input), contract.outputs.get(pair.output)
    if before is None:
        yield f"{words} names no input of the contract{near(pair.input, contract.inputs)}"
    elif not isinstance(before, StateInput):
        yield f"{words} ends in an input with the role {before.role}"
    if after is None:
        yield f"{words} names no output of the contract{near(pair.output, contract.outputs)}"
    if before is not None and after is not None:
        if before.dtype != after.dtype:
            yield f"{words} goes from {after.dtype} to {before.dtype}"
        if len(before.shape) != len(after.shape):
            yield f"{words} goes from {len(after.shape)} dimensions to {len(before.shape)}"
        if None not in (before.batch_axis, after.batch_axis) and before.batch_axis != after.batch_axis:
            yield f"{words} goes from batch axis {after.batch_axis} to {before.batch_axis}"
    if isinstance(pair.init, Expression):
        yield from _unknown(f"the initial value of {pair.input}", pair.init, contract.symbols)
    if (shift := pair.shift) and before is not None:
        if shift.axis >= len(before.shape):
            yield f"the shift of {pair.input} is along axis {shift.axis}, outside its {len(before.shape)} dimensions"
        if shift.by:
            yield from _unknown(f"the valid part of {pair.input}", shift.by, _known(contract, contract.inputs))
        if shift.moves:
            yield from _unknown(f"the shift of {pair.input}", shift.moves, contract.symbols)
            if shift.valid_at != "end":
                yield f"{pair.input} moves towards its start, so its valid part lies at the end, not at the start"


def _numbers(contract: Contract) -> Iterator[str]:
    signal, _ = contract.signal
    inputs = contract.inputs.items()
    numbers = [(f"the value of {name}", name, one.value) for name, one in inputs if isinstance(one, Constant)]
    for words, name, number in (*numbers, ("left_fill", signal, contract.chunking.left_fill)):
        yield from _held(words, number, contract.inputs[name].dtype)


def _held(words: str, number: float, dtype: str) -> Iterator[str]:
    """Yield that a type of whole numbers would make another one of a number."""
    bits = int(re.sub(r"\D", "", dtype) or 1)
    low, end = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if dtype.startswith("int") else (0, 2**bits)
    if "float" not in dtype and not (low <= number < end and number == int(number)):
        yield f"{words} is {number:g}, which {dtype} cannot hold"


def _invariants(contract: Contract) -> Iterator[str]:
    for name, count in Counter(one.id for one in contract.invariants).items():
        if count > 1:
            yield f"{count} invariants have the id {name}"
    for one in contract.invariants:
        yield from _unknown(f"invariant {one.id}", one.check, _known(contract, contract.tensors), totals=True)
        if one.when:
            yield from _unknown(f"the `when` of {one.id}", one.when, _known(contract, contract.tensors))
        if one.when and one.streams:
            yield f"invariant {one.id} is about a whole stream and cannot have a `when`"
    memory = contract.chunking.memory
    if memory and (memory.kind == "finite") != (memory.chunks is not None):
        yield f"a memory that is {memory.kind} {'needs' if memory.kind == 'finite' else 'cannot have'} chunks"
    if memory and memory.chunks:
        yield from _unknown("the memory", memory.chunks, contract.symbols)


def _chunks(contract: Contract) -> Iterator[str]:
    for word, kind in (("first", contract.chunking.first), ("later", contract.chunking.later)):
        if kind.hop < 1:
            yield f"the {word} chunk of {kind.size} frames has no room beside its left context of {kind.left_context}"
    for name, count in Counter(profile.name for profile in contract.profiles).items():
        if count > 1:
            yield f"{count} profiles are called {name}"
    for profile in contract.profiles:
        if lacking := [name for name in contract.free if name not in profile.symbols]:
            yield f"profile {profile.name} lacks {', '.join(lacking)}"
        if unknown := [name for name in profile.symbols if name not in contract.free]:
            yield f"profile {profile.name} has {', '.join(unknown)}, which is no free symbol"
        for name, (low, best, high) in profile.symbols.items():
            if not low <= best <= high:
                yield f"profile {profile.name} has {name} = {[low, best, high]}, which is not min <= opt <= max"


def _sizes(contract: Contract) -> Iterator[str]:
    """Yield what is wrong with sizes; at the first of those where only the numbers differ."""
    seen = set()
    for where, problem in _at_sizes(contract):
        if (kind := _NUMBER.sub("", problem)) not in seen:
            seen.add(kind)
            yield f"at {where} {problem}"


def _at_sizes(contract: Contract) -> Iterator[tuple[str, str]]:
    for where, free in _corners(contract):
        try:
            values = contract.values(free)
        except ValueError as error:
            yield where, str(error)
            continue
        yield from ((where, problem) for problem in _sizes_at(contract, values))
    try:
        points = list(chunk_points(contract))
    except ValueError as error:
        yield "the chunks' sizes", str(error)
        return
    for word, _, values in points:
        yield from ((f"the {word}", problem) for problem in _sizes_at(contract, values))


def _sizes_at(contract: Contract, values: Mapping[str, int]) -> Iterator[str]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name in contract.tensors:
        try:
            shapes[name] = contract.shape(name, values)
        except ValueError as error:
            yield f"{name}: {error}"
            continue
        if any(size < (1 if name in contract.inputs else 0) for size in shapes[name]):
            yield f"{name} has the shape {list(shapes[name])}"
        if math.prod(shapes[name]) > _MOST_ELEMENTS:
            yield f"{name} has the shape {list(shapes[name])}, more than {_MOST_ELEMENTS} elements"
    for pair in contract.state:
        before, after = shapes.get(pair.input), shapes.get(pair.output)
        if before is not None and after is not None and before != after:
            yield f"{pair.output} is {list(after)} and the input that takes it, {pair.input}, {list(before)}"
    for words, expression in _of_symbols(contract):
        try:
            expression.whole(values)
        except ValueError as error:
            yield f"{words}: {error}"
    for name, given in contract.inputs.items():
        if isinstance(given, StateInput | Length) and given.range:
            try:
                low, high = (bound.whole(values) for bound in given.range)
            except ValueError:
                continue
            if low > high:
                yield f"the range of {name} is from {low} to {high}"
    yield from _starts(contract, values)
    rows = {name: _entries(contract, name, shape) for name, shape in shapes.items()}
    for one in contract.invariants:
        for part in filter(None, (one.check, one.when)):
            for name in sorted(part.names & rows.keys()):
                if rows[name] != 1:
                    yield f"invariant {one.id} asks for {name}, which has {rows[name]} entries a stream, not one"


def _starts(contract: Contract, values: Mapping[str, int]) -> Iterator[str]:
    """Yield initial values that their states cannot have."""
    for pair in contract.state:
        given = contract.inputs[pair.input]
        if isinstance(pair.init, FromFile) or not isinstance(given, StateInput):
            continue
        try:
            number = pair.init if isinstance(pair.init, float) else pair.init.whole(values)
            low, high = (bound.whole(values) for bound in given.range) if given.range else (number, number)
        except ValueError:
            continue
        yield from _held(f"the initial value of {pair.input}", number, given.dtype)
        if not low <= number <= high:
            yield f"the initial value of {pair.input} is {number:g}, outside its range, {low} to {high}"


def _of_symbols(contract: Contract) -> Iterator[tuple[str, Expression]]:
    """Yield what symbols alone decide besides sizes, with its name in sentences."""
    for name, given in contract.inputs.items():
        if isinstance(given, StateInput | Length) and given.range:
            yield from ((f"the range of {name}", bound) for bound in given.range)
    for pair in contract.state:
        if isinstance(pair.init, Expression):
            yield f"the initial value of {pair.input}", pair.init
        if pair.shift and pair.shift.moves:
            yield f"the shift of {pair.input}", pair.shift.moves
    if contract.chunking.memory and contract.chunking.memory.chunks:
        yield "the memory", contract.chunking.memory.chunks


def _entries(contract: Contract, name: str, shape: tuple[int, ...]) -> int:
    batch = contract.batch_axis(name)
    return math.prod(size for axis, size in enumerate(shape) if axis != batch)


def _batch(contract: Contract) -> Iterator[str]:
    batch = contract.batch_symbol
    for name, tensor in contract.tensors.items():
        yield from _batch_of(contract, name, tensor, batch)


def _batch_of(contract: Contract, name: str, tensor: TensorOf, batch: str | None) -> Iterator[str]:
    said = contract.batch_axis(name)
    if batch and said is not None and tensor.shape[said].text != batch:
        yield f"the batch axis of {name} has the size {tensor.shape[said]}, that of {contract.signal[0]} {batch}"
    several = [axis for axis, dim in enumerate(tensor.shape) if dim.text == batch]
    if batch and tensor.batch_axis is None and len(several) > 1:
        yield f"{name} has {batch} in dimensions {several}; its batch_axis has to say which is that of the streams"
    if batch and said is None and isinstance(tensor, StateInput):
        yield f"state {name} has no batch axis, so streams of one batch would share it"


def _coverage(contract: Contract) -> Iterator[str]:
    for word, kind in (("first", contract.chunking.first), ("later", contract.chunking.later)):
        sizes = {contract.time_symbol: kind.size}
        if not any(profile.covers(sizes) for profile in contract.profiles):
            offered = ", ".join(
                f"{profile.name} {low} to {high}"
                for profile in contract.profiles
                for low, _, high in [profile.symbols[contract.time_symbol]]
            )
            yield f"the {word} chunk has {contract.time_symbol} = {kind.size}, outside every profile ({offered})"
    try:
        points = list(chunk_points(contract))
    except ValueError:  # which the check of sizes says
        return
    for word, chunk, values in points:
        if contract.length:
            name, length = contract.length
            try:
                low, high = (bound.whole(values) for bound in length.range)
            except ValueError:
                continue
            if not low <= chunk.size <= high:
                yield f"the {word} has {chunk.size} frames, outside the range of {name}, {low} to {high}"
        known = {**values, **chunk.names}
        for one in contract.invariants:
            if not one.streams and (one.check.names | (one.when.names if one.when else set())) <= known.keys():
                try:
                    if (one.when is None or one.when(known)) and not one.check(known):
                        shown = ", ".join(f"{name} is {known[name]}" for name in sorted(one.check.names))
                        yield f"invariant {one.id} ({one.check}) does not hold at the {word}: {shown}"
                except ValueError as error:
                    yield f"invariant {one.id} at the {word}: {error}"


def _known(contract: Contract, tensors: Iterable[str]) -> set[str]:
    return {*contract.symbols, *CHUNK_NAMES, *tensors}


def _unknown(words: str, expression: Expression, known: Iterable[str], *, totals: bool = False) -> Iterator[str]:
    names = list(known)
    if expression.streams and not totals:
        yield f"{words} ({expression}) asks for a total, which the check of an invariant alone can"
    for name in sorted(expression.names.difference(names)):
        yield f"{words} ({expression}) names {name}, which the contract does not have there{near(name, names)}"


_Check = Callable[[Contract], Iterator[str]]
_STRUCTURE: tuple[_Check, ...] = (_signals, _symbols, _tensors, _states, _invariants, _chunks)
_SIZES: tuple[_Check, ...] = (_batch, _numbers, _sizes, _coverage)
