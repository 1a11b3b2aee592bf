"""The backend `ort-cpu`: ONNX Runtime with its CPU execution provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trt_workbench.backends.base import Availability, Session, SessionOptions, closed
from trt_workbench.backends.extra_options import Option, checked_extra
from trt_workbench.backends.ort.backend import LoadRequest, OrtBackend
from trt_workbench.backends.ort.common import (
    CPU_PROVIDER,
    LEVELS,
    check_counts,
    cpu_session,
    installed,
    session_config,
    tensor_spec,
    translated,
)

if TYPE_CHECKING:
    import onnx
    import onnxruntime as ort
    from numpy.typing import NDArray

    from trt_workbench.model.opened import Model
    from trt_workbench.model.precision import Precision

CPU_OPTIONS = {
    "allow_spinning": Option(bool, help="Whether idle threads poll instead of sleeping."),
    "graph_optimization_level": Option(tuple(LEVELS), default="all", help="How far ONNX Runtime rewrites the graph."),
}


class OrtCpuBackend(OrtBackend):
    """ONNX Runtime on the CPU, running the model in the precision it was exported in, simulated where it lacks that.

    Extra options: `allow_spinning` (bool, by default as `SessionOptions.polls`) and `graph_optimization_level`
    ("disable", "basic", "extended", "all").
    """

    name: ClassVar[str] = "ort-cpu"
    precisions: ClassVar[tuple[str, ...]] = ("fp32",)
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    provider: ClassVar[str] = CPU_PROVIDER

    def availability(self) -> Availability:
        """Say whether ONNX Runtime can be imported here and is new enough."""
        return installed("onnxruntime")

    def check_options(self, options: SessionOptions) -> None:
        """Raise UsageProblem for an unknown or wrong option."""
        self._checked(options)

    def _checked(self, options: SessionOptions) -> dict[str, Any]:
        self.check_precision(options.precision)
        check_counts(options)
        return checked_extra(self.name, CPU_OPTIONS, options.extra)

    def request(self, model: Path, options: SessionOptions) -> LoadRequest:
        """Return what a session would be made with, as `OrtBackend` says."""
        from trt_workbench.backends.simulation import runnable_model
        from trt_workbench.model.opened import Model

        extra = self._checked(options)
        source = Model.open(model)
        runnable, simulation = runnable_model(source, exact=options.exact)
        record = {"precision": "as exported", **simulation}
        return LoadRequest(self.name, runnable, source, ((CPU_PROVIDER, {}),), (CPU_PROVIDER,), extra, record)

    def _load(self, model: Path, options: SessionOptions) -> Session:
        installed("onnxruntime").required(self.name)
        import onnxruntime as ort

        from trt_workbench.model.opened import LARGE_BYTES

        request = self.request(model, options)
        level, spinning = request.extra["graph_optimization_level"], request.extra["allow_spinning"]
        config, record = session_config(ort, options, level, allow_spinning=spinning)
        beside = sum(file.stat().st_size for file in request.model.external_files)
        if options.exact and beside > LARGE_BYTES:
            # they are read from the mapped file in each run: as fast to open as a small model, and no memory of ours
            config.add_session_config_entry("session.disable_prepacking", "1")
            record["prepacked"] = False
        provenance = {**record, **request.provenance}
        try:
            session, int8 = cpu_session(ort, request.model, config)
        except Exception as error:
            if problem := translated(error, "ONNX Runtime cannot load the model", model):
                raise problem from error
            raise
        request.model.require_unchanged()
        return OrtCpuSession(session, request.source, request.model, options.concurrency, {**provenance, **int8})


class OrtCpuSession(Session):
    """A model in ONNX Runtime. `run` may be called from several threads at once."""

    _backend: ClassVar[str] = OrtCpuBackend.name

    def __init__(
        self,
        session: ort.InferenceSession,
        model: Model,
        loaded: Model,
        concurrency: int,
        provenance: Mapping[str, Any],
    ) -> None:
        self._session: ort.InferenceSession | None = session
        self._model, self._loaded = model, loaded
        self.inputs = tuple(tensor_spec(node, model.path, self._backend) for node in session.get_inputs())
        self.outputs = tuple(tensor_spec(node, model.path, self._backend) for node in session.get_outputs())
        self.metadata = dict(session.get_modelmeta().custom_metadata_map)
        self.provenance = {**provenance, "providers": session.get_providers()}
        self.concurrency = concurrency
        self._output_names = [spec.name for spec in self.outputs]

    def _precision(self) -> Precision:
        from trt_workbench.model.graph_types import as_optimised, read_precision

        asked = read_precision(self._model)
        if self.provenance.get("simulated"):
            return replace(asked, native=0.0)
        graph = self._optimised()
        return as_optimised(graph, asked) if graph else asked

    def _optimised(self) -> onnx.ModelProto | None:
        """Return the graph that is executed; None where it is not available."""
        import onnxruntime as ort

        from trt_workbench.backends.ort.rewrites import optimised_model

        level = self.provenance["graph_optimization_level"]
        return optimised_model(ort, level, lambda config: cpu_session(ort, self._loaded, config))

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        session = self._session
        if session is None:  # closed by another thread since the check
            raise closed()
        try:
            results = session.run(self._output_names, inputs)
        except Exception as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
            if problem := translated(error, f"ONNX Runtime cannot run the model with {shapes}", self._model.path):
                raise problem from error
            raise
        return dict(zip(self._output_names, results, strict=True))

    def _close(self) -> None:
        self._session = None
