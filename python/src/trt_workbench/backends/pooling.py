"""What a session offers besides `run` if its runtime can keep the states of many streams on its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class PooledState:
    """A pair of tensors that carries a stream's state from one call to the next.

    Attributes:
        input: name of the input.
        output: name of the output that is the next call's input.
        axis: dimension of both along which streams lie; None where one stream is all of them.
        initial: what a stream begins with, in the session's dtype, of extent 1 along `axis`.
    """

    input: str
    output: str
    axis: int | None
    initial: NDArray[Any]


class StatePool(Protocol):
    """States of many streams, and calls for several of them at once. One thread at a time."""

    def open(self) -> int:
        """Return the number of a new stream, whose state is the initial one.

        Raises:
            UsageProblem: as many streams are open as there is room for.
        """

    def push(self, streams: Sequence[int], inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run one chunk of each of the streams, and keep their states.

        Args:
            streams: numbers of open streams, each once.
            inputs: every input but the states, with a row for each of the streams along its batch axis.

        Returns:
            Every output but the states, with as many rows.

        Raises:
            UsageProblem: a stream is not open or named twice, or an array does not fit. No state has changed then.
            DeviceFailure: the device failed.
        """

    def warm_up(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Run every number of rows until the runtime has tuned itself to it; no stream is needed.

        Called for the largest chunks first: what grows with them may void what was tuned before.

        Args:
            inputs: as of a push of one stream.
        """

    def save(self, stream: int) -> dict[str, NDArray[Any]]:
        """Return a copy of a stream's state by the name of its input, of extent 1 along the batch axis."""

    def restore(self, stream: int, state: Mapping[str, NDArray[Any]]) -> None:
        """Give a stream the state that `save` returned, of this stream or another."""

    def close(self, stream: int) -> None:
        """Release a stream. Raises UsageProblem if it is not open."""

    def memory_bytes(self) -> dict[str, int]:
        """Return what the pool holds by purpose, `per_stream`, one stream's states, among it."""

    def graph_status(self) -> str:
        """Return whether CUDA graphs are in use, such as "on: 2 graphs captured"; empty where there are none."""

    def timing(self) -> dict[str, float]:
        """Return the parts of the last push, milliseconds; what they are called depends on the pool."""

    def release(self) -> None:
        """Release all streams and memory; no other calls are allowed afterwards. Safe to call twice."""


@runtime_checkable
class PoolingSession(Protocol):
    """A session that keeps the states of many streams on its device."""

    def most_rows(self, name: str, shape: Sequence[int], axis: int) -> int | None:
        """Return the most rows that a call may have; None where nothing limits them.

        Args:
            name: of an input.
            shape: of it; what it says of `axis` does not count.
            axis: its batch axis.

        Raises:
            UsageProblem: the session does not accept the shape.
        """

    def stream_pool(
        self,
        state: Sequence[PooledState],
        batch_axes: Mapping[str, int],
        capacity: int,
        buckets: Sequence[int],
        *,
        timing: bool,
    ) -> StatePool:
        """Return a pool on the session's device, which has to be closed before the session.

        Args:
            state: every pair; each has an axis.
            batch_axes: of every other input and output that has one.
            capacity: most streams that are open at once.
            buckets: numbers of rows that calls are made with, ascending; fewer streams are run in the next larger one.
            timing: whether `timing` of the pool is wanted.

        Raises:
            UsageProblem: the state does not fit the model.
            DeviceFailure: the device is out of memory or failed.
        """
