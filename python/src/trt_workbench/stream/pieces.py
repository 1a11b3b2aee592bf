"""New frames of many streams, all of them from one signal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.rows import row_of


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
