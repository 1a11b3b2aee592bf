"""The faults that a runner of streams can have, planted between a chunk's outputs and the next one's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.counts import grouped
from trt_workbench.stream.contract.contract import Contract

State = dict[str, NDArray[Any]]
STUCK, ONE_SHORT = "lengths stuck", "length one short"
_GAIN = 1 / 30_000
# 16 bits round a smaller one away.
_HALF_GAIN = 1 / 128


class StateUpdate(NamedTuple):
    """What happens to the state after a chunk: the one it left, the one it was fed, and that of a stream's start."""

    chunk: int
    now: State
    before: State
    initial: State


Alter = Callable[[StateUpdate], State]
"""Says what the next chunk is fed."""


@dataclass(frozen=True)
class PlantedFault:
    """A fault that can be planted. `reason` says why it cannot in this model; None where it can.

    Attributes:
        name: short, for tables.
        text: what the runner does wrong.
        alter: plants it; a new one for each stream.
    """

    name: str
    text: str
    alter: Alter | None
    reason: str = ""


def faults(contract: Contract, chunks: int) -> list[PlantedFault]:
    """Return every fault, for a stream of so many chunks; what happens once happens in the middle."""
    live = {pair.input: pair for pair in contract.state if not pair.dead}
    floats = [name for name in live if contract.inputs[name].dtype.startswith(("float", "bfloat"))]
    lengths = [name for name in live if contract.inputs[name].dtype.startswith("int")]
    halves = any("16" in contract.inputs[name].dtype for name in floats)
    middle = chunks // 2
    shifted = next((name for name in floats if (shift := live[name].shift) and shift.by is None), None)
    shifted = shifted or next((name for name in floats if live[name].shift), None)
    layers = _layer_axes(contract, floats)
    twins = () if layers else _twins(contract, floats)

    def where(condition: object, reason: str, alter: Alter) -> tuple[Alter | None, str]:
        return (alter, "") if condition else (None, reason)

    no_state, no_floats = "the contract has no live state", "no live state holds floats"
    no_lengths = "no live state holds whole numbers"
    rows: list[tuple[str, str, tuple[Alter | None, str]]] = [
        ("stale state", "the state is never written", where(live, no_state, _stale)),
        ("buffers not swapped", "each chunk reads the state of two chunks ago", where(live, no_state, _late())),
        (STUCK, "lengths stay what they were at the start", where(lengths, no_lengths, _stuck(lengths))),
        (ONE_SHORT, "lengths are one too small", where(lengths, no_lengths, _short(lengths))),
        (
            "off by one",
            f"{shifted or 'a state'} is moved by one frame",
            where(shifted, "no live state has an axis along which it shifts", _rolled(contract, shifted)),
        ),
        (
            "layers swapped",
            f"{' and '.join(twins) or 'two layers'} read each other's state",
            where(
                layers or twins,
                "no axis of layers is common to the states, and no two of them have the same shape",
                _exchanged(*twins) if twins else _swapped(layers),
            ),
        ),
        ("update lost", f"the update after chunk {middle} is lost", where(live, no_state, _lost(middle))),
        (
            "creeping gain",
            f"state is scaled by 1 + chunk/30000{', of 16 bits by 1 + chunk/128' * halves}",
            where(floats, no_floats, _gain(floats)),
        ),
        (
            "NaN",
            f"one number of the state becomes NaN after chunk {middle}",
            where(floats, no_floats, _nan(floats, middle)),
        ),
    ]
    return [PlantedFault(name, text, alter, reason) for name, text, (alter, reason) in rows]


def _stale(update: StateUpdate) -> State:
    return update.initial


def _late() -> Alter:
    kept: list[State] = []

    def alter(update: StateUpdate) -> State:
        kept.append(update.now)
        return kept.pop(0) if len(kept) > 1 else update.initial

    return alter


def _stuck(names: list[str]) -> Alter:
    return lambda update: {**update.now, **{name: update.initial[name] for name in names}}


def _short(names: list[str]) -> Alter:
    return lambda update: {**update.now, **{name: np.maximum(update.now[name] - 1, 0) for name in names}}


def _rolled(contract: Contract, name: str | None) -> Alter:
    axes = {pair.input: pair.shift.axis for pair in contract.state if pair.shift and pair.input == name}
    return lambda update: {**update.now, **{name: np.roll(update.now[name], 1, axis) for name, axis in axes.items()}}


def _swapped(axes: Mapping[str, int]) -> Alter:
    def alter(update: StateUpdate) -> State:
        order = {name: [1, 0, *range(2, update.now[name].shape[axis])] for name, axis in axes.items()}
        return {**update.now, **{name: np.take(update.now[name], order[name], axis) for name, axis in axes.items()}}

    return alter


def _exchanged(one: str, other: str) -> Alter:
    return lambda update: {**update.now, one: update.now[other], other: update.now[one]}


def _lost(chunk: int) -> Alter:
    return lambda update: update.before if update.chunk == chunk else update.now


def _gain(names: list[str]) -> Alter:
    def alter(update: StateUpdate) -> State:
        return {**update.now, **{name: _scaled(update.now[name], update.chunk) for name in names}}

    return alter


def _scaled(array: NDArray[Any], chunk: int) -> NDArray[Any]:
    return (array * (1 + chunk * (_GAIN if array.itemsize > 2 else _HALF_GAIN))).astype(array.dtype)


def _nan(names: list[str], chunk: int) -> Alter:
    def alter(update: StateUpdate) -> State:
        if update.chunk != chunk:
            return update.now
        spoilt = update.now[names[0]].copy()
        spoilt.flat[-1] = np.nan  # the newest frame is at the end
        return {**update.now, names[0]: spoilt}

    return alter


def _layer_axes(contract: Contract, names: list[str]) -> dict[str, int]:
    """Return by state the axis of its layers: one of the same size in all of them that is neither batch nor time."""
    shifts = {pair.input: pair.shift.axis for pair in contract.state if pair.shift}
    values = contract.chunk_values(next(contract.chunks(1)))
    found: dict[str, dict[str, int]] = {}
    for name in names:
        sizes = list(enumerate(contract.inputs[name].shape))[:-1]  # the innermost one holds units
        apart = (contract.batch_axis(name), shifts.get(name))
        for axis, size in sizes:
            if axis not in apart and size.whole(values) > 1:
                found.setdefault(size.text, {}).setdefault(name, axis)
    common = [axes for axes in found.values() if len(axes) == len(names)]
    # the first one: states have layers outermost
    return min(common, key=lambda axes: sum(axes.values()), default={}) if names else {}


def _twins(contract: Contract, names: list[str]) -> tuple[str, ...]:
    """Return the first two states of one type and shape, such as those of two layers or an LSTM's; () without any."""
    values = contract.chunk_values(next(contract.chunks(1)))
    alike = grouped(names, lambda name: (contract.inputs[name].dtype, contract.shape(name, values)))
    return next((tuple(several[:2]) for several in alike.values() if len(several) > 1), ())
