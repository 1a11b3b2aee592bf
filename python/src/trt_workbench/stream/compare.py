"""What of a chunk's outputs is compared with the reference's: the parts that count, and a head's clear answers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.elements import is_finite, largest_agrees, widened
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.parts import Chunk

Arrays = Mapping[str, NDArray]  # type: ignore[type-arg]
Index = tuple[slice, ...]


def agreement(found: NDArray, expected: NDArray, tie: float) -> tuple[int, int, int]:  # type: ignore[type-arg]
    """Return in how many rows the largest entry of the last axis is the same one, the rows that count, and all rows.

    Args:
        found: of the target.
        expected: of the reference.
        tie: rows in which the reference's best two are closer than this share of the row's norm are left out: an error
            within the limits of a precision may turn them.
    """
    if expected.shape[-1] < 2:
        return 0, 0, 0
    wide = widened(expected)
    # what is not finite has no part in a row's norm; NaN is less than anything
    norms = np.sqrt(np.square(np.where(is_finite(expected), wide, 0)).sum(-1))
    best = np.partition(np.where(np.isnan(wide), -np.inf, wide), -2, axis=-1)[..., -2:]
    with np.errstate(invalid="ignore"):  # two infinite ones are a tie
        clear = best[..., 1] - best[..., 0] > tie * norms
    return int((largest_agrees(found, expected) & clear).sum()), int(clear.sum()), int(clear.size)


class Parts:
    """Takes from each output what counts: the frames that are valid, the filled part of a cache."""

    def __init__(self, contract: Contract) -> None:
        """Take a contract."""
        self._contract = contract
        self._states = {pair.output: pair for pair in contract.state}

    def slices(self, chunk: Chunk, values: Mapping[str, int], fed: Arrays, outputs: Arrays) -> dict[str, Index]:
        """Return an index for each output, by the lengths that the reference's outputs of the chunk say.

        All rows of a batch are one stream here, so the first row's lengths hold for all.

        Args:
            chunk: which one.
            values: of all symbols.
            fed: every input of the reference, its state among them.
            outputs: of the reference.
        """
        known = {**self._contract.known(values, chunk), **scalars(fed), **scalars(outputs)}
        # what a state holds is counted by the next chunk's place
        following = chunk.after()
        after = {**known, **self._contract.known(values, following), **self._contract.counters(values, following)}
        after |= scalars({pair.input: outputs[pair.output] for pair in self._contract.state})
        found = {}
        for name, array in outputs.items():
            index = [slice(None)] * array.ndim
            said, pair = self._contract.outputs[name].valid, self._states.get(name)
            if said is not None:
                index[said.axis] = said.part(known, array.shape[said.axis])
            elif pair and pair.shift and pair.shift.by is not None:
                size = array.shape[pair.shift.axis]
                filled = min(max(pair.shift.by.whole(after), 0), size)
                at_end = pair.shift.valid_at == "end"
                index[pair.shift.axis] = slice(size - filled, None) if at_end else slice(filled)
            found[name] = tuple(index)
        return found


def scalars(arrays: Arrays) -> dict[str, int]:
    """Return the first number of each tensor of whole ones, which expressions may use."""
    return {name: int(array.flat[0]) for name, array in arrays.items() if array.dtype.kind in "iu" and array.size}
