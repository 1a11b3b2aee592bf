"""What a contract says about every chunk and whole streams, compared with what a model does."""

from __future__ import annotations

import numpy as np

from trt_workbench.core.counts import counted
from trt_workbench.core.elements import is_finite
from trt_workbench.stream.check.steps import CannotRun, ChunkRun, lengths_by, row_values
from trt_workbench.stream.check.trial import CheckTally, ContractTrial
from trt_workbench.stream.contract.expressions import Expression
from trt_workbench.stream.contract.parts import Chunk

_MOST_SIZES = 24
# Among so many sizes in a row one is looked for that gives whole numbers.
_NEAR = 512


def invariants(trial: ContractTrial, found: CheckTally) -> None:
    """Symbols, finite values and invariants at every chunk of the contract's own schedule."""
    for step in trial.stepper.run(trial.schedule(), trial.signal()):
        _holds(trial, step, found)


def sizes(trial: ContractTrial, found: CheckTally) -> None:
    """First and later chunks of every size that the profiles allow, at their smallest and largest batch."""
    contract, done = trial.contract, set[tuple[int, int]]()
    for profile in contract.profiles:
        low, best, high = profile.symbols[contract.time_symbol]
        batches = profile.symbols.get(contract.batch_symbol or "", (trial.stepper.streams,) * 3)
        chosen = _sizes_between(trial, low, high)
        if len(chosen) < high - low + 1 and len(chosen) >= _MOST_SIZES:
            found.reason = f"{len(chosen)} sizes of profile {profile.name}, from {low} to {high}"
        points = [(size, batches[0]) for size in {*chosen, best}] + [(size, batches[2]) for size in {low, best, high}]
        for size, batch in sorted(set(points) - done):
            done.add((size, batch))
            _at_size(trial, size, batch, found)


def _at_size(trial: ContractTrial, size: int, batch: int, found: CheckTally) -> None:
    chunks = _chunks_of(trial, size)
    if not chunks:
        return
    before, steps = len(found.findings), []
    try:
        for step in trial.stepper.run(chunks, trial.signal(chunks, streams=batch)):
            _holds(trial, step, found)
            steps.append(step)
        _totals(trial, steps, found)
    except CannotRun as error:
        found.add(f"the model rejects inputs that the contract allows: {error}", error.chunk)
    for place in range(before, len(found.findings)):
        one = found.findings[place]
        where = f"at {trial.contract.time_symbol} = {size}, batch {batch}: "
        found.findings[place] = one.model_copy(update={"what": where + one.what})


def _sizes_between(trial: ContractTrial, low: int, high: int) -> list[int]:
    """Return sizes that give whole numbers everywhere: all of them, or so many over the whole range."""
    if high - low < _NEAR:
        every = [size for size in range(low, high + 1) if _possible(trial, size)]
        if len(every) <= _MOST_SIZES:
            return every
        return [every[place] for place in np.linspace(0, len(every) - 1, _MOST_SIZES).round().astype(int)]
    starts = np.linspace(low, high, _MOST_SIZES).astype(int).tolist()
    near = (range(start, min(start + _NEAR, high + 1)) for start in starts)
    firsts = (next((size for size in sizes if _possible(trial, size)), None) for sizes in near)
    return sorted({size for size in (*firsts, high) if size is not None})


def _possible(trial: ContractTrial, size: int) -> bool:
    contract = trial.contract
    try:
        values = trial.stepper.values(Chunk(index=1, start=0, new=1, left_context=0, size=size))
        for name in contract.tensors:
            contract.shape(name, values)
    except ValueError:
        return False
    return size > contract.chunking.later.left_context


def _chunks_of(trial: ContractTrial, size: int) -> list[Chunk]:
    """Return three whole chunks of a size; none if one has no room for new frames."""
    kinds = (trial.contract.chunking.first, trial.contract.chunking.later, trial.contract.chunking.later)
    if any(size <= kind.left_context for kind in kinds):
        return []
    return list(trial.contract.chunks(sum(size - kind.left_context for kind in kinds), size))


