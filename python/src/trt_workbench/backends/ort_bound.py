"""An ONNX Runtime session on a device: bound inputs and outputs, staged through page-locked host memory."""

from __future__ import annotations

import math
import queue
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trt_workbench.backends.base import Session, TensorSpec
from trt_workbench.backends.ort_common import tensor_spec, translated
from trt_workbench.errors import UsageProblem

if TYPE_CHECKING:
    import onnxruntime as ort
    from numpy.typing import NDArray

# Sets of buffers (and captured graphs) kept by each slot, one per combination of input shapes, and their size in all.
_KEPT_SHAPES = 8
_KEPT_BYTES = 1 << 30
# An output above this, such as the logits of a whole text, is allocated by ONNX Runtime for each run: page-locking it
# would take more from the machine than its copy gives.
_LARGEST_PINNED = 64 << 20
Shapes = tuple[tuple[int, ...], ...]


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
    """

    device: str
    device_id: int
    host: HostMemory
    cuda_graph: bool = False


class BoundSession(Session):
    """A model in ONNX Runtime with one set of buffers for each run in flight."""

    def __init__(
        self,
        backend: str,
        session: ort.InferenceSession,
        model: Path,
        binding: Binding,
        concurrency: int,
        provenance: Mapping[str, Any],
    ) -> None:
        """Take over a loaded session.

        Raises:
            UsageProblem: a tensor's type does not exist in numpy or on a device, or CUDA graphs were asked for and the
                shape of an output does not follow from the inputs'.
        """
        self.inputs = tuple(tensor_spec(node, model, backend) for node in session.get_inputs())
        self.outputs = tuple(tensor_spec(node, model, backend) for node in session.get_outputs())
        self.metadata = dict(session.get_modelmeta().custom_metadata_map)
        self.concurrency = concurrency
        self._model = model
        for spec in (*self.inputs, *self.outputs):
            if spec.dtype == "object":
                msg = f"Backend {backend} cannot put the text tensor {spec.name} on a device: {model}"
                raise UsageProblem(msg)
        shapes = OutputShapes(session)
        if binding.cuda_graph and shapes.unknown:
            names = ", ".join(shapes.unknown)
            msg = f"A CUDA graph needs outputs of a known shape, and these depend on the data: {names}. File: {model}"
            raise UsageProblem(msg)
        self.provenance = {
            **provenance,
            "providers": session.get_providers(),
            "host_memory": binding.host.kind,
            "outputs_bound": "device" if binding.cuda_graph else "host",
            "outputs_of_unknown_shape": list(shapes.unknown),
            "cuda_graph": binding.cuda_graph,
        }
        self._slots: queue.LifoQueue[_Slot] = queue.LifoQueue()
        for index in range(concurrency):
            self._slots.put(_Slot(session, binding, self.inputs, self.outputs, shapes, first_graph=index << 16))

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        slot = self._slots.get()
        try:
            return slot.run(inputs)
        except Exception as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
            if problem := translated(error, f"ONNX Runtime cannot run the model with {shapes}", self._model):
                raise problem from error
            raise
        finally:
            self._slots.put(slot)

    def _close(self) -> None:
        for _ in range(self.concurrency):
            self._slots.get().release()
        # whoever still waits gets an empty slot, which raises
        for _ in range(self.concurrency):
            self._slots.put(_CLOSED)


class OutputShapes:
    """The shapes of a model's outputs as they follow from its inputs' shapes, by the names of dynamic dimensions.

    Attributes:
        unknown: outputs whose shape is known after a run only.
    """

    def __init__(self, session: ort.InferenceSession) -> None:
        self._inputs = [tuple(node.shape) for node in session.get_inputs()]
        self._outputs = {node.name: tuple(node.shape) for node in session.get_outputs()}
        symbols = {dim for shape in self._inputs for dim in shape if isinstance(dim, str) and dim}
        self.unknown = tuple(
            name
            for name, shape in self._outputs.items()
            if any(not (isinstance(dim, int) and dim >= 0) and dim not in symbols for dim in shape)
        )

    def resolve(self, name: str, shapes: Shapes) -> tuple[int, ...] | None:
        """Return the shape of output `name` for inputs of `shapes`; None if only a run can tell."""
        if name in self.unknown:
            return None
        sizes = {
            symbol: size
            for symbols, shape in zip(self._inputs, shapes, strict=True)
            for symbol, size in zip(symbols, shape, strict=True)
        }
        return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self._outputs[name])


@dataclass
class _Buffers:
    """Tensors for one combination of input shapes: host arrays by name, and the binding that refers to them."""

    binding: Any
    staging: dict[str, tuple[NDArray[Any], Any]]
    host_outputs: dict[str, NDArray[Any]]
    unknown_outputs: list[str]
    graph: int

    @property
    def size_bytes(self) -> int:
        """Host memory held."""
        return sum(host.nbytes for host, _ in self.staging.values()) + sum(
            host.nbytes for host in self.host_outputs.values()
        )


class _Slot:
    """The buffers of one run in flight."""

    def __init__(
        self,
        session: ort.InferenceSession | None,
        binding: Binding | None,
        inputs: tuple[TensorSpec, ...] = (),
        outputs: tuple[TensorSpec, ...] = (),
        shapes: OutputShapes | None = None,
        first_graph: int = 0,
    ) -> None:
        self._session, self._binding, self._shapes = session, binding, shapes
        self._inputs, self._outputs = inputs, outputs
        self._next_graph = first_graph
        self._buffers: OrderedDict[Shapes, _Buffers] = OrderedDict()

    def run(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        session, binding = self._session, self._binding
        if session is None or binding is None:
            msg = "The session is closed; load the model again."
            raise UsageProblem(msg)
        buffers = self._buffers_for(tuple(array.shape for array in inputs.values()))
        for name in buffers.unknown_outputs:
            buffers.binding.bind_output(name, "cpu")  # forgets the last run's, which has that run's shape
        for name, array in inputs.items():
            host, device = buffers.staging[name]
            host[...] = array
            device.update_inplace(host)
        buffers.binding.synchronize_inputs()
        session.run_with_iobinding(buffers.binding, self._run_options(buffers.graph))
        buffers.binding.synchronize_outputs()
        return self._collect(buffers)

    def release(self) -> None:
        self._buffers.clear()
        self._session = None

    def _collect(self, buffers: _Buffers) -> dict[str, NDArray[Any]]:
        # in the order in which they were first bound
        values = zip(self._outputs, buffers.binding.get_outputs(), strict=True)
        hosts = buffers.host_outputs
        return {spec.name: hosts[spec.name].copy() if spec.name in hosts else value.numpy() for spec, value in values}

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
        while len(self._buffers) > 1 and (
            len(self._buffers) > _KEPT_SHAPES or sum(kept.size_bytes for kept in self._buffers.values()) > _KEPT_BYTES
        ):
            _, oldest = self._buffers.popitem(last=False)
            if self._binding and self._binding.cuda_graph and self._session:
                self._session.release_captured_graph(oldest.graph)
        return made

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
            device = ort.OrtValue.ortvalue_from_shape_and_type(shape, np.dtype(spec.dtype), *where)
            binding.bind_ortvalue_input(spec.name, device)
            buffers.staging[spec.name] = (host, device)
        for spec in self._outputs:
            known = self._shapes.resolve(spec.name, shapes)
            large = known is not None and math.prod(known) * np.dtype(spec.dtype).itemsize > _LARGEST_PINNED
            if known is None or (large and not self._binding.cuda_graph):
                binding.bind_output(spec.name, "cpu")
                buffers.unknown_outputs.append(spec.name)
            elif self._binding.cuda_graph:
                device = ort.OrtValue.ortvalue_from_shape_and_type(known, np.dtype(spec.dtype), *where)
                binding.bind_ortvalue_output(spec.name, device)
            else:
                host = self._binding.host.array(known, spec.dtype)
                binding.bind_ortvalue_output(spec.name, ort.OrtValue.ortvalue_from_numpy(host))
                buffers.host_outputs[spec.name] = host
        return buffers


_CLOSED = _Slot(None, None)
