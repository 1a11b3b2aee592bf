"""Whether a contract contradicts itself: every contradiction in one sentence. Its sizes are in `static_sizes`."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from trt_workbench.core.counts import counted
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.expressions import RESERVED, Expression
from trt_workbench.stream.contract.parts import Constant, FrameCounter, Length, Mask, Signal, State, StateInput
from trt_workbench.stream.contract.size_check import places
from trt_workbench.stream.contract.static_sizes import batches, coverage, numbers, sizes

_WHOLE = ("int64", "int32", "int8", "uint8")


def contradictions(contract: Contract) -> list[str]:
    """Return where a contract contradicts itself, one sentence each; later parts need the earlier ones sound."""
    for checks in (_STRUCTURE, _SIZES):
        if problems := [problem for check in checks for problem in check(contract)]:
            return list(dict.fromkeys(problems))
    return []


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
            yield f"time_axis {signal.time_axis} of {name} is outside its {counted(len(signal.shape), 'dimension')}"
        elif (text := signal.shape[signal.time_axis].text) not in contract.free:
            yield f"the time axis of {name} has the size {text}, but must be a number or a free symbol (null)"
        elif signal.time_axis == signal.batch_axis:
            yield f"{name} has its frames and its streams along one dimension, {signal.time_axis}"
    for name in lengths:
        length = contract.inputs[name]
        if isinstance(length, Length) and length.of not in signals:
            yield f"{name} is the length of {length.of}, which is not a signal"


def _symbols(contract: Contract) -> Iterator[str]:
    taken = {*contract.chunk_names, *RESERVED, *contract.tensors}
    for name, rule in contract.symbols.items():
        if not name.isidentifier() or name in taken:
            yield f"{name} cannot be a symbol's name: it {'is taken' if name in taken else 'is not an identifier'}"
        if rule is not None:
            yield from _unknown(f"symbol {name}", rule, contract.symbols)
    if cyclic := _cyclic(contract):
        yield f"{', '.join(cyclic)} are computed from each other"
    for name in contract.free:
        if not any(dim.text == name for one in contract.inputs.values() for dim in one.shape):
            yield f"symbol {name} is free (null), but no input has {name} alone as a dimension"


def _cyclic(contract: Contract) -> list[str]:
    todo = {name: rule.names & contract.symbols.keys() for name, rule in contract.symbols.items() if rule is not None}
    while ready := [name for name, needs in todo.items() if not needs & todo.keys()]:
        for name in ready:
            del todo[name]
    return list(todo)


def _tensors(contract: Contract) -> Iterator[str]:
    if both := contract.inputs.keys() & contract.outputs.keys():
        yield f"{', '.join(sorted(both))} is both an input and an output"
    yield from _unknown_sizes(contract)
    for name, tensor in contract.tensors.items():
        if tensor.batch_axis is not None and tensor.batch_axis >= len(tensor.shape):
            yield f"batch_axis {tensor.batch_axis} of {name} is outside its {counted(len(tensor.shape), 'dimension')}"
    for name, given in contract.inputs.items():
        if isinstance(given, StateInput | Length) and given.range:
            if given.dtype not in _WHOLE:
                yield f"{name} has a range but is {given.dtype}; only inputs of whole numbers have ranges"
            for bound in given.range:
                yield from _unknown(f"the range of {name}", bound, contract.symbols)
    for name, one in contract.computed.items():
        if contract.schema_version == 1:
            yield f"{name} has the role {one.role}, which needs schema_version 2"
        words, rule = ("value", one.value) if isinstance(one, FrameCounter) else ("valid part", one.valid)
        yield from _unknown(f"the {words} of {name}", rule, _known(contract, ()))
        if isinstance(one, Mask) and (one.axis >= len(one.shape) or one.axis == one.batch_axis):
            yield f"the mask {name} lies along axis {one.axis}, which is not a dimension of its entries"
    for name, output in contract.outputs.items():
        if output.valid:
            if output.valid.axis >= len(output.shape):
                yield f"the valid part of {name} lies along axis {output.valid.axis}, outside its dimensions"
            for rule in (output.valid.by, output.valid.offset):
                yield from _unknown(f"the valid part of {name}", rule, _known(contract, contract.tensors))


def _unknown_sizes(contract: Contract) -> Iterator[str]:
    """Yield names in sizes that are no symbols; one that is in several sizes once."""
    several: dict[str, dict[tuple[str, int], Expression]] = {}
    for name, tensor in contract.tensors.items():
        for axis, dim in enumerate(tensor.shape):
            for lacking in sorted(dim.names - contract.symbols.keys()):
                several.setdefault(lacking, {})[name, axis] = dim
            if dim.streams:
                yield from _unknown(f"dimension {axis} of {name}", dim, dim.names)
    for lacking, where in several.items():
        (name, axis), dim = next(iter(where.items()))
        if len(where) == 1:
            yield from _unknown(f"dimension {axis} of {name}", dim, {*contract.symbols, *dim.names} - {lacking})
        else:
            like = near(lacking, contract.symbols)
            yield f"{lacking} is used in {places(list(where))}, but symbols does not have it{like}"


def _states(contract: Contract) -> Iterator[str]:
    for side in ("input", "output"):
        for name, count in Counter(getattr(pair, side) for pair in contract.state).items():
            if count > 1:
                yield f"{side} {name} is in {count} state pairs"
    paired = {pair.input for pair in contract.state}
    for name, given in contract.inputs.items():
        if isinstance(given, StateInput) and name not in paired:
            yield f"input {name} has the role state, but no state pair says which output it takes"
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
            yield f"{words} goes from {counted(len(after.shape), 'dimension')} to {len(before.shape)}"
        if None not in (before.batch_axis, after.batch_axis) and before.batch_axis != after.batch_axis:
            yield f"{words} goes from batch axis {after.batch_axis} to {before.batch_axis}"
    if isinstance(pair.init, Expression):
        yield from _unknown(f"the initial value of {pair.input}", pair.init, contract.symbols)
    if (shift := pair.shift) and before is not None:
        if shift.axis >= len(before.shape):
            rank = counted(len(before.shape), "dimension")
            yield f"the shift of {pair.input} is along axis {shift.axis}, outside its {rank}"
        if shift.by:
            yield from _unknown(f"the valid part of {pair.input}", shift.by, _known(contract, contract.inputs))
        if shift.moves:
            yield from _unknown(f"the shift of {pair.input}", shift.moves, contract.symbols)
            if shift.valid_at != "end":
                yield f"{pair.input} moves towards its start, so its valid part lies at the end, not at the start"


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
            size, left = counted(kind.size, "frame"), kind.left_context
            yield f"the {word} chunk of {size} has no room for {left} frames of left context"
    right = contract.chunking.right_context
    if right and (contract.chunking.later.left_context < right or contract.chunking.first.hop <= right):
        yield (
            f"right_context is {right}, more than the left context of later chunks "
            f"({contract.chunking.later.left_context}), or not less than the new frames of the first "
            f"({contract.chunking.first.hop})"
        )
    for name, count in Counter(profile.name for profile in contract.profiles).items():
        if count > 1:
            yield f"{count} profiles are called {name}"
    for profile in contract.profiles:
        if lacking := [name for name in contract.free if name not in profile.symbols]:
            yield f"profile {profile.name} lacks {', '.join(lacking)}"
        if unknown := [name for name in profile.symbols if name not in contract.free]:
            yield f"profile {profile.name} has {', '.join(unknown)}, which is not a free symbol"
        for name, (low, best, high) in profile.symbols.items():
            if not low <= best <= high:
                yield f"profile {profile.name} has {name} = {[low, best, high]}, which is not min <= opt <= max"


def _newest(contract: Contract) -> Iterator[str]:
    """Yield keys of version 3 in an earlier one."""
    if contract.schema_version > 2:
        return
    chunking = contract.chunking
    keys: dict[str, object] = {"right_context": chunking.right_context, "normalize": chunking.normalize}
    keys |= {"decoding": contract.decoding, "features": chunking.features}
    for name, one in contract.inputs.items():
        keys |= {f"values of {name}": isinstance(one, Constant) and one.values}
    for name, output in contract.outputs.items():
        keys |= {f"offset of {name}": output.valid and output.valid.offset.text != "0"}
    yield from (f"the contract has {key}, which needs schema_version 3" for key, value in keys.items() if value)


def _decoding(contract: Contract) -> Iterator[str]:
    said = contract.decoding
    if said is None:
        return
    if said.frames not in contract.outputs:
        yield f"decoding.frames is {said.frames}, which is not an output{near(said.frames, contract.outputs)}"
    elif contract.outputs[said.frames].valid is None:
        yield f"decoding.frames is {said.frames}, whose valid says neither the axis of frames nor how many count"


def _known(contract: Contract, tensors: Iterable[str]) -> set[str]:
    return {*contract.symbols, *contract.chunk_names, *tensors}


def _unknown(words: str, expression: Expression, known: Iterable[str], *, totals: bool = False) -> Iterator[str]:
    names = list(known)
    if expression.streams and not totals:
        yield f"{words} ({expression}) uses total(), which only the check of an invariant may"
    for name in sorted(expression.names.difference(names)):
        yield f"{words} ({expression}) names {name}, which the contract does not have there{near(name, names)}"


_Check = Callable[[Contract], Iterator[str]]
_STRUCTURE: tuple[_Check, ...] = (_signals, _symbols, _tensors, _states, _invariants, _chunks, _newest, _decoding)
_SIZES: tuple[_Check, ...] = (batches, numbers, sizes, coverage)
