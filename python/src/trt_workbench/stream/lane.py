"""A lane: the target in one precision and mode on a stream, compared with the reference chunk by chunk."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.core.array_files import named_below
from trt_workbench.core.compare import Difference, difference
from trt_workbench.core.elements import equal, finite, is_finite
from trt_workbench.stream.compare import agreement
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.feeding import fitted
from trt_workbench.stream.document import PARTS, ChunkRecord, TensorRecord
from trt_workbench.stream.faults import Alter, StateUpdate
from trt_workbench.stream.settings import DEVICE, FUNCTIONAL

State = dict[str, NDArray[Any]]
_TAKEN = ("_figures", "_latency", "_state", "heads", "compared", "reshaped", "broken")
"""What a lane has that goes on from another one, by name."""
FIGURES = ("abs_max", "rel_l2", "cosine", "equal", "finite", "changed")


class Lane:
    """A session on a stream, and all that was found.

    Attributes:
        name: precision and mode.
        figures: by figure, [chunks, tensors].
        tensors: names of what is compared, in the contract's order.
        latency_ms: by part, [chunks].
        heads: by head, rows that agree, rows with a clear answer, and all rows.
        last: outputs of the last chunk.
        compared: by tensor, entries that were compared.
        reshaped: by tensor whose shape was not the reference's, the first chunk of it and what the shapes were.
        paired: whether it was compared with the closed loop of the same session's kind.
        unequal_chunk: the first one in which the two were not equal bit for bit.
    """

    def __init__(
        self,
        session: Session,
        contract: Contract,
        precision: str,
        mode: str,
        initial: State,
        chunks: int,
        *,
        tie: float = 0.0,
        alter: Alter | None = None,
        name: str = "",
    ) -> None:
        """Take an open session.

        Args:
            session: of the target; with its state on the device in mode "device".
            contract: of the model.
            precision: that the session was asked for.
            mode: "functional", "closed-loop" or "device".
            initial: the state before the first chunk.
            chunks: most chunks of the stream.
            tie: as `stream_compare.agreement` takes it.
            alter: plants a fault.
            name: by default precision and mode.
        """
        self.name, self.precision, self.mode = name or f"{precision} {mode}", precision, mode
        self.session = session
        self._contract, self._initial, self._alter, self._tie = contract, initial, alter, tie
        self._state = initial
        given = {spec.name for spec in session.outputs}
        self.tensors = [name for name in contract.outputs if name in given]
        # filled here and now, so that the memory of the process does not grow with the chunks
        self._figures = {name: np.full((chunks, len(self.tensors)), np.nan) for name in FIGURES}
        self._latency = {part: np.full(chunks, np.nan) for part in PARTS}
        self.heads: dict[str, Any] = {
            name: [0, 0, 0] for name in contract.outputs if contract.outputs[name].head and name in given
        }
        self.compared: dict[str, Any] = dict.fromkeys(self.tensors, 0)
        self.reshaped: dict[str, Any] = {}
        self._states = {pair.output for pair in contract.state}
        self.done = 0
        self.last: dict[str, NDArray[Any]] = {}
        self.unequal_chunk: int | None = None
        self.broken: Mapping[str, NDArray[Any]] = {}  # what the first call was fed whose outputs are not finite
        self.paired = False
        if mode == DEVICE:
            session.reset_state()  # type: ignore[attr-defined]

    @property
    def figures(self) -> dict[str, NDArray[Any]]:
        """What was found of the chunks that are done."""
        return {name: array[: self.done] for name, array in self._figures.items()}

    @property
    def latency_ms(self) -> dict[str, NDArray[Any]]:
        """Times of the chunks that are done."""
        return {name: array[: self.done] for name, array in self._latency.items()}

    @property
    def chunk_errors(self) -> NDArray[Any]:
        """The largest relative L2 of each chunk's tensors."""
        found: NDArray[Any] = self.figures["rel_l2"].max(axis=1, initial=0.0)
        return found

    def step(self, feed: Mapping[str, NDArray[Any]], feed_ms: float, reference_state: State) -> None:
        """Run a chunk.

        Args:
            feed: every input except the state.
            feed_ms: what it took to cut them from the stream.
            reference_state: what the reference is fed with.
        """
        state = reference_state if self.mode == FUNCTIONAL else self._state
        begin = time.perf_counter()
        inputs = fitted(feed if self.mode == DEVICE else {**feed, **state}, self.session.inputs)
        fed = time.perf_counter()
        outputs = self.session.run(inputs)
        ran = time.perf_counter()
        if self.mode != DEVICE:
            self._state = self._contract.next_state(outputs)
        if self._alter:
            self._state = self._alter(StateUpdate(self.done, self._state, state, self._initial))
        end = time.perf_counter()
        times = (feed_ms + (fed - begin) * 1e3, (ran - fed) * 1e3, (end - ran) * 1e3)
        for part, value in zip(PARTS, (*times, sum(times)), strict=True):
            self._latency[part][self.done] = value
        self.last = outputs
        if not self.broken and self.mode != DEVICE and not all(is_finite(array).all() for array in outputs.values()):
            self.broken = inputs

    def compare(self, expected: Mapping[str, NDArray[Any]], slices: Mapping[str, tuple[slice, ...]]) -> ChunkRecord:
        """Compare the chunk that was run with the reference's outputs."""
        found: dict[str, TensorRecord] = {}
        for column, name in enumerate(self.tensors):
            one, all_finite = self._difference(name, expected[name], slices[name])
            own = one.max_abs, one.rel_l2, one.likeness, one.equal, all_finite, one.changed
            for figure, value in zip(FIGURES, own, strict=True):
                self._figures[figure][self.done, column] = value
            found[name] = TensorRecord(
                abs_max=finite(one.max_abs),
                rel_l2=finite(one.rel_l2),
                cosine=one.likeness,
                equal=one.equal,
                finite=all_finite,
            )
        record = ChunkRecord(
            lane=self.name,
            chunk=self.done,
            tensors=found,
            latency_ms={part: round(float(self._latency[part][self.done]), 6) for part in PARTS},
        )
        self.done += 1
        return record

    def _difference(self, name: str, expected: NDArray[Any], where: tuple[slice, ...]) -> tuple[Difference, bool]:
        """Compare the part of a tensor that counts, and a head's answers; with whether reported values are finite."""
        array = self.last[name]
        if array.shape != expected.shape:
            self.reshaped.setdefault(name, (self.done, f"{list(array.shape)}, the reference's {list(expected.shape)}"))
            return difference(array, expected), bool(is_finite(array).all())
        part, other = array[where], expected[where]
        self.compared[name] += part.size
        if name in self.heads:
            counts = agreement(part, other, self._tie)
            self.heads[name] = [sum(pair) for pair in zip(self.heads[name], counts, strict=True)]
        # NaN in the invalid part of a state, times zero, is NaN in the next chunk
        return difference(part, other), bool(is_finite(array if name in self._states else part).all())

    def kept(self) -> dict[str, NDArray[Any]]:
        """Return the state, and all that was found so far, as arrays by name; `take` goes on from them."""
        named = ((part, name, one) for part in _TAKEN for name, one in getattr(self, part).items())
        return {"done": np.asarray(self.done), **{f"{part}/{name}": np.asarray(one) for part, name, one in named}}

    def take(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `kept` returned of another lane of this kind, whose state is not on a device."""
        for part in _TAKEN:
            setattr(self, part, named_below(arrays, f"{part}/"))
        self.done = int(arrays["done"])

    def check_equal(self, closed: Lane) -> None:
        """Compare the chunk that both have just run with the one through the host."""
        self.paired = True
        same = all(equal(array, closed.last[name]) for name, array in self.last.items())
        if not same and self.unequal_chunk is None:
            self.unequal_chunk = self.done - 1
