"""Whether states carry what they should, are reset, and hold nothing that matters beyond their valid part."""

from __future__ import annotations

from typing import Any

import numpy as np

from trt_workbench.core.counts import counted
from trt_workbench.core.elements import equal, is_finite, kind
from trt_workbench.stream.check.document import StateFact
from trt_workbench.stream.check.steps import Arrays, ChunkRun, apart
from trt_workbench.stream.check.trial import CheckTally, ContractTrial
from trt_workbench.stream.contract.parts import State

_MOST_MEMORY = 512
# A state is alive where noise in it moves an output this many times further than a repetition does.
_ABOVE_REPETITION = 10
_STUCK = "it never leaves its initial value"
# Dimensions of a state that holds those of several layers, and what is named of many.
_WITH_LAYERS, _MOST_STUCK = 4, 5


def reset(trial: ContractTrial, found: CheckTally) -> None:
    """A stream that comes after another one equals the same stream on a fresh session."""
    first, chunks = trial.base, trial.schedule()
    for _ in trial.stepper.run(chunks, trial.signal(stream=1000)):
        pass
    for step, again in zip(first, trial.stepper.run(chunks, trial.signal()), strict=True):
        trial.compare(found, again, step, "differs from the same stream before another one")
    trial.floor = found.worst or 0.0


def live(trial: ContractTrial, found: CheckTally) -> None:
    """A state affects later outputs, or is declared dead."""
    if not trial.contract.state:
        found.reason = "the contract has no state"
        return
    trial.states += [_fact(trial, pair) for pair in trial.contract.state]
    found.cases += len(trial.states)
    # the cause first: a length that is stuck at 0 masks the cache away whose length it is
    for fact in sorted(trial.states, key=lambda fact: not fact.reason.startswith(_STUCK)):
        if fact.live and fact.declared_dead:
            found.add(f"is declared dead but is live: {fact.reason}", tensor=fact.input)
        elif not fact.live and not fact.declared_dead and trial.contract.gates.live_state:
            found.add(f"carries nothing to later chunks but is not declared dead: {fact.reason}", tensor=fact.input)

    stuck = [text for pair in trial.contract.state if (text := _stuck_part(trial, pair))]
    found.reason = "; ".join(stuck[:_MOST_STUCK])


def _stuck_part(trial: ContractTrial, pair: State) -> str:
    """Return which layers of a state never leave their initial value, in words; empty where all or none do.

    This is no failure: channels, whose dimension may be there instead, can be silent in a healthy model.
    """
    first, *others = (step.inputs[pair.input] for step in trial.base)
    axis = int(trial.contract.batch_axis(pair.input) == 0)
    if first.ndim < _WITH_LAYERS or any(one.shape != first.shape for one in others):
        return ""
    moved = np.any([np.moveaxis(one != first, axis, 0).reshape(first.shape[axis], -1).any(1) for one in others], 0)
    if moved.all() or not moved.any():
        return ""
    entries = ", ".join(map(str, np.flatnonzero(~moved)[:_MOST_STUCK].tolist()))
    count = counted(int((~moved).sum()), "entry", "entries")
    return f"of {pair.input} {count} along dimension {axis} ({entries}) never left the initial value"


