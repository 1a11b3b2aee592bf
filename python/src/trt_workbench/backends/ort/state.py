"""State of an ONNX Runtime session: outputs of one run that are inputs of the next and stay where they are read."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import UsageProblem, did_you_mean

if TYPE_CHECKING:
    import onnxruntime as ort


@dataclass(frozen=True)
class StatePair:
    """An output and the input that it feeds.

    Attributes:
        output: its name.
        input: its name.
        shape: of both.
        dtype: of both, numpy's name.
        on_host: whether the model reads the input in host memory.
    """

    output: str
    input: str
    shape: tuple[int, ...]
    dtype: str
    on_host: bool

    @property
    def size_bytes(self) -> int:
        """Memory of the input and the output together."""
        import numpy as np

        return 2 * math.prod(self.shape) * np.dtype(self.dtype).itemsize


class SessionState:
    """Two sets of buffers, of which a run reads one and writes the other; after it they change places."""

    def __init__(self, pairs: Sequence[StatePair], device: str, device_id: int) -> None:
        self._pairs = tuple(pairs)
        self._where = (device, device_id)
        self._reading: list[Any] = []
        self._writing: list[Any] = []
        self._at_start = True

    def bind(self, binding: ort.IOBinding) -> None:
        """Bind state inputs to what the last run wrote, or to zeros, and state outputs to the other set.

        Memory is taken at the first call. An input is to be bound before each run in any case: ONNX Runtime copies one
        that it reads in other memory at this moment and at no other.
        """
        if not self._pairs:
            return
        import numpy as np

        if not self._reading:
            # both or none: where the second set finds no room, the next call starts over
            self._reading, self._writing = self._made(), self._made()
        if self._at_start:
            for pair, value in zip(self._pairs, self._reading, strict=True):
                value.update_inplace(np.zeros(pair.shape, pair.dtype))
            self._at_start = False
        for pair, before, after in zip(self._pairs, self._reading, self._writing, strict=True):
            binding.bind_ortvalue_input(pair.input, before)
            binding.bind_ortvalue_output(pair.output, after)

    def advance(self) -> None:
        """Let the next run read what this one wrote; without this call it reads the same state."""
        self._reading, self._writing = self._writing, self._reading

    def reset(self) -> None:
        """Let the next run read zeros."""
        self._at_start = True

    def memory_bytes(self) -> dict[str, int]:
        """Return what is held on the device and, for inputs that are read there, on the host; empty without state."""
        if not self._pairs:
            return {}
        held = self._pairs if self._reading else ()
        return {
            "device_state": sum(pair.size_bytes for pair in held if not pair.on_host),
            "host_state": sum(pair.size_bytes for pair in held if pair.on_host),
        }

    def release(self) -> None:
        """Give the memory back."""
        self._reading, self._writing = [], []

    def _made(self) -> list[Any]:
        import numpy as np
        import onnxruntime as ort

        return [
            ort.OrtValue.ortvalue_from_shape_and_type(
                pair.shape, np.dtype(pair.dtype), *(("cpu", 0) if pair.on_host else self._where)
            )
            for pair in self._pairs
        ]


def state_pairs(
    session: ort.InferenceSession,
    state: Mapping[str, str],
    specs: Iterable[TensorSpec],
    on_host: Collection[str],
    data_shaped: Collection[str],
    model: Path,
) -> tuple[StatePair, ...]:
    """Return the pairs that `state` names.

    Args:
        session: with the inputs and outputs.
        state: output name to input name.
        specs: of the session's inputs.
        on_host: inputs that are read in host memory.
        data_shaped: outputs whose shape depends on the data.
        model: the file, for messages.

    Raises:
        UsageProblem: a name is unknown, an input is fed twice, a shape is not fixed, an output is an input itself or
            does not have the type and shape of the one that it feeds.
    """
    outputs = {node.name: node for node in session.get_outputs()}
    inputs = {node.name: node for node in session.get_inputs()}
    dtypes = {spec.name: spec.dtype for spec in specs}
    pairs: dict[str, StatePair] = {}
    for output, fed in state.items():
        _check_known("output", output, outputs, model)
        _check_known("input", fed, inputs, model)
        if output in inputs:
            # ONNX Runtime hands the input itself out and writes nothing into what is bound
            raise UsageProblem(
                f"The output {output!r} has the same name as an input, so no run writes it as state: {model}"
            )
        if fed in pairs:
            raise UsageProblem(
                f"State feeds the input {fed!r} from two outputs, {pairs[fed].output!r} and {output!r}: {model}"
            )
        after, before = outputs[output], inputs[fed]
        _check_fixed("input", before, model)
        _check_fixed("output", after, model)
        if output in data_shaped:
            raise UsageProblem(
                f"The shape of the output {output!r} depends on the data, so it cannot be kept as state: {model}"
            )
        if (after.type, after.shape) != (before.type, before.shape):
            raise UsageProblem(
                f"The state output {output!r} ({after.type} {after.shape}) cannot feed the input {fed!r} "
                f"({before.type} {before.shape}): types and shapes must be equal. File: {model}"
            )
        pairs[fed] = StatePair(output, fed, tuple(before.shape), dtypes[fed], fed in on_host)
    return tuple(pairs.values())


def _check_known(kind: str, name: str, known: Collection[str], model: Path) -> None:
    if name not in known:
        near = did_you_mean(name, known)
        raise UsageProblem(f"State names the {kind} {name!r}, which the model does not have; {near} File: {model}")


def _check_fixed(kind: str, node: ort.NodeArg, model: Path) -> None:
    for axis, dim in enumerate(node.shape):
        if not (isinstance(dim, int) and dim >= 0):
            name = f"{dim!r}, " if dim else ""
            raise UsageProblem(
                f"State needs fixed shapes, but dimension {axis} ({name}of the {kind} {node.name!r}) is dynamic; "
                f"export the model with a fixed size for it: {model}"
            )
