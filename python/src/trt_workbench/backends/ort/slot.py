"""The buffers of one run of ONNX Runtime: inputs and outputs on a device, staged through page-locked host memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from trt_workbench.backends.base import TensorSpec, check_index, closed
from trt_workbench.backends.ort.common import method
from trt_workbench.backends.ort.shapes import OutputShapes, Shapes
from trt_workbench.backends.ort.state import SessionState

if TYPE_CHECKING:
    import onnxruntime as ort
    from numpy.typing import NDArray

# Sets of buffers (and captured graphs) kept by each slot, one per combination of input shapes, and their size in all.
_KEPT_SHAPES = 8
_KEPT_BYTES = 1 << 30
# An output above this, such as the logits of a whole text, is allocated by ONNX Runtime for each run: to copy it out of
# page-locked memory would take longer than that gives.
_LARGEST_PINNED = 64 << 20


class HostMemory(Protocol):
    """Where host arrays come from."""

    kind: str

    def array(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """Return an array whose contents are undefined."""

    def fetch_at(self, value: ort.OrtValue, dtype: str, index: int) -> NDArray[Any]:
        """Return a copy of an existing index of the second dimension of a tensor on the device."""


@dataclass(frozen=True)
class Binding:
    """Where a session's tensors live.

    Attributes:
        device: ONNX Runtime's device type, "cuda" or "cpu".
        device_id: index of the device.
        host: memory that copies to and from the device go through.
        cuda_graph: capture one CUDA graph per combination of input shapes; needs fixed addresses on the device.
        state: output name to input name, for tensors that stay on the device between runs; needs one run at a time and
            no CUDA graph.
    """

    device: str
    device_id: int
    host: HostMemory
    cuda_graph: bool = False
    state: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Buffers:
    """Tensors for one combination of input shapes, and the binding that refers to them.

    Attributes:
        binding: ONNX Runtime's.
        staging: host array and bound value of each input; one memory for an input that is read on the host.
        host_outputs: fixed buffers of outputs.
        fresh_outputs: outputs that ONNX Runtime allocates in each run.
        fresh_on: type and index of the device where it does.
        graph: id of the CUDA graph.
        runs: how many there were, at most 2.
    """

    binding: Any
    staging: dict[str, tuple[NDArray[Any], Any]]
    host_outputs: dict[str, NDArray[Any]]
    fresh_outputs: list[str]
    fresh_on: tuple[str, int]
    graph: int
    runs: int = 0

    @property
    def size_bytes(self) -> int:
        """Host memory held."""
        return sum(host.nbytes for host, _ in self.staging.values()) + sum(
            host.nbytes for host in self.host_outputs.values()
        )


class Slot:
    """The buffers of one run in flight."""

    def __init__(
        self,
        session: ort.InferenceSession | None,
        binding: Binding | None,
        inputs: tuple[TensorSpec, ...] = (),
        outputs: tuple[TensorSpec, ...] = (),
        shapes: OutputShapes | None = None,
        on_host: Collection[str] = (),
        state: SessionState | None = None,
        first_graph: int = 0,
    ) -> None:
        self._session, self._binding, self._shapes = session, binding, shapes
        self._on_host, self._state = on_host, state
        self._inputs, self._outputs = inputs, outputs
        self._next_graph = first_graph
        self._buffers: OrderedDict[tuple[Shapes, bool], _Buffers] = OrderedDict()

    def run(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Execute the model once and return all outputs.

        Args:
            inputs: checked, in the session's order.

        Raises:
            UsageProblem: the slot is released.
        """
        buffers = self._execute(inputs, on_device=False)
        found = self._collect(buffers)
        self._advance()
        if buffers.runs < 2:
            buffers.runs += 1
            # not the first: a text that grows by a token has other shapes each time, and memory would be locked in vain
            if buffers.runs == 2:
                self._settle(buffers, found)
        return found

    def run_at(self, inputs: dict[str, NDArray[Any]], name: str, index: int) -> NDArray[Any]:
        """Execute the model once; nothing leaves the device but one index of the second dimension of one output.

        Args:
            inputs: checked, in the session's order.
            name: of an output that exists.
            index: may be negative.

        Raises:
            UsageProblem: the slot is released, or the output has no such index.
        """
        buffers = self._execute(inputs, on_device=True)
        assert self._binding is not None
        try:
            position = next(place for place, spec in enumerate(self._outputs) if spec.name == name)
            value = buffers.binding.get_outputs()[position]
            check_index(name, value.shape(), index)
            found = self._binding.host.fetch_at(value, self._outputs[position].dtype, index)
            self._advance()
            return found
        finally:
            if not self._binding.cuda_graph:
                # else each set of buffers would keep an output of this size on the device
                buffers.binding.clear_binding_outputs()

    def release(self) -> None:
        """Give the buffers back; a later run raises."""
        self._buffers.clear()
        self._session = None

    def _execute(self, inputs: dict[str, NDArray[Any]], *, on_device: bool) -> _Buffers:
        session, binding, state = self._session, self._binding, self._state
        if session is None or binding is None or state is None:
            raise closed()
        # with CUDA graphs outputs are on the device in any case, and one graph serves both
        buffers = self._buffers_for(tuple(array.shape for array in inputs.values()), on_device or binding.cuda_graph)
        for name in buffers.fresh_outputs:
            buffers.binding.bind_output(name, *buffers.fresh_on)  # forgets the last run's, which has that run's shape
        for name, array in inputs.items():
            host, value = buffers.staging[name]
            host[...] = array
            if name not in self._on_host:
                value.update_inplace(host)
            if not binding.cuda_graph:
                # where an input is bound in another memory than its consumer reads, ONNX Runtime copies it at this
                # call and at no other: whatever is written later would not reach the run
                buffers.binding.bind_ortvalue_input(name, value)
        state.bind(buffers.binding)
        buffers.binding.synchronize_inputs()
        session.run_with_iobinding(buffers.binding, self._run_options(buffers.graph))
        buffers.binding.synchronize_outputs()
        return buffers

    def _advance(self) -> None:
        """Let the state go on; after a run whose outputs cannot be returned, it is unchanged."""
        assert self._state is not None
        self._state.advance()

    def _collect(self, buffers: _Buffers) -> dict[str, NDArray[Any]]:
        # in the order in which they were first bound, state last
        values = buffers.binding.get_outputs()[: len(self._outputs)]
        found = {}
        for spec, value in zip(self._outputs, values, strict=True):
            host = buffers.host_outputs.get(spec.name)
            found[spec.name] = value.numpy() if host is None else host.copy()
        return found

    def _settle(self, buffers: _Buffers, found: Mapping[str, NDArray[Any]]) -> None:
        """Give a fixed buffer to each output that has the shape of its last run for good and is not too large.

        A declared shape is not trusted: a copy from the device into a buffer of another shape and the same size would
        pass unseen.
        """
        import onnxruntime as ort

        assert self._binding is not None
        assert self._shapes is not None
        for spec in self._outputs:
            shape, size = found[spec.name].shape, found[spec.name].nbytes
            if (
                spec.name not in buffers.fresh_outputs
                or spec.name in self._shapes.data_shaped
                or size > _LARGEST_PINNED
            ):
                continue
            host = buffers.host_outputs[spec.name] = self._binding.host.array(shape, spec.dtype)
            buffers.binding.bind_ortvalue_output(spec.name, ort.OrtValue.ortvalue_from_numpy(host))
            buffers.fresh_outputs.remove(spec.name)
        self._forget_oldest()

    def _run_options(self, graph: int) -> Any:
        if self._binding is None or not self._binding.cuda_graph:
            return None
        import onnxruntime as ort

        options = ort.RunOptions()
        options.add_run_config_entry("gpu_graph_id", str(graph))
        return options

    def _buffers_for(self, shapes: Shapes, on_device: bool) -> _Buffers:
        key = (shapes, on_device)
        if key in self._buffers:
            self._buffers.move_to_end(key)
            return self._buffers[key]
        made = self._buffers[key] = self._made(shapes, on_device)
        self._forget_oldest()
        return made

    def _forget_oldest(self) -> None:
        while len(self._buffers) > 1 and (
            len(self._buffers) > _KEPT_SHAPES or sum(kept.size_bytes for kept in self._buffers.values()) > _KEPT_BYTES
        ):
            _, oldest = self._buffers.popitem(last=False)
            if self._binding and self._binding.cuda_graph and self._session:
                method(self._session, "release_captured_graph")(oldest.graph)

    def _made(self, shapes: Shapes, on_device: bool) -> _Buffers:
        import numpy as np
        import onnxruntime as ort

        assert self._session is not None
        assert self._binding is not None
        assert self._shapes is not None
        where = (self._binding.device, self._binding.device_id)
        binding = self._session.io_binding()
        buffers = _Buffers(binding, {}, {}, [], where if on_device else ("cpu", 0), self._next_graph)
        self._next_graph += 1
        for spec, shape in zip(self._inputs, shapes, strict=True):
            host = self._binding.host.array(shape, spec.dtype)
            if spec.name in self._on_host:
                value = ort.OrtValue.ortvalue_from_numpy(host)
            else:
                value = ort.OrtValue.ortvalue_from_shape_and_type(shape, np.dtype(spec.dtype), *where)
            binding.bind_ortvalue_input(spec.name, value)
            buffers.staging[spec.name] = (host, value)
        for spec in self._outputs:
            if self._binding.cuda_graph:
                known = self._shapes.resolve(spec.name, shapes)
                device = ort.OrtValue.ortvalue_from_shape_and_type(known, np.dtype(spec.dtype), *where)
                binding.bind_ortvalue_output(spec.name, device)
            else:
                buffers.fresh_outputs.append(spec.name)
        return buffers
