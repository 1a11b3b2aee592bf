"""The scenario of a streaming model: one chunk of several streams at once, each with its own state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.measure.inputs import limited, random_inputs
from trt_workbench.backends.measure.loop import measure_calls
from trt_workbench.backends.measuring import Samples, SamplingLimits
from trt_workbench.bench.matrix import Work
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.profiles import Profile
from trt_workbench.stream import Contract, Pieces, PooledStream, SavedStream, StreamPool, SymbolProfile, read_contract

# Different chunks that streams take turns in.
_PIECES = 16
# After so many, caches of the models in use are filled.
_COMPARED = 12
# Of a stream that its caller counts, after which it goes back to its second chunk: a model's table of positions ends.
_LONGEST = 128


class StreamWork:
    """A chunk of random features, or tokens, of `batch` streams a call, their states going on from call to call.

    Items are chunks. The first chunk of every stream is run beforehand.
    """

    def __init__(self, session: Session, model: Path, contract: Path, work: Work, seed: int) -> None:
        """Open the streams.

        Args:
            session: of the model.
            model: its file.
            contract: its file.
            work: says how many streams there are.
            seed: of the features.

        Raises:
            UsageProblem: contract and model do not fit one another, or so many streams do not fit into one call.
        """
        self.items, self._contract = work.batch, read_contract(contract)
        # lengths and caches have meanings that random inputs of these shapes would not have
        self.shapes: Mapping[str, Sequence[int]] | None = None
        size = work.dims.get("chunk")
        self._pool = StreamPool(
            session, self._contract, folder=contract.parent, capacity=work.batch, size=size, timing=True
        )
        if work.batch > self._pool.buckets[-1]:
            raise UsageProblem(
                f"One call cannot take {counted(work.batch, 'stream')}: the contract's profiles accept at most "
                f"{self._pool.buckets[-1]} of these chunks. {contract}"
            )
        name, declared = self._contract.signal
        hop = np.repeat(self._pool.hop(first=False), _PIECES, declared.time_axis)
        if hop.dtype.kind in "iu":  # tokens
            specs = [spec for spec in session.inputs if spec.name == name]
            signal = random_inputs(limited(specs, model), {name: hop.shape}, seed)[name]
        else:
            signal = np.random.default_rng(seed).standard_normal(hop.shape, np.float32).astype(hop.dtype)
        self._pieces = Pieces(self._contract, signal, size, _PIECES)
        self._streams: list[PooledStream] = []
        self._second: list[SavedStream] = []
        self._timings: list[dict[str, float]] = []
        self._restart()

    def once(self) -> None:
        """Run the next chunk of every stream."""
        self._push()
        self._timings.append(self._pool.timing())

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Return what new streams give: outputs of their later chunks [stream, chunk, …], and their states after them.

        So that a state that is lost, late or another stream's shows in what is compared.
        """
        self._restart()
        chunks = [self._push() for _ in range(_COMPARED)]
        states = [stream.save().state for stream in self._streams]
        found = {
            name: np.stack([np.stack([chunk[row][name] for chunk in chunks]) for row in range(self.items)])
            for name in chunks[0][0]
        }
        return found | {name: np.stack([state[name] for state in states]) for name in states[0]}

    def measure(self, limits: SamplingLimits) -> Samples:
        """Time calls, and the parts that the pool distinguishes."""
        self._timings.clear()
        samples = measure_calls(self.once, limits)
        counted = self._timings[-len(samples.latency_ms) :]
        split = {part: np.array([one[part] for one in counted]) for part in counted[0]}
        return Samples(samples.latency_ms, samples.wall_s, split)

    def _push(self) -> list[dict[str, NDArray[Any]]]:
        if self._second and self._streams[0].chunks >= _LONGEST:
            for stream, saved in zip(self._streams, self._second, strict=True):
                stream.restore(saved)
        chunks = [self._pieces(row, stream.chunks) for row, stream in enumerate(self._streams)]
        return self._pool.push(self._streams, chunks)

    def _restart(self) -> None:
        """Restart all streams, and run their first chunk."""
        for stream in self._streams:
            stream.close()
        self._streams, self._second = [self._pool.open() for _ in range(self.items)], []
        self._push()
        if self._contract.computed:
            self._second = [stream.save() for stream in self._streams]


def stream_profile(contract: Contract, work: Work, ranges: Mapping[str, Sequence[int]]) -> Profile:
    """Return the shapes that an engine is built for: both kinds of chunks of so many streams.

    Args:
        contract: of the model.
        work: the point's.
        ranges: least and largest `batch` and `chunk` of a sweep that the engine has to take; the point's own else.
    """
    own = work.dims.get("chunk")
    sizes = [own, own] if own else [contract.chunking.first.size, contract.chunking.later.size]
    low, high = ranges.get("chunk", (min(sizes), max(sizes)))
    least, most = ranges.get("batch", (work.batch, work.batch))
    symbols = dict(contract.profiles[0].symbols) | {contract.time_symbol: (low, sizes[1], high)}
    if contract.batch_symbol:
        symbols[contract.batch_symbol] = (least, work.batch, most)
    return contract.engine_profile(SymbolProfile(name="bench", symbols=symbols))
