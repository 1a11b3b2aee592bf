"""Types of the stream pool: many sequences over one engine, their state on the device."""

from collections.abc import Mapping, Sequence
from typing import Self, Unpack

from ._options import _StreamPoolOptions
from ._runner import Engine, HostArray

class StreamState:
    """A state tensor: an output of the engine that a stream's next chunk reads as an input.

    Attributes:
        input: name of the engine's input.
        output: name of the output that becomes it.
        input_axis: batch axis of the input.
        output_axis: batch axis of the output; the other dimensions are those of the input, in the same order.
        initial: what a stream starts from, of the input's shape with extent 1 on its batch axis; None: zeros.
    """

    input: str
    output: str
    input_axis: int
    output_axis: int
    initial: HostArray | None
    def __init__(
        self,
        input: str,
        output: str,
        *,
        input_axis: int = 0,
        output_axis: int = 0,
        initial: HostArray | None = None,
    ) -> None: ...

class StreamPool:
    """Runs streams that come and go in batches over one engine.

    Every stream has a row in one arena per state tensor on the device. A push gathers the rows of its streams, runs
    the engine and scatters the new state back, as one CUDA graph for each combination of shapes; copies go along in the
    same stream. Rows of a batch that no stream needs read a spare row with the initial state, and what comes of them is
    dropped. Each profile has a context of its own, and so has each graph.

    One thread at a time: a second one that calls meanwhile is refused. The GIL is free while the device works. Absent
    from a core that was built without CUDA kernels.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        state: Sequence[StreamState],
        batch_axes: Mapping[str, int],
        device: int = -1,
        **options: Unpack[_StreamPoolOptions],
    ) -> None:
        """Allocate the arenas.

        Args:
            engine: outputs whose shape depends on the data are refused by the push.
            state: the state tensors; every other dimension than the batch has one size, which the engine or `initial`
                sets.
            batch_axes: batch axis of each other input and output that has a row a stream; what it says of state is not
                looked at. An input without one is the same for all streams of a push; an output without one is returned
                as the last run of the push gave it.
            device: the engine's CUDA device, or -1.

        Raises:
            UsageProblem: the state or the options do not fit the engine.
            DeviceFailure: the device's memory does not suffice.
        """
    @property
    def buckets(self) -> tuple[int, ...]:
        """The batch sizes that are run, of all profiles together, ascending."""
    @property
    def capacity(self) -> int: ...
    def open(self) -> int:
        """Open a stream in its initial state. Raises UsageProblem where `capacity` streams are open."""
    def close(self, stream: int) -> None:
        """Close a stream; its number is never used again. Raises UsageProblem where it is not open."""
    def close_all(self) -> None:
        """Close every stream; the pool stays usable."""
    def open_streams(self) -> int:
        """Return how many streams are open."""
    def push(self, streams: Sequence[int], inputs: Mapping[str, HostArray]) -> dict[str, HostArray]:
        """Run one chunk of each stream.

        Args:
            streams: open streams, each once; any number. More than the largest bucket are run in several batches.
            inputs: every input but the state, by name; batched ones with a row a stream in the order of `streams`.

        Returns:
            Every output but the state, by name; batched ones with a row a stream.

        Raises:
            UsageProblem: a stream is not open or named twice, an input is missing, unknown, or of a wrong dtype or
                shape, or no profile allows it. No state has changed.
            DeviceFailure: the device failed or is out of memory; in the latter case no state has changed. After a
                failure between the batches of a push, streams of the earlier ones have moved on.
        """
    def warm_up(self, inputs: Mapping[str, HostArray]) -> None:
        """Run every bucket until its graph is captured, without a stream.

        Warm up the largest chunk first: buffers grow with it, which voids graphs that were captured before.

        Args:
            inputs: as for a push of one stream: its row is repeated.

        Raises:
            UsageProblem: as `push`.
            DeviceFailure: as `push`.
        """
    def save(self, stream: int) -> dict[str, HostArray]:
        """Return a stream's state by the names of the inputs, with extent 1 on the batch axis. Raises UsageProblem."""
    def restore(self, stream: int, state: Mapping[str, HostArray]) -> None:
        """Give an open stream a state that `save` returned.

        Raises:
            UsageProblem: the stream is not open, or a value is missing, unknown, or of a wrong dtype or shape. int64 is
                taken for int32 where the values fit. The state stays as it was.
            DeviceFailure: the device failed.
        """
    def memory_bytes(self) -> dict[str, int]:
        """Return the memory of the pool, without graphs and weights.

        `arena`: the state of all streams and of the spare row. `buffers`: gathered state, inputs and outputs, on the
        device. `contexts`: the scratch memory that all contexts share. `pinned`: page-locked host memory. `per_stream`:
        how much of the arena each stream takes.
        """
    def graph_status(self) -> str:
        """Return one line, such as "on: 2 graphs captured"."""
    def timing(self) -> dict[str, float]:
        """Return the milliseconds of the last push.

        `h2d`, `compute` (gather, engine, scatter) and `d2h` are device time, `total` is host time from the call until
        the outputs are in arrays of their own. Batches of one push are summed.

        Raises:
            UsageProblem: the pool was made without `timing`, or nothing was pushed yet.
        """
    def release(self) -> None:
        """Close every stream and give all memory back, once a push of another thread has ended; safe to call twice.

        The pool cannot be used afterwards. Ctrl-C ends the wait.
        """
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None:
        """Release."""
