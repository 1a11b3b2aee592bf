"""The backend `ort-rtx`: ONNX Runtime with TensorRT-RTX, a plug-in provider for RTX cards. It has not been run."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.extra_options import INT32, SIZE, Option, checked_extra
from trt_workbench.backends.graph_precision import PRECISIONS, model_in_precision
from trt_workbench.backends.ort.backend import LoadRequest
from trt_workbench.backends.ort.common import CPU_PROVIDER, LEVELS, check_counts, session_config, translated
from trt_workbench.backends.ort.cpu import OrtCpuBackend, OrtCpuSession
from trt_workbench.backends.ort.gpu import profile_options, provider_options, shape_keys
from trt_workbench.backends.ort.partitions import RECORD_ENTRY, check_assignment, read_assignment
from trt_workbench.backends.tf32 import check_tf32_allowed, forbid_tf32
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.gpu import driver_report, why_no_gpu
from trt_workbench.core.launcher import package, task
from trt_workbench.core.settings import parts
from trt_workbench.core.workers import WorkerFailure, ask_python

RTX_PROVIDER = "NvTensorRTRTXExecutionProvider"
PACKAGE = "onnxruntime_ep_nv_tensorrt_rtx"
# By the provider's header (tensorrt_rtx_provider_options.h of 0.5.0): these, and everything from 12.0 on.
_CAPABILITIES = ((8, 6), (8, 9))
_FROM = (12, 0)

_SHAPES = ("nv_profile_min_shapes", "nv_profile_opt_shapes", "nv_profile_max_shapes")
PROVIDER_OPTIONS: Mapping[str, Option] = {
    "enable_cuda_graph": Option(bool, help="Capture and replay a CUDA graph; shapes must be fixed."),
    "nv_max_workspace_size": Option(int, minimum=0, maximum=SIZE, help="Largest workspace in bytes."),
    "nv_max_shared_mem_size": Option(int, minimum=0, maximum=SIZE, help="Largest shared memory of a kernel in bytes."),
    "nv_dump_subgraphs": Option(bool, help="Write the subgraphs that it takes into the current folder."),
    "nv_detailed_build_log": Option(bool, help="Log the build in detail."),
    **{name: Option(str, help="input:1x3x640x640;other:1x77, for ranges of shapes.") for name in _SHAPES},
    "nv_multi_profile_enable": Option(bool, help="Several ranges of shapes."),
    "nv_use_external_data_initializer": Option(bool, help="Keep weights out of the engine."),
    "nv_runtime_cache_path": Option(str, help="Folder for kernels compiled on this card."),
    "nv_weight_streaming_budget": Option(str, help="Memory for streamed weights: -1 (automatic), bytes, 512M, 50%."),
    "nv_op_types_to_exclude": Option(str, help="Operators left to other providers, separated by commas."),
    "nv_enable_profiling": Option(bool, help="Time layers."),
    "nv_profiling_output_file": Option(str, help="File for these times."),
    "nv_use_sync_gpu_allocator": Option(bool, help="Allocate with cudaMalloc."),
    "nv_persistent_context_memory": Option(bool, help="Keep a context's memory between runs."),
    "nv_multi_rotary_cache_concat_offset": Option(
        int, minimum=0, maximum=INT32, help="Token at which the long rotary cache begins."
    ),
    "nv_weight_stripped_engine_enable_experimental": Option(bool, help="Engines without weights."),
}
# Addresses in memory, and the compilation for a card that is not here (`check-target`).
LEFT_OUT = frozenset(
    {"has_user_compute_stream", "user_compute_stream", "user_aux_stream_array", "nv_length_aux_stream_array"}
    | {"VkExternalComputeQueueDataParamsNV_data", "nv_target_sm"}
)
RTX_OPTIONS: Mapping[str, Option] = {
    "device_id": Option(int, default=0, minimum=0, help="Which of the supported cards to use."),
    "allow_fallback": Option(bool, default=False, help="Run nodes that the provider does not take elsewhere."),
    "graph_optimization_level": Option(tuple(LEVELS), default="all", help="How far ONNX Runtime rewrites the graph."),
    "allow_spinning": Option(bool, default=False, help="Whether idle CPU threads poll instead of sleeping."),
    "keep_fp32": Option(str, default="", help="Operators left in fp32 by a conversion to fp16, separated by commas."),
    **PROVIDER_OPTIONS,
}

# In a process of its own: TensorRT-RTX's libraries stay mapped, and may crash where the driver does not fit.
_PROBE = f"""
import json, onnxruntime, {PACKAGE} as plugin
found = {{"plugin": plugin.__version__}}
try:
    onnxruntime.register_execution_provider_library(plugin.get_ep_name(), plugin.get_library_path())
    found["devices"] = sum(one.ep_name == plugin.get_ep_name() for one in onnxruntime.get_ep_devices())
