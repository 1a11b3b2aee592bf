"""Whether a contract's sizes, numbers and streams fit one another at its profiles and chunks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.expressions import Expression
from trt_workbench.stream.contract.feeding import number_of
from trt_workbench.stream.contract.parts import Chunk, Constant, FromFile, Length, StateInput, TensorOf, holds

# Of one tensor in one call: 1 GiB of float32. The largest state of a stream that is in use has 25 MB.
_MOST_ELEMENTS = 2**28
# In a sentence, except numbers in the names of tensors.
_NUMBER = re.compile(r"(?<![\w./])\d+")


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
        start = contract.chunking.first.hop * index
        chunk = Chunk(index=index, start=start, new=kind.hop, left_context=kind.left_context, size=kind.size)
        for profile in contract.profiles:
            free = {name: best for name, (_, best, _) in profile.symbols.items()} | {contract.time_symbol: kind.size}
            if profile.covers(free):
                yield f"{word} chunk", chunk, contract.values(free)


def _points(contract: Contract) -> list[tuple[str, Chunk, dict[str, int]]]:
    """Return the chunk points; none where a size cannot be computed, which the check of sizes says."""
    try:
        return list(chunk_points(contract))
    except ValueError:
        return []


def numbers(contract: Contract) -> Iterator[str]:
    """Yield numbers that the types of their tensors cannot hold."""
    signal, _ = contract.signal
    inputs = contract.inputs.items()
    said = [
        (f"the value of {name}", name, number)
        for name, one in inputs
        if isinstance(one, Constant)
        for number in one.values.values()  # its own was read, which refuses what the type does not hold
    ]
    for words, name, number in (*said, ("left_fill", signal, contract.chunking.left_fill)):
        yield from _held(words, number, contract.inputs[name].dtype)
    yield from _computed(contract)


def _computed(contract: Contract) -> Iterator[str]:
    """Yield counters and masks that their tensors cannot hold at the first or a later chunk."""
    for word, chunk, values in _points(contract):
        for name in contract.computed:
            try:
                number_of(contract, name, contract.known(values, chunk), contract.shape(name, values))
            except (UsageProblem, ValueError) as error:
                yield f"at the {word}: {str(error).removesuffix('.')}"


def _held(words: str, number: float, dtype: str) -> Iterator[str]:
    """Yield that an integer type would change a number."""
    if not holds(dtype, number):
        yield f"{words} is {number:g}, which {dtype} cannot hold"


def sizes(contract: Contract) -> Iterator[str]:
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
                    yield f"invariant {one.id} asks for {name}, which has {rows[name]} entries per stream, not one"


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
    """Yield what only symbols decide besides sizes, with its name in sentences."""
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


def batches(contract: Contract) -> Iterator[str]:
    """Yield tensors whose batch axis is not known, or has another symbol than the signal's."""
    batch, signal = contract.batch_symbol, contract.signal[0]
    others: dict[str, list[str]] = {}
    for name, tensor in contract.tensors.items():
        said = contract.batch_axis(name)
        if batch and said is not None and tensor.shape[said].text != batch:
            others.setdefault(tensor.shape[said].text, []).append(name)
        yield from _batch_of(contract, name, tensor, batch)
    for text, names in others.items():
        shown = names[0] if len(names) == 1 else f"{len(names)} tensors ({names[0]}, for one)"
        yield f"the batch axis of {shown} has the size {text}, that of {signal} {batch}"


def _batch_of(contract: Contract, name: str, tensor: TensorOf, batch: str | None) -> Iterator[str]:
    several = [axis for axis, dim in enumerate(tensor.shape) if dim.text == batch]
    if batch and tensor.batch_axis is None and len(several) > 1:
        yield f"{name} has {batch} in dimensions {several}; its batch_axis must say which one is that of the streams"
    if batch and contract.batch_axis(name) is None and isinstance(tensor, StateInput):
        yield f"state {name} has no batch axis, so streams of one batch would share it"


def coverage(contract: Contract) -> Iterator[str]:
    """Yield chunks outside the profiles or the length's range, and invariants that do not hold at a whole chunk."""
    for word, kind in (("first", contract.chunking.first), ("later", contract.chunking.later)):
        sizes = {contract.time_symbol: kind.size}
        if not any(profile.covers(sizes) for profile in contract.profiles):
            offered = ", ".join(
                f"{profile.name} {low} to {high}"
                for profile in contract.profiles
                for low, _, high in [profile.symbols[contract.time_symbol]]
            )
            yield f"the {word} chunk has {contract.time_symbol} = {kind.size}, outside every profile ({offered})"
    for word, chunk, values in _points(contract):
        if contract.length:
            name, length = contract.length
            try:
                low, high = (bound.whole(values) for bound in length.range)
            except ValueError:
                continue
            if not low <= chunk.size <= high:
                yield f"the {word} has {chunk.size} frames, outside the range of {name}, {low} to {high}"
        known = contract.known(values, chunk)
        for one in contract.invariants:
            if not one.streams and (one.check.names | (one.when.names if one.when else set())) <= known.keys():
                try:
                    if (one.when is None or one.when(known)) and not one.check(known):
                        shown = ", ".join(f"{name} is {known[name]}" for name in sorted(one.check.names))
                        yield f"invariant {one.id} ({one.check}) does not hold at the {word}: {shown}"
                except ValueError as error:
                    yield f"invariant {one.id} at the {word}: {error}"
