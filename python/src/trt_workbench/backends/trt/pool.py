"""States of many streams on the GPU: the core's `StreamPool` for a TensorRT engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.pooling import PooledState
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine import native

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = dict[str, "NDArray[Any]"]


class TrtStreamPool:
    """A `StatePool` of the native core."""

    def __init__(
        self,
        engine: Any,
        state: Sequence[PooledState],
        batch_axes: Mapping[str, int],
        outputs: Sequence[str],
        typed: Callable[[Arrays], Arrays],
        **options: Any,
    ) -> None:
        """Allocate the states.

        Args:
            engine: of the native core.
            state: every pair.
            batch_axes: of every other input and output that has one.
            outputs: that a push returns.
            typed: gives outputs of types that numpy lacks their types.
            options: of the core's class.

        Raises:
            UsageProblem: the state does not fit the engine.
            DeviceFailure: the device is out of memory or failed.
        """
        known = {tensor.name for tensor in engine.tensors}
        self._outputs, self._typed, self._timed, self._pushed = list(outputs), typed, bool(options.get("timing")), False
        pair = native.require("StreamState")
        with native.translated():
            pairs = [
                pair(one.input, one.output, input_axis=one.axis, output_axis=one.axis, initial=one.initial)
                for one in state
            ]
            axes = {name: axis for name, axis in batch_axes.items() if name in known}
            self._pool = native.require("StreamPool")(engine, state=pairs, batch_axes=axes, **options)

    def open(self) -> int:
        """Return the number of a new stream."""
        with native.translated():
            return int(self._pool.open())

    def push(self, streams: Sequence[int], inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        """Run one chunk of each of the streams."""
        with native.translated():
            found = self._pool.push(streams, inputs)
        self._pushed = True
        return self._typed({name: found[name] for name in self._outputs})

    def warm_up(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Run every number of rows until its graph is captured."""
        with native.translated():
            self._pool.warm_up(inputs)

    def save(self, stream: int) -> Arrays:
        """Return a copy of a stream's state."""
        with native.translated():
            return dict(self._pool.save(stream))

    def restore(self, stream: int, state: Mapping[str, NDArray[Any]]) -> None:
        """Give a stream a state."""
        with native.translated():
            self._pool.restore(stream, dict(state))

    def close(self, stream: int) -> None:
        """Release a stream."""
        with native.translated():
            self._pool.close(stream)

    def memory_bytes(self) -> dict[str, int]:
        """Return the bytes of the states, and of the buffers and scratch memory of the calls."""
        return dict(self._pool.memory_bytes())

    def graph_status(self) -> str:
        """Return whether CUDA graphs are in use."""
        return str(self._pool.graph_status())

    def timing(self) -> dict[str, float]:
        """Return `host_to_device`, `compute` and `device_to_host` of the last push, ms; nothing without `timing`."""
        if not (self._timed and self._pushed):
            return {}
        with native.translated():
            found = self._pool.timing()
        return {"host_to_device": found["h2d"], "compute": found["compute"], "device_to_host": found["d2h"]}

    def release(self) -> None:
        """Release all streams and memory."""
        with native.translated():
            self._pool.release()


def most_rows(engine: Any, name: str, shape: Sequence[int], axis: int) -> int | None:
    """Return the most rows of a call, as `PoolingSession.most_rows` does."""
    ranges = next(tensor.profiles for tensor in engine.inputs if tensor.name == name)
    fits = [
        high[axis]
        for low, _, high in ranges
        if all(low[place] <= size <= high[place] for place, size in enumerate(shape) if place != axis)
    ]
    if ranges and not fits:
        raise UsageProblem(f"No profile of the engine accepts {name} with shape {list(shape)}, for any batch.")
    return max(fits, default=None)
