"""An ONNX Runtime session on a device: runs with bound inputs and outputs, and state that stays there."""

from __future__ import annotations

import dataclasses
import queue
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trt_workbench.backends.base import Session, closed
from trt_workbench.backends.ort.common import method, tensor_spec, translated
from trt_workbench.backends.ort.shapes import OutputShapes
from trt_workbench.backends.ort.slot import Binding, Slot
from trt_workbench.backends.ort.state import SessionState, state_pairs
from trt_workbench.core.errors import UsageProblem

if TYPE_CHECKING:
    import onnx
    import onnxruntime as ort
    from numpy.typing import NDArray

    from trt_workbench.model.opened import Model
    from trt_workbench.model.precision import Precision

Result = TypeVar("Result")

# Names of the memory that a node on the CPU reads.
_HOST_MEMORY = ("Cpu", "CudaPinned")


class BoundSession(Session):
    """A model in ONNX Runtime with one set of buffers for each run in flight.

    Attributes:
        state_inputs: what an output of the last run feeds and is no input of a call.
    """

    def __init__(
        self,
        backend: str,
        session: ort.InferenceSession,
        model: Model,
        binding: Binding,
        concurrency: int,
        provenance: Mapping[str, Any],
        data_shaped: Collection[str],
        *,
        graph: Model | None = None,
        may_choose: tuple[str, ...] = (),
        optimised: Callable[[], onnx.ModelProto | None] = lambda: None,
    ) -> None:
        """Take over a loaded session.

        Args:
            backend: its name, for messages.
            session: of ONNX Runtime.
            model: what was named, for messages.
            binding: where tensors live.
            concurrency: how many runs may be in flight.
            provenance: what is known of the session; completed here.
            data_shaped: outputs whose shape may differ between runs with inputs of the same shapes.
            graph: what was loaded, if it is a converted copy of the model.
            may_choose: precisions that the runtime may take besides those of the graph.
            optimised: returns the graph as the runtime executes it; None where that is not available.

        Raises:
            UsageProblem: a tensor's type does not exist in numpy or on a device, CUDA graphs were asked for and the
                shape of an output does not follow from the inputs', or an input is read on the host, or the state does
                not fit the model.
        """
        path = model.path
        inputs = tuple(tensor_spec(node, path, backend) for node in session.get_inputs())
        outputs = tuple(tensor_spec(node, path, backend) for node in session.get_outputs())
        self.metadata = dict(session.get_modelmeta().custom_metadata_map)
        self.concurrency = concurrency
        self._path = path
        self._graph, self._may_choose, self._optimised = graph or model, may_choose, optimised
        for spec in (*inputs, *outputs):
            if spec.dtype == "object":
                raise UsageProblem(f"Backend {backend} cannot put the text tensor {spec.name} on a device: {path}")
        shapes = OutputShapes(session, data_shaped)
        on_host = _read_on_host(session) if binding.device != "cpu" else frozenset()
        if binding.cuda_graph:
            _check_graph(shapes, on_host, path)
        state = binding.state
        pairs = state_pairs(session, state, inputs, on_host, data_shaped, path)
        self.inputs = tuple(spec for spec in inputs if spec.name not in state.values())
        self.outputs = tuple(spec for spec in outputs if spec.name not in state)
        self.state_inputs = tuple(spec for spec in inputs if spec.name in state.values())
        self._state = SessionState(pairs, binding.device, binding.device_id)
        self.provenance = {
            **provenance,
            "providers": session.get_providers(),
            "host_memory": binding.host.kind,
            "outputs_bound": "device" if binding.cuda_graph else "host",
            "inputs_read_on_host": sorted(on_host),
            "outputs_of_unknown_shape": [spec.name for spec in outputs if spec.name in data_shaped],
            "cuda_graph": binding.cuda_graph,
            "state": dict(state),
        }
        self._slots: queue.LifoQueue[Slot] = queue.LifoQueue()
        for index in range(concurrency):
            self._slots.put(
                Slot(session, binding, self.inputs, self.outputs, shapes, on_host, self._state, first_graph=index << 16)
            )

    def memory_bytes(self) -> dict[str, int]:
        """Return the memory of the state by where it is; empty without state. ONNX Runtime does not report the rest."""
        return self._state.memory_bytes()

    def reset_state(self) -> None:
        """Let state inputs start from zeros again.

        Raises:
            UsageProblem: the session keeps no state or is closed, or a run is in flight.
        """
        if self._closed:
            raise closed()
        if not self.state_inputs:
            raise UsageProblem("The session has no state; name its pairs in the option state.")
        try:
            slot = self._slots.get_nowait()
        except queue.Empty:
            raise UsageProblem("A run is in flight; wait for it before resetting its state.") from None
        self._state.reset()
        self._slots.put(slot)

    def _precision(self) -> Precision:
        from trt_workbench.model.graph_types import as_optimised, read_precision

        asked, ran = read_precision(self._graph), self._optimised()
        asked = dataclasses.replace(asked, may_choose=self._may_choose)
        return as_optimised(ran, asked) if ran else asked

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return self._with_slot(inputs, lambda slot: slot.run(inputs))

    def _infer_at(self, inputs: dict[str, NDArray[Any]], name: str, index: int) -> NDArray[Any]:
        return self._with_slot(inputs, lambda slot: slot.run_at(inputs, name, index))

    def _with_slot(self, inputs: dict[str, NDArray[Any]], run: Callable[[Slot], Result]) -> Result:
        slot = self._slots.get()
        try:
            return run(slot)
        except Exception as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
            if problem := translated(error, f"ONNX Runtime cannot run the model with {shapes}", self._path):
                raise problem from error
            raise
        finally:
            self._slots.put(slot)

    def _close(self) -> None:
        for _ in range(self.concurrency):
            self._slots.get().release()
        self._state.release()
        # whoever still waits gets an empty slot, which raises
        for _ in range(self.concurrency):
            self._slots.put(Slot(None, None))


def _read_on_host(session: ort.InferenceSession) -> frozenset[str]:
    """Return the inputs whose first consumer reads them in host memory, as a node on the CPU does."""
    infos = zip(session.get_inputs(), method(session, "get_input_memory_infos")(), strict=True)
    return frozenset(node.name for node, info in infos if info.name in _HOST_MEMORY)


def _check_graph(shapes: OutputShapes, on_host: Collection[str], model: Path) -> None:
    """Raise UsageProblem where the replay of a CUDA graph would not do what a run does."""
    if shapes.unknown:
        names = ", ".join(shapes.unknown)
        raise UsageProblem(
            f"A CUDA graph needs outputs of known shape, but these depend on the data: {names}. File: {model}"
        )
    if on_host:
        names = ", ".join(sorted(on_host))
        raise UsageProblem(
            f"A CUDA graph cannot read host memory, but these inputs are read there: {names}. File: {model}"
        )