def streams(trial: ContractTrial, found: CheckTally) -> None:
    """Invariants with totals, over streams that end anywhere in a chunk."""
    if not any(one.streams for one in trial.contract.invariants):
        found.reason = "no invariant uses total(), such as total(encoded_lengths) * 8 == total(new)"
        return
    hop = trial.contract.chunking.later.hop
    whole = trial.frames(trial.chunks)
    # a stream ends anywhere, where the model knows how much of its last chunk is padding
    rests = (0, 1, hop // 2, hop - 1) if trial.contract.length else (0,)
    for rest in sorted({rest for rest in rests if 0 <= rest < hop}):
        chunks = list(trial.contract.chunks(whole + rest))
        steps = []
        for step in trial.stepper.run(chunks, trial.signal(chunks)):
            _holds(trial, step, found)
            steps.append(step)
        _totals(trial, steps, found)


def _totals(trial: ContractTrial, steps: list[ChunkRun], found: CheckTally) -> None:
    for one in trial.contract.invariants:
        if not one.streams:
            continue
        every = [row_values(trial.contract, step, one.check.names) for step in steps]
        for row in range(len(every[0])):
            found.cases += 1
            chunks = [rows[min(row, len(rows) - 1)] for rows in every]
            try:
                if one.check(chunks[-1], chunks):
                    continue
                frames = steps[-1].chunk.start + steps[-1].chunk.new
                totals = ", ".join(f"{text} is {value}" for text, value in one.check.totals(chunks).items())
                whole = f"{counted(frames, 'frame')} in {counted(len(steps), 'chunk')}"
                said = f"{one.check} does not hold over {whole}: {totals}"
            except ValueError as error:
                said = str(error)
            found.add(said + (f"; {one.why}" if one.why else ""), invariant=one.id)
            break


def _within(trial: ContractTrial, step: ChunkRun, found: CheckTally) -> None:
    """Add valid lengths beyond the tensor's size."""
    contract = trial.contract
    none = Expression(0)
    parts = [
        (name, step.outputs[name], one.valid.axis, one.valid.offset, one.valid.by)
        for name, one in contract.outputs.items()
        if one.valid
    ]
    parts += [
        (pair.input, step.inputs[pair.input], pair.shift.axis, none, pair.shift.by)
        for pair in contract.state
        if pair.shift and pair.shift.by
    ]
    for name, array, axis, offset, rule in parts:
        first, longest = max(lengths_by(offset, contract, step)), max(lengths_by(rule, contract, step))
        if axis < array.ndim and first + longest > array.shape[axis]:
            after = f" after {first}" if first else ""
            found.add(
                f"has {array.shape[axis]} entries in dimension {axis}, fewer than the valid {rule} = {longest}{after}",
                step.chunk,
                name,
            )


def _holds(trial: ContractTrial, step: ChunkRun, found: CheckTally) -> None:
    """Add what does not hold at one chunk: dtypes are the session's own concern, as its outputs were converted."""
    contract = trial.contract
    shapes = {name: array.shape for name, array in {**step.inputs, **step.outputs}.items()}
    found.cases += 1
    for name, array in step.outputs.items():
        if array.ndim != len(contract.outputs[name].shape):
            found.add(f"has the shape {list(array.shape)}", step.chunk, name)
        if contract.gates.finite and not is_finite(array).all():
            found.add("has values that are not finite", step.chunk, name)
    _within(trial, step, found)
    for problem in contract.solve(shapes)[1]:
        tensor = next((name for name in step.outputs if problem.endswith(name) or f" {name} " in problem), None)
        found.add(problem, step.chunk, tensor)
    for one in contract.invariants:
        if one.streams:
            continue
        names = one.check.names | (one.when.names if one.when else frozenset())
        for row, known in enumerate(row_values(contract, step, names)):
            found.cases += 1
            try:
                if (one.when and not one.when(known)) or one.check(known):
                    continue
                values = ", ".join(f"{name} is {known[name]}" for name in sorted(one.check.names))
                said = f"{one.check} does not hold{f' in row {row}' if row else ''}: {values}"
            except ValueError as error:
                said = str(error)
            found.add(said + (f"; {one.why}" if one.why else ""), step.chunk, invariant=one.id)
            break