except Exception as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


class OrtRtxBackend(Backend):
    """ONNX Runtime with TensorRT-RTX; every node that computes data must run there.

    Extra options: those of the provider by their own names (PROVIDER_OPTIONS), and `device_id`, `allow_fallback`,
    `keep_fp32`, `graph_optimization_level`, `allow_spinning`. Inputs and outputs are in host memory.
    """

    name: ClassVar[str] = "ort-rtx"
    file_kinds: ClassVar[tuple[str, ...]] = (".onnx",)
    precisions: ClassVar[tuple[str, ...]] = PRECISIONS
    devices: ClassVar[tuple[str, ...]] = ("cuda",)
    gpu_option: ClassVar[str | None] = "device_id={}"

    def availability(self) -> Availability:
        """Say whether a card that the provider serves is here, and whether its package can be opened."""
        report = driver_report()
        if without := why_no_gpu(report):
            return Availability(ok=False, reason=without[0], fix=without[1])
        if not any(_is_served(gpu) for gpu in report["gpus"]):
            names = ", ".join(f"{gpu['name']} ({gpu['compute_capability']})" for gpu in report["gpus"])
            reason = f"TensorRT-RTX supports cards of compute capability 8.6, 8.9 and 12.0 or newer, not {names}."
            return Availability(ok=False, reason=reason, fix="Use `ort-cuda`, `ort-trt` or `trt` on this card.")
        if importlib.util.find_spec(PACKAGE) is None:
            reason = "the package onnxruntime-ep-nv-tensorrt-rtx is not installed."
            return Availability(ok=False, reason=reason, fix=package("onnxruntime-ep-nv-tensorrt-rtx"))
        return _opened()

    def check_options(self, options: SessionOptions) -> None:
        """Raise UsageProblem for an option that is unknown, wrong or does not fit the others."""
        super().check_options(options)
        self._checked(options)

    def request(self, model: Path, options: SessionOptions) -> LoadRequest:
        """Return the settings for a session. Needs neither the package nor a GPU.

        Raises:
            UsageProblem: an option is unknown or does not fit the others, or the model is not available as requested.
        """
        from trt_workbench.model.opened import Model

        extra = self._checked(options)
        if options.tf32:
            check_tf32_allowed()
        keep = parts(extra["keep_fp32"])
        opened = Model.open(model)
        loaded, precision = model_in_precision(self.name, opened, options.precision, keep_fp32=keep)
        provider = provider_options(PROVIDER_OPTIONS, extra)
        if options.shapes and not any(extra[name] for name in _SHAPES):
            provider |= profile_options("nv", ";", options.shapes)
        return LoadRequest(
            backend=self.name,
            model=loaded,
            source=opened,
            providers=((RTX_PROVIDER, provider), (CPU_PROVIDER, {})),
            accepted=(RTX_PROVIDER,),
            extra=extra,
            provenance={**precision, "tf32": options.tf32},
        )

    def _checked(self, options: SessionOptions) -> dict[str, Any]:
        check_counts(options)
        extra = checked_extra(self.name, RTX_OPTIONS, options.extra)
        given = [name for name in _SHAPES if extra[name]]
        if given and len(given) < len(_SHAPES):
            raise UsageProblem(f"A profile needs {', '.join(_SHAPES)}; only {', '.join(given)} was given.")
        return extra

    def _load(self, model: Path, options: SessionOptions) -> Session:
        request = self.request(model, options)
        found = self.availability().required(self.name)
        import onnxruntime as ort

        # the provider has no option for it
        tf32 = {} if options.tf32 else {"tf32_how": forbid_tf32()}
        extra, provider = request.extra, request.providers[0][1]
        config, record = session_config(
            ort, options, extra["graph_optimization_level"], allow_spinning=extra["allow_spinning"]
        )
        config.add_session_config_entry(RECORD_ENTRY, "1")
        config.add_provider_for_devices([_device(ort, extra["device_id"])], provider)
        try:
            session = ort.InferenceSession(request.model.path, config, enable_fallback=0)
        except Exception as error:
            if problem := translated(error, f"ONNX Runtime cannot load the model on {RTX_PROVIDER}", model, provider):
                raise problem from error
            raise
        request.model.require_unchanged()
        assignment = read_assignment(session)
        assigned = check_assignment(
            assignment,
            request.accepted,
            shape_keys(ort, request, request.model.proto.graph, assignment),
            allow_fallback=extra["allow_fallback"],
            model=model,
        )
        provenance = {**record, **request.provenance, **tf32, **assigned, "provider_options": provider}
        return OrtRtxSession(
            session, request.model, request.model, options.concurrency, {**provenance, **found.versions}
        )


