"""States of many streams in the host's memory, for runtimes that keep none on their device."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.pooling import PooledState
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.contract.feeding import require_kept
from trt_workbench.stream.rows import Arrays, row_of

# Calls of one shape until runtimes have chosen their kernels and grown their memory.
_WARM_UP = 2


class HostPool:
    """A `StatePool` over any session: rows are joined for a call and split after it."""

    def __init__(
        self,
        session: Session,
        state: Sequence[PooledState],
        batch_axes: Mapping[str, int],
        capacity: int,
        buckets: Sequence[int],
    ) -> None:
        """Take an open session; arguments as `PoolingSession.stream_pool` has them."""
        self._session, self._pairs, self._axes = session, tuple(state), dict(batch_axes)
        self._capacity, self._buckets = capacity, sorted(buckets)
        self._states: dict[int, Arrays] = {}
        self._numbers = count()
        self._initial = {pair.input: pair.initial for pair in state}
        self._timing: dict[str, float] = {}

    def open(self) -> int:
        """Return the number of a new stream."""
        if len(self._states) >= self._capacity:
            raise UsageProblem(
                f"The pool has room for {counted(self._capacity, 'stream')}, and all are open; close one."
            )
        number = next(self._numbers)
        self._states[number] = dict(self._initial)
        return number

    def push(self, streams: Sequence[int], inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        """Run one chunk of each of the streams."""
        if len(set(streams)) < len(streams) or not all(stream in self._states for stream in streams):
            raise UsageProblem("A push must name open streams, each once.")
        self._timing = dict.fromkeys(("inference", "state"), 0.0)
        parts, states = [], dict[int, Arrays]()
        most = self._buckets[-1]
        for first in range(0, len(streams), most):
            rows = range(first, min(first + most, len(streams)))
            parts.append(self._run([streams[row] for row in rows], self._rows(inputs, rows), states))
        # only now: a call that fails leaves every stream unchanged
        self._states.update(states)
        if len(parts) == 1:
            return parts[0]
        axes = {name: self._axes.get(name) for name in parts[0]}
        return {
            name: one if (axis := axes[name]) is None else np.concatenate([part[name] for part in parts], axis)
            for name, one in parts[0].items()
        }

    def warm_up(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Run every number of rows a few times."""
        for size in self._buckets:
            rows = {name: _joined([array] * size, self._axes.get(name)) for name, array in inputs.items()}
            rows |= {pair.input: _joined([pair.initial] * size, pair.axis) for pair in self._pairs}
            for _ in range(_WARM_UP):
                self._session.run(rows)

    def save(self, stream: int) -> Arrays:
        """Return a copy of a stream's state."""
        return {name: array.copy() for name, array in self._held(stream).items()}

    def restore(self, stream: int, state: Mapping[str, NDArray[Any]]) -> None:
        """Give a stream a state."""
        held = self._held(stream)
        for name, array in held.items():
            given = state.get(name)
            if given is None or given.shape != array.shape or given.dtype != array.dtype:
                raise UsageProblem(f"State {name} is {array.dtype} {list(array.shape)}; the given value does not fit.")
        self._states[stream] = {name: state[name].copy() for name in held}

    def close(self, stream: int) -> None:
        """Release a stream."""
        self._held(stream)
        del self._states[stream]

    def memory_bytes(self) -> dict[str, int]:
        """Return the bytes of a stream's state."""
        return {"per_stream": sum(array.nbytes for array in self._initial.values())}

    def graph_status(self) -> str:
        """Return nothing: only the session knows of graphs."""
        return ""

    def timing(self) -> dict[str, float]:
        """Return `inference` and `state` (joining and splitting) of the last push, milliseconds."""
        return dict(self._timing)

    def release(self) -> None:
        """Release all streams."""
        self._states.clear()

    def _held(self, stream: int) -> Arrays:
        if stream not in self._states:
            raise UsageProblem("The stream is not open.")
        return self._states[stream]

    def _rows(self, inputs: Mapping[str, NDArray[Any]], rows: range) -> Arrays:
        part = slice(rows.start, rows.stop)
        return {
            name: array if (axis := self._axes.get(name)) is None else array[(slice(None),) * axis + (part,)]
            for name, array in inputs.items()
        }

    def _run(self, streams: Sequence[int], inputs: Arrays, states: dict[int, Arrays]) -> Arrays:
        """Run streams that fit into one call; their next states go into `states`."""
        spare = next(bucket for bucket in self._buckets if bucket >= len(streams)) - len(streams)
        begin = time.perf_counter()
        held = [self._states[stream] for stream in streams]
        held += held[:1] * spare  # unused rows repeat the first
        joined = {name: _padded(array, self._axes.get(name), spare) for name, array in inputs.items()}
        for pair in self._pairs:
            joined[pair.input] = _joined([one[pair.input] for one in held], pair.axis)
        fed = time.perf_counter()
        outputs = self._session.run(joined)
        ran = time.perf_counter()
        require_kept(joined, {pair.input: outputs[pair.output] for pair in self._pairs})
        for row, stream in enumerate(streams):
            # copies: a view would keep the arrays of the whole batch alive
            states[stream] = {pair.input: row_of(outputs[pair.output], pair.axis, row).copy() for pair in self._pairs}
        for pair in self._pairs:
            del outputs[pair.output]
        found = self._rows(outputs, range(len(streams))) if spare else outputs
        end = time.perf_counter()
        self._timing["inference"] += (ran - fed) * 1e3
        self._timing["state"] += (fed - begin + end - ran) * 1e3
        return found


def _joined(arrays: Sequence[NDArray[Any]], axis: int | None) -> NDArray[Any]:
    return arrays[0] if axis is None or len(arrays) == 1 else np.concatenate(arrays, axis)


def _padded(array: NDArray[Any], axis: int | None, spare: int) -> NDArray[Any]:
    return array if axis is None or not spare else _joined([array, *[row_of(array, axis, 0)] * spare], axis)
