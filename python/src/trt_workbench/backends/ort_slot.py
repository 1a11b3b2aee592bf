"""The buffers of one run of ONNX Runtime: inputs and outputs on a device, staged through page-locked host memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from trt_workbench.backends.base import TensorSpec, closed
from trt_workbench.backends.ort_shapes import OutputShapes, Shapes
from trt_workbench.backends.ort_state import SessionState

if TYPE_CHECKING:
    import onnxruntime as ort
    from numpy.typing import NDArray

# Sets of buffers (and captured graphs) kept by each slot, one per combination of input shapes, and their size in all.
_KEPT_SHAPES = 8
_KEPT_BYTES = 1 << 30
# An output above this, such as the logits of a whole text, is allocated by ONNX Runtime for each run: to copy it out of
# page-locked memory would take longer than that gives. One that is lent is not copied.
_LARGEST_PINNED = 64 << 20


class HostMemory(Protocol):
    """Where host arrays come from."""

    kind: str

    def array(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """Return an array whose contents are undefined."""


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
        graph: id of the CUDA graph.
        runs: how many there were, at most 2.
    """

    binding: Any
    staging: dict[str, tuple[NDArray[Any], Any]]
    host_outputs: dict[str, NDArray[Any]]
    fresh_outputs: list[str]
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
        self._buffers: OrderedDict[Shapes, _Buffers] = OrderedDict()

    def run(self, inputs: dict[str, NDArray[Any]], *, copy: bool) -> dict[str, NDArray[Any]]:
        """Execute the model once.

        Args:
            inputs: checked, in the session's order.
            copy: return the caller's own arrays; else what the next run may overwrite.

        Raises:
            UsageProblem: the slot is released.
        """
        session, binding, state = self._session, self._binding, self._state
        if session is None or binding is None or state is None:
            raise closed()
        buffers = self._buffers_for(tuple(array.shape for array in inputs.values()))
        for name in buffers.fresh_outputs:
            buffers.binding.bind_output(name, "cpu")  # forgets the last run's, which has that run's shape
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
        state.advance()
        found = self._collect(buffers, copy=copy)
        if buffers.runs < 2:
            buffers.runs += 1
            # not the first: a text that grows by a token has other shapes each time, and memory would be locked in vain
            if buffers.runs == 2:
                self._settle(buffers, found, lent=not copy)
        return found

    def release(self) -> None:
        """Give the buffers back; a later run raises."""
        self._buffers.clear()
        self._session = None

    def _collect(self, buffers: _Buffers, *, copy: bool) -> dict[str, NDArray[Any]]:
        # in the order in which they were first bound, state last
        values = buffers.binding.get_outputs()[: len(self._outputs)]
        found = {}
        for spec, value in zip(self._outputs, values, strict=True):
            host = buffers.host_outputs.get(spec.name)
            found[spec.name] = value.numpy() if host is None else host.copy() if copy else host
        return found

    def _settle(self, buffers: _Buffers, found: Mapping[str, NDArray[Any]], *, lent: bool) -> None:
        """Give a fixed buffer to each output that has the shape of its last run for good and is not too large.

        A declared shape is not trusted: a copy from the device into a buffer of another shape and the same size would
        pass unseen.
        """
        import onnxruntime as ort

        assert self._binding is not None
        assert self._shapes is not None
        largest = _KEPT_BYTES if lent else _LARGEST_PINNED
        for spec in self._outputs:
            shape, size = found[spec.name].shape, found[spec.name].nbytes
            if spec.name not in buffers.fresh_outputs or spec.name in self._shapes.data_shaped or size > largest:
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

    def _buffers_for(self, shapes: Shapes) -> _Buffers:
        if shapes in self._buffers:
            self._buffers.move_to_end(shapes)
            return self._buffers[shapes]
        made = self._buffers[shapes] = self._made(shapes)
        self._forget_oldest()
        return made

    def _forget_oldest(self) -> None:
        while len(self._buffers) > 1 and (
            len(self._buffers) > _KEPT_SHAPES or sum(kept.size_bytes for kept in self._buffers.values()) > _KEPT_BYTES
        ):
            _, oldest = self._buffers.popitem(last=False)
            if self._binding and self._binding.cuda_graph and self._session:
                self._session.release_captured_graph(oldest.graph)

    def _made(self, shapes: Shapes) -> _Buffers:
        import numpy as np
        import onnxruntime as ort

        assert self._session is not None
        assert self._binding is not None
        assert self._shapes is not None
        where = (self._binding.device, self._binding.device_id)
        binding = self._session.io_binding()
        buffers = _Buffers(binding, {}, {}, [], self._next_graph)
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