class OrtRtxSession(OrtCpuSession):
    """A model in ONNX Runtime, computed on the card; the provider moves inputs and outputs."""

    _backend: ClassVar[str] = OrtRtxBackend.name

    def _optimised(self) -> None:
        """Return nothing: the provider compiles the graph, and does not report its precision."""


def _is_served(gpu: Mapping[str, Any]) -> bool:
    capability = tuple(int(part) for part in (gpu["compute_capability"] or "0.0").split("."))
    return capability in _CAPABILITIES or capability >= _FROM


def _opened() -> Availability:
    plain = OrtCpuBackend().availability()
    if not plain.ok:
        return plain
    found = probe_plugin()
    versions = {**plain.versions, **({"ort_rtx_plugin": found["plugin"]} if "plugin" in found else {})}
    doctor = f"{task('doctor')} shows the driver; it must support CUDA 13 (580 or newer)."
    if problem := found.get("error"):
        reason = f"ONNX Runtime {versions['onnxruntime']} cannot open the provider ({problem})."
        return Availability(ok=False, reason=reason, fix=doctor, versions=versions)
    if not found.get("devices"):
        reason = "the provider loads, but sees no supported card."
        return Availability(ok=False, reason=reason, fix=doctor, versions=versions)
    return Availability(ok=True, versions=versions)


@functools.cache
def probe_plugin() -> dict[str, Any]:
    """Register the provider in a process of its own.

    Returns:
        "plugin": its version; "devices": how many cards it serves, or "error": why it could not be opened.
    """
    try:
        return dict(ask_python(_PROBE))
    except WorkerFailure as failure:
        return {"error": str(failure)}


def _device(ort: Any, index: int) -> Any:
    """Return the card with this index among those that the provider serves, which is registered first."""
    _register(ort)
    devices: Sequence[Any] = [one for one in ort.get_ep_devices() if one.ep_name == RTX_PROVIDER]
    if not devices:
        raise ComponentMissing("TensorRT-RTX's provider sees no supported card.")
    if index >= len(devices):
        raise UsageProblem(
            f"There is no card {index}: TensorRT-RTX's provider sees {counted(len(devices), 'card')}, counted from 0."
        )
    return devices[index]


@functools.cache
def _register(ort: Any) -> None:
    plugin = importlib.import_module(PACKAGE)
    try:
        ort.register_execution_provider_library(RTX_PROVIDER, plugin.get_library_path())
    except Exception as error:
        raise ComponentMissing(f"TensorRT-RTX's provider cannot be loaded ({error}).") from error