def _fact(trial: ContractTrial, pair: State) -> StateFact:
    base, outputs = trial.base, trial.contract.outputs

    def said(live: bool, reason: str) -> StateFact:
        return StateFact(input=pair.input, output=pair.output, live=live, declared_dead=pair.dead, reason=reason)

    seen = [step.inputs[pair.input] for step in base]
    if all(equal(seen[0], one) for one in seen[1:]):
        return said(live=False, reason=f"{_STUCK} in {counted(len(base), 'chunk')}")
    watched = trial.others or [name for name in outputs if name != pair.output]
    for at in sorted({1, len(base) // 2, len(base) - 2} & set(range(1, len(base)))):
        noisy = _noisy(trial, pair, base[at], seen)
        if noisy is None:
            continue
        held = trial.held(base[at]) | {pair.input: noisy}
        chunks = [step.chunk for step in base[at:]]
        for step, plain in zip(trial.stepper.run(chunks, trial.signal(), held), base[at:], strict=True):
            for name, distance in trial.distances(step, plain, watched).items():
                if distance > _ABOVE_REPETITION * trial.floor:
                    return said(
                        live=True,
                        reason=f"noise in it before chunk {at} changes {name} in chunk {step.chunk.index} "
                        f"(relative L2 {distance:.2g})",
                    )
    return said(live=False, reason=f"noise in it changes no output up to chunk {base[-1].chunk.index}")


def _noisy(trial: ContractTrial, pair: State, step: ChunkRun, seen: list[Any]) -> Any:
    """Return other values for a state: noise of its own spread, or whole numbers that it has elsewhere."""
    held = step.inputs[pair.input]
    if not kind(held).counted:
        return (held + (_spread(held) or 1.0) * trial.rng.standard_normal(held.shape)).astype(held.dtype)
    given = trial.contract.inputs[pair.input]
    bounds = [bound.whole(step.values) for bound in getattr(given, "range", None) or ()]
    choices = [np.full_like(held, bound) for bound in bounds] + seen
    return next((one for one in choices if one.shape == held.shape and not equal(one, held)), None)


def _spread(array: Any) -> float:
    known = array[is_finite(array)].astype(np.float64)
    return float(known.std()) if known.size else 0.0


def shift(trial: ContractTrial, found: CheckTally) -> None:
    """The content of a state before a chunk has moved as its shift says."""
    pairs = [pair for pair in trial.contract.state if pair.shift and pair.shift.moves]
    if not pairs:
        found.reason = "no state declares how far it shifts (shift.moves)"
        return
    for step in trial.base:
        for pair in pairs:
            assert pair.shift
            assert pair.shift.moves
            before, after, axis = step.inputs[pair.input], step.outputs[pair.output], pair.shift.axis
            moved, size = pair.shift.moves.whole(step.values), step.inputs[pair.input].shape[pair.shift.axis]
            if moved < size and after.shape == before.shape:
                old, new = np.take(before, range(moved, size), axis), np.take(after, range(size - moved), axis)
                words = f"does not hold its earlier entries shifted by {moved}"
                found.equal(apart(new, old), trial.limit, words, step.chunk, pair.output)
    if not found.cases:
        found.reason = "a chunk replaces the whole state"


def garbage(trial: ContractTrial, found: CheckTally) -> None:
    """Finite values in the invalid part of a state change no output."""
    pairs = [pair for pair in trial.contract.state if pair.shift and pair.shift.by]
    if not pairs:
        found.reason = "no state has an invalid part (shift.by)"
        return
    for step in trial.base:
        edits: Arrays = {}
        for pair in pairs:
            array, mask = step.inputs[pair.input], trial.valid_state(pair, step, step.inputs[pair.input])
            if mask is not None and not mask.all():
                spread = max(_spread(array), 1.0)
                noise = (10 * spread * trial.rng.standard_normal(array.shape)).astype(array.dtype)
                edits[pair.input] = np.where(mask, array, noise)
        if edits:
            dirty = trial.stepper.step(step.chunk, trial.signal(), trial.held(step) | edits)
            trial.compare(found, dirty, step, f"is changed by the values in the invalid part of {' and '.join(edits)}")
    if not found.cases:
        found.reason = "the whole state is valid in every chunk"


def memory(trial: ContractTrial, found: CheckTally) -> None:
    """A state of finite memory is forgotten after as many chunks as the contract says."""
    memory = trial.contract.chunking.memory
    if memory is None or memory.chunks is None:
        found.reason = "the contract declares no finite memory"
        return
    horizon = memory.chunks.whole(trial.stepper.values(trial.schedule()[-1]))
    if not 0 <= horizon <= _MOST_MEMORY:
        found.reason = f"{horizon} chunks are more than the limit of {_MOST_MEMORY}"
        return
    chunks = list(trial.contract.chunks(trial.frames(horizon + 4)))
    trial.chunks = max(trial.chunks, len(chunks))
    signal = trial.signal(chunks)
    base = list(trial.stepper.run(chunks, signal))
    held = trial.held(base[2])
    for pair in trial.contract.state:
        if not kind(held[pair.input]).counted:
            held[pair.input] = _noisy(trial, pair, base[2], [])
    for step in trial.stepper.run(chunks[2:], signal, held):
        if step.chunk.index >= 2 + horizon:
            words = f"still depends on a state {counted(step.chunk.index - 2, 'chunk')} earlier"
            trial.compare(found, step, base[step.chunk.index], words, trial.others)
