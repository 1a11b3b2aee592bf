# ruff: noqa: ARG002 - it takes what the real core takes
"""The double's stream pool: NumPy holds the state, ONNX Runtime executes the batches."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from . import Engine, UsageProblem, _require_native_order, _spoiled


class StreamState:
    def __init__(
        self, input: str, output: str, *, input_axis: int = 0, output_axis: int = 0, initial: Any = None
    ) -> None:
        self.input, self.output, self.initial = input, output, initial
        self.input_axis, self.output_axis = input_axis, output_axis


class StreamPool:
    def __init__(
        self,
        engine: Engine,
        *,
        state: Sequence[StreamState],
        batch_axes: Mapping[str, int],
        capacity: int = 256,
        buckets: Sequence[int] = (1, 2, 4, 8),
        cuda_graphs: bool = True,
        timing: bool = False,
        spin: bool = True,
        graph_cache: int = 64,
        device: int = -1,
    ) -> None:
        self._engine, self._pairs, self._axes = engine, list(state), dict(batch_axes)
        self.capacity, self._wanted, self._graphs, self._timing = capacity, sorted(set(buckets)), cuda_graphs, timing
        self._inputs = {tensor.name: tensor for tensor in engine.inputs}
        self._check(device)
        self._initial = {pair.input: self._first_value(pair) for pair in self._pairs}
        self._states: dict[int, dict[str, Any]] = {}
        self._opened = 0
        self._times: dict[str, float] | None = None
        self._released = False

    def _check(self, device: int) -> None:
        outputs = {tensor.name: tensor for tensor in self._engine.outputs}
        if device not in (-1, 0):
            raise UsageProblem(f"The engine is on GPU 0, not on GPU {device}.")
        if self.capacity < 1 or not self._wanted or self._wanted[0] < 1:
            raise UsageProblem("A pool has at least one stream, and buckets of at least one row.")
        for pair in self._pairs:
            if pair.input not in self._inputs or pair.output not in outputs:
                raise UsageProblem(f"State names '{pair.input}' or '{pair.output}', which the engine does not have.")
            if self._inputs[pair.input].dtype != outputs[pair.output].dtype:
                raise UsageProblem(f"Output '{pair.output}' cannot feed input '{pair.input}': the dtypes differ.")
        axes = self._axes | {pair.input: pair.input_axis for pair in self._pairs}
        for name, axis in (axes | {pair.output: pair.output_axis for pair in self._pairs}).items():
            tensor = self._inputs.get(name) or outputs.get(name)
            if tensor is None:
                raise UsageProblem(f"The engine has no input or output '{name}'.")
            if not 0 <= axis < len(tensor.shape):
                raise UsageProblem(f"'{name}' has no axis {axis}.")
        self._input_axes = {name: axis for name, axis in axes.items() if name in self._inputs}

    def _first_value(self, pair: StreamState) -> Any:
        tensor = self._inputs[pair.input]
        shape = list(tensor.shape)
        shape[pair.input_axis] = 1
        if pair.initial is not None:
            return self._state_value(pair, np.asarray(pair.initial))
        for axis, size in enumerate(shape):
            sizes = {dims[axis] for profile in tensor.profiles for dims in profile}
            if size < 0 and len(sizes) != 1:
                raise UsageProblem(f"Dimension {axis} of state '{pair.input}' is open: give an initial value.")
            shape[axis] = sizes.pop() if size < 0 else size
        return np.zeros(shape, tensor.dtype)

    def _state_value(self, pair: StreamState, value: Any) -> Any:
        _require_native_order(value, f"State '{pair.input}'")
        tensor = self._inputs[pair.input]
        known = [*tensor.shape]
        known[pair.input_axis] = 1
        fits = len(known) == value.ndim and all(a in (-1, b) for a, b in zip(known, value.shape, strict=True))
        if not fits or (hasattr(self, "_initial") and value.shape != self._initial[pair.input].shape):
            raise UsageProblem(f"State '{pair.input}' has the shape {list(value.shape)}, not {known}.")
        if value.dtype != tensor.dtype and (str(value.dtype), tensor.dtype) != ("int64", "int32"):
            raise UsageProblem(f"Input '{pair.input}' has dtype {value.dtype}; the engine takes {tensor.dtype}.")
        return value.astype(tensor.dtype)

    @property
    def buckets(self) -> tuple[int, ...]:
        return tuple(sorted({bucket for low, high in self._batch_ranges() for bucket in self._clipped(low, high)}))

    def _clipped(self, low: int, high: int) -> set[int]:
        return {min(max(bucket, low), high) for bucket in self._wanted}

    def _batch_ranges(self, shapes: Mapping[str, Sequence[int]] | None = None) -> list[tuple[int, int]]:
        """Smallest and largest batch of every profile, of those alone that allow the shapes, where there are some."""
        found = []
        for profile in range(max([len(tensor.profiles) for tensor in self._inputs.values()], default=0) or 1):
            low, high, allowed = 1, 65535, True
            for name, tensor in self._inputs.items():
                least, _, most = tensor.profiles[profile] if tensor.profiles else (tensor.shape,) * 3
                axis = self._input_axes.get(name)
                if axis is not None and least[axis] >= 0:
                    low, high = max(low, least[axis]), min(high, most[axis])
                for other, size in enumerate(shapes[name]) if shapes else ():
                    allowed &= other == axis or least[other] < 0 or least[other] <= size <= most[other]
            if allowed and low <= high:
                found.append((low, high))
        return found

    def open(self) -> int:
        self._check_usable()
        if len(self._states) >= self.capacity:
            raise UsageProblem(f"The pool holds {self.capacity} streams, and all are open. Close one first.")
        self._opened += 1
        self._states[self._opened] = {name: value.copy() for name, value in self._initial.items()}
        return self._opened

    def close(self, stream: int) -> None:
        self._state(stream)
        del self._states[stream]

    def close_all(self) -> None:
        self._check_usable()
        self._states.clear()

    def open_streams(self) -> int:
        return len(self._states)

    def _check_usable(self) -> None:
        if self._released:
            raise UsageProblem("The pool was released; make a new one.")

    def _state(self, stream: int) -> dict[str, Any]:
        self._check_usable()
        if stream not in self._states:
            raise UsageProblem(f"Stream {stream} is not open.")
        return self._states[stream]

    def push(self, streams: Sequence[int], inputs: Mapping[str, Any]) -> dict[str, Any]:
        begin = time.perf_counter()
        states = [self._state(stream) for stream in streams]
        if len(set(streams)) != len(streams):
            raise UsageProblem("A stream is named twice.")
        usable = self._plan(len(states), inputs)
        results: list[dict[str, Any]] = []
        updates: list[dict[str, Any]] = []
        for first in range(0, len(states), usable[-1]):
            part = states[first : first + usable[-1]]
            bucket = next(size for size in usable if size >= len(part))
            given = {name: self._rows(name, inputs[name], first, len(part), bucket) for name in inputs}
            found, news = self._execute(part, given, bucket)
            results.append(found)
            updates += news
        for stream, update in zip(streams, updates, strict=True):
            self._states[stream] = update
        total = 1e3 * (time.perf_counter() - begin)
        self._times = {"h2d": 0.1, "compute": 1.0, "d2h": 0.1, "total": total}
        return {
            name: np.concatenate([found[name] for found in results], self._axes[name])
            if name in self._axes
            else results[-1][name]
            for name in results[0]
        }

    def _plan(self, count: int, inputs: Mapping[str, Any]) -> list[int]:
        """Check a push; return the buckets that the profiles allow for its shapes, ascending."""
        if not count:
            raise UsageProblem("A push must name at least one stream.")
        wanted = self._inputs.keys() - self._initial.keys()
        if inputs.keys() != wanted:
            raise UsageProblem(f"The push has the inputs {sorted(inputs)}; the engine takes {sorted(wanted)}.")
        for name, value in inputs.items():
            _require_native_order(value, f"Input '{name}'")
            if value.dtype != self._inputs[name].dtype or value.ndim != len(self._inputs[name].shape):
                raise UsageProblem(f"Input '{name}' has a wrong dtype ({value.dtype}) or number of dimensions.")
            if name in self._axes and value.shape[self._axes[name]] != count:
                raise UsageProblem(f"Input '{name}' has the shape {list(value.shape)} for {count} streams.")
        shapes = {name: value.shape for name, value in (self._initial | dict(inputs)).items()}
        ranges = self._batch_ranges(shapes)
        if not ranges:
            raise UsageProblem(f"No profile of the engine allows these shapes: {shapes}.")
        return sorted({bucket for low, high in ranges for bucket in self._clipped(low, high)})

    def _rows(self, name: str, value: Any, first: int, count: int, bucket: int) -> Any:
        if name not in self._axes:
            return value
        places = np.minimum(np.arange(bucket), count - 1) + first
        return np.take(value, places, self._axes[name])

    def _execute(self, states: list[Any], given: dict[str, Any], bucket: int) -> tuple[dict[str, Any], list[Any]]:
        rows = [*states, *[self._initial] * (bucket - len(states))]
        for pair in self._pairs:
            given[pair.input] = np.concatenate([row[pair.input] for row in rows], pair.input_axis)
        names = [tensor.name for tensor in self._engine.outputs]
        try:
            computed = self._engine.session.run(names, given)
        except Exception as error:
            raise UsageProblem(f"TensorRT refuses these shapes ({error}).") from error
        found = dict(zip(names, map(_spoiled, computed), strict=True))
        news: list[dict[str, Any]] = [{} for _ in states]
        for pair in self._pairs:
            value = np.moveaxis(found.pop(pair.output), pair.output_axis, pair.input_axis)
            for place, new in enumerate(news):
                new[pair.input] = np.take(value, [place], pair.input_axis)
                if new[pair.input].shape != self._initial[pair.input].shape:
                    raise UsageProblem(f"Output '{pair.output}' has another shape than the state that it becomes.")
        for name in found.keys() & self._axes.keys():
            found[name] = np.take(found[name], range(len(states)), self._axes[name])
        return found, news

    def warm_up(self, inputs: Mapping[str, Any]) -> None:
        self._check_usable()
        for bucket in self._plan(1, inputs):
            self._execute([], {name: self._rows(name, value, 0, 1, bucket) for name, value in inputs.items()}, bucket)

    def save(self, stream: int) -> dict[str, Any]:
        return {name: value.copy() for name, value in self._state(stream).items()}

    def restore(self, stream: int, state: Mapping[str, Any]) -> None:
        self._state(stream)
        if state.keys() != self._initial.keys():
            raise UsageProblem(f"A stream's state has the values {sorted(self._initial)}, not {sorted(state)}.")
        self._states[stream] = {
            pair.input: self._state_value(pair, np.asarray(state[pair.input])) for pair in self._pairs
        }

    def memory_bytes(self) -> dict[str, int]:
        each = sum(value.nbytes for value in self._initial.values())
        parts = {"arena": each * (self.capacity + 1), "buffers": 64, "contexts": 1024, "pinned": 64}
        return parts | {"per_stream": each}

    def graph_status(self) -> str:
        return "on: 1 graph captured" if self._graphs else "off: switched off"

    def timing(self) -> dict[str, float]:
        if not self._timing or self._times is None:
            raise UsageProblem("The pool was created without timing, or nothing was pushed yet.")
        return dict(self._times)

    def release(self) -> None:
        self._states.clear()
        self._released = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
