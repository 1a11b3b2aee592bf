"""An ONNX Runtime session on a device: bound inputs and outputs, staged through page-locked host memory."""

from __future__ import annotations

import queue
from collections import OrderedDict
from collections.abc import Collection, Mapping
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
# Names of the memory that a node on the CPU reads.
_HOST_MEMORY = ("Cpu", "CudaPinned")
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
        data_shaped: Collection[str],
    ) -> None:
        """Take over a loaded session.

        Args:
            backend: its name, for messages.
            session: of ONNX Runtime.
            model: the file, for messages.
            binding: where tensors live.
            concurrency: how many runs may be in flight.
            provenance: what is known of the session; completed here.
            data_shaped: outputs whose shape may differ between runs with inputs of the same shapes.

        Raises:
            UsageProblem: a tensor's type does not exist in numpy or on a device, or CUDA graphs were asked for and the
                shape of an output does not follow from the inputs', or an input is read on the host.
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
        shapes = OutputShapes(session, data_shaped)
        on_host = _read_on_host(session) if binding.device != "cpu" else frozenset()
        if binding.cuda_graph:
            _check_graph(shapes, on_host, model)
        self.provenance = {
            **provenance,
            "providers": session.get_providers(),
            "host_memory": binding.host.kind,
            "outputs_bound": "device" if binding.cuda_graph else "host",
            "inputs_read_on_host": sorted(on_host),
            "outputs_of_unknown_shape": [spec.name for spec in self.outputs if spec.name in data_shaped],
            "cuda_graph": binding.cuda_graph,
        }
        self._slots: queue.LifoQueue[_Slot] = queue.LifoQueue()
        for index in range(concurrency):
            self._slots.put(
                _Slot(session, binding, self.inputs, self.outputs, shapes, on_host, first_graph=index << 16)
            )

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return self._run(inputs, copy=True)

    def _lend(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return self._run(inputs, copy=False)

    def _run(self, inputs: dict[str, NDArray[Any]], *, copy: bool) -> dict[str, NDArray[Any]]:
        slot = self._slots.get()
        try:
            return slot.run(inputs, copy=copy)
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


def _read_on_host(session: ort.InferenceSession) -> frozenset[str]:
    """Return the inputs whose first consumer reads them in host memory, as a node on the CPU does."""
    infos = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    return frozenset(node.name for node, info in infos if info.name in _HOST_MEMORY)


def _check_graph(shapes: OutputShapes, on_host: Collection[str], model: Path) -> None:
    """Raise UsageProblem where the replay of a CUDA graph would not do what a run does."""
    if shapes.unknown:
        names = ", ".join(shapes.unknown)
        msg = f"A CUDA graph needs outputs of a known shape, and these depend on the data: {names}. File: {model}"
        raise UsageProblem(msg)
    if on_host:
        names = ", ".join(sorted(on_host))
        msg = f"A CUDA graph reads no host memory, and these inputs are read there: {names}. File: {model}"
        raise UsageProblem(msg)


class OutputShapes:
    """The shapes of a model's outputs as they follow from its inputs' shapes, by the names of dynamic dimensions.

    Attributes:
        data_shaped: outputs whose shape may differ between runs with inputs of the same shapes.
        unknown: those, and outputs whose declared shape is not made of the inputs' dimensions.
    """

    def __init__(self, session: ort.InferenceSession, data_shaped: Collection[str]) -> None:
        self._inputs = [tuple(node.shape) for node in session.get_inputs()]
        self._outputs = {node.name: tuple(node.shape) for node in session.get_outputs()}
        self.data_shaped = frozenset(data_shaped)
        symbols = {dim for shape in self._inputs for dim in shape if isinstance(dim, str) and dim}
        self.unknown = tuple(
            name
            for name, shape in self._outputs.items()
            if name in self.data_shaped
            or any(not (isinstance(dim, int) and dim >= 0) and dim not in symbols for dim in shape)
        )

    def resolve(self, name: str, shapes: Shapes) -> tuple[int, ...]:
        """Return the shape of output `name`, which is not one of `unknown`, for inputs of `shapes`."""
        sizes = {
            symbol: size
            for symbols, shape in zip(self._inputs, shapes, strict=True)
            for symbol, size in zip(symbols, shape, strict=True)
        }
        return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self._outputs[name])


@dataclass
class _Buffers:
    """Tensors for one combination of input shapes, and the binding that refers to them.

    Attributes:
        binding: ONNX Runtime's.
        staging: host array and bound value of each input; one memory for an input that is read on the host.
        host_outputs: fixed buffers of outputs.
        fresh_outputs: outputs that ONNX Runtime allocates in each run.
        graph: id of the CUDA graph.
        ran: whether a run has told the outputs' shapes.
    """

    binding: Any
    staging: dict[str, tuple[NDArray[Any], Any]]
    host_outputs: dict[str, NDArray[Any]]
    fresh_outputs: list[str]
    graph: int
    ran: bool = False

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
        on_host: Collection[str] = (),
        first_graph: int = 0,
    ) -> None:
        self._session, self._binding, self._shapes = session, binding, shapes
        self._on_host = on_host
        self._inputs, self._outputs = inputs, outputs
        self._next_graph = first_graph
        self._buffers: OrderedDict[Shapes, _Buffers] = OrderedDict()

    def run(self, inputs: dict[str, NDArray[Any]], *, copy: bool) -> dict[str, NDArray[Any]]:
        session, binding = self._session, self._binding
        if session is None or binding is None:
            msg = "The session is closed; load the model again."
            raise UsageProblem(msg)
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
        buffers.binding.synchronize_inputs()
        session.run_with_iobinding(buffers.binding, self._run_options(buffers.graph))
        buffers.binding.synchronize_outputs()
        found = self._collect(buffers, copy=copy)
        if not buffers.ran:
            self._settle(buffers, found)
        return found

    def release(self) -> None:
        self._buffers.clear()
        self._session = None

    def _collect(self, buffers: _Buffers, *, copy: bool) -> dict[str, NDArray[Any]]:
        # in the order in which they were first bound
        values = zip(self._outputs, buffers.binding.get_outputs(), strict=True)
        found = {}
        for spec, value in values:
            host = buffers.host_outputs.get(spec.name)
            found[spec.name] = value.numpy() if host is None else host.copy() if copy else host
        return found

    def _settle(self, buffers: _Buffers, found: Mapping[str, NDArray[Any]]) -> None:
        """Give a fixed buffer to each output that has the shape of its first run for good and is not large.

        A declared shape is not trusted: a copy from the device into a buffer of another shape and the same size would
        pass unseen.
        """
        import onnxruntime as ort

        assert self._binding is not None
        assert self._shapes is not None
        buffers.ran = True
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


_CLOSED = _Slot(None, None)
