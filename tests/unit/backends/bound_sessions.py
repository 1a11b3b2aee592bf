"""Bound sessions of ONNX Runtime as on a GPU, where there is none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from trt_workbench.backends.ort.bound import BoundSession
from trt_workbench.backends.ort.slot import Binding, HostMemory
from trt_workbench.backends.pinned import PageableHost
from trt_workbench.model.opened import Model
from trt_workbench.model.shape_nodes import data_shaped_outputs


def plain(model: Path) -> ort.InferenceSession:
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


def bound(
    model: Path,
    *,
    cuda_graph: bool = False,
    concurrency: int = 1,
    device: str = "cpu",
    session: Any = None,
    state: Mapping[str, str] | None = None,
    host: HostMemory | None = None,
) -> BoundSession:
    """The session as on a GPU, its device being the CPU."""
    binding = Binding(device, 0, host or PageableHost(), cuda_graph=cuda_graph, state=state or {})
    data_shaped = data_shaped_outputs(onnx.load(model).graph)
    return BoundSession("ort-test", session or plain(model), Model.open(model), binding, concurrency, {}, data_shaped)


class CopyingBinding:
    """A binding whose consumers read other memory: ONNX Runtime copies an input when it is bound, then never again."""

    def __init__(self, binding: Any) -> None:
        self._iobinding = binding

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iobinding, name)

    def bind_ortvalue_input(self, name: str, value: Any) -> None:
        self._iobinding.bind_cpu_input(name, value.numpy().copy())


class CopyingSession:
    """A session whose nodes run elsewhere than its inputs are bound."""

    def __init__(self, model: Path) -> None:
        self._session = plain(model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def io_binding(self) -> CopyingBinding:
        return CopyingBinding(self._session.io_binding())

    def run_with_iobinding(self, binding: CopyingBinding, options: Any) -> None:
        self._session.run_with_iobinding(binding._iobinding, options)
