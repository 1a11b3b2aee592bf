"""How far a chunk's outputs lie from the reference's: by tensor, of the part that counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trt_workbench.pipeline.streaming.contract import Contract
from trt_workbench.pipeline.streaming.expressions import Expression
from trt_workbench.pipeline.streaming.parts import Chunk

Arrays = Mapping[str, NDArray]  # type: ignore[type-arg]
Index = tuple[slice, ...]


@dataclass(frozen=True)
class Difference:
    """Of one tensor in one chunk.

    Attributes:
        abs_max: largest absolute error; infinite where something is not finite.
        rel_l2: L2 norm of the error in relation to the reference's; 0 of whole numbers, infinite as `abs_max`.
        cosine: of both as vectors; 1 where both are zero.
        equal: whether all is equal, bit for bit but for the sign of zero.
        finite: whether all of the target's is.
    """

    abs_max: float
    rel_l2: float
    cosine: float
    equal: bool
    finite: bool


def difference(found: NDArray, expected: NDArray) -> Difference:  # type: ignore[type-arg]
    """Compare a tensor with the reference's, of the same shape."""
    equal = bool(np.array_equal(found, expected))
    if expected.dtype.kind in "iub":
        apart = np.abs(found.astype(np.int64) - expected.astype(np.int64))
        return Difference(float(apart.max(initial=0)), 0.0, 1.0, equal, finite=True)
    one, other = found.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    if not np.isfinite(one).all() or not np.isfinite(other).all():
        return Difference(np.inf, np.inf, 0.0, equal=False, finite=bool(np.isfinite(one).all()))
    if equal:
        return Difference(0.0, 0.0, 1.0, equal=True, finite=True)
    apart, norm, own = one - other, _product(other, other) ** 0.5, _product(one, one) ** 0.5
    cosine = _product(one, other) / (norm * own) if norm and own else 0.0
    relative = _product(apart, apart) ** 0.5 / norm if norm else np.inf
    return Difference(float(np.abs(apart).max()), relative, cosine, equal=False, finite=True)


def _product(one: NDArray, other: NDArray) -> float:  # type: ignore[type-arg]
    """Return the inner product; not by BLAS, whose threads would take the processors from the model."""
    return float(np.multiply(one, other).sum())


def agreement(found: NDArray, expected: NDArray, tie: float) -> tuple[int, int, int]:  # type: ignore[type-arg]
    """Return in how many rows the largest entry of the last axis is the same one, the rows that count, and all rows.

    Args:
        found: of the target.
        expected: of the reference.
        tie: rows in which the reference's best two are closer than this share of the row's norm are left out: an error
            within the limits of a precision may turn them.
    """
    wide = expected.astype(np.float64)
    if wide.shape[-1] < 2:
        return 0, 0, 0
    best = np.partition(wide, -2, axis=-1)[..., -2:]
    clear = best[..., 1] - best[..., 0] > tie * np.sqrt(np.square(wide).sum(-1))
    # argmax of a row with NaN is the NaN
    same = (found.argmax(-1) == expected.argmax(-1)) & np.isfinite(found).all(-1)
    return int((same & clear).sum()), int(clear.sum()), int(clear.size)


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
        known = {**self._contract.known(values, chunk), **_scalars(fed), **_scalars(outputs)}
        # what a state holds is counted by the next chunk's place
        following = chunk.after()
        after = {**known, **self._contract.known(values, following), **self._contract.counters(values, following)}
        after |= _scalars({pair.input: outputs[pair.output] for pair in self._contract.state})
        found = {}
        for name, array in outputs.items():
            index = [slice(None)] * array.ndim
            said, pair = self._contract.outputs[name].valid, self._states.get(name)
            if said is not None:
                index[said.axis] = slice(_length(said.by, known, array.shape[said.axis]))
            elif pair and pair.shift and pair.shift.by is not None:
                size = array.shape[pair.shift.axis]
                filled = _length(pair.shift.by, after, size)
                at_end = pair.shift.valid_at == "end"
                index[pair.shift.axis] = slice(size - filled, None) if at_end else slice(filled)
            found[name] = tuple(index)
        return found


def _length(rule: Expression, known: Mapping[str, int], most: int) -> int:
    return min(max(rule.whole(known), 0), most)


def _scalars(arrays: Arrays) -> dict[str, int]:
    return {name: int(array.flat[0]) for name, array in arrays.items() if array.dtype.kind in "iu" and array.size}
