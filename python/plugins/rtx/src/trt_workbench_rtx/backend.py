"""The backend `ort-rtx`: ONNX Runtime with TensorRT-RTX, a plug-in provider for RTX cards. It has not been run."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.extra_options import INT32, SIZE, Option, checked_extra
from trt_workbench.backends.graph_precision import model_in_precision
from trt_workbench.backends.ort.backend import LoadRequest
from trt_workbench.backends.ort.common import CPU_PROVIDER, LEVELS, check_counts
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.ort.gpu import load_gpu_session, profile_options, provider_options
from trt_workbench.backends.ort.plugin import PluginProvider, plugin_availability
from trt_workbench.backends.tf32 import check_tf32_allowed, forbid_tf32
from trt_workbench.core.errors import UsageProblem, reason_of
from trt_workbench.core.gpu import driver_report, why_no_gpu
from trt_workbench.core.launcher import package
from trt_workbench.core.precision import GRAPH_PRECISIONS
from trt_workbench.core.settings import parts

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
    "allow_spinning": Option(bool, help="Whether idle CPU threads poll instead of sleeping."),
    "keep_fp32": Option(str, default="", help="Operators left in fp32 by a conversion to fp16, separated by commas."),
    **PROVIDER_OPTIONS,
}


class OrtRtxBackend(Backend):
    """ONNX Runtime with TensorRT-RTX; every node that computes data must run there.

    Extra options: those of the provider by their own names (PROVIDER_OPTIONS), and `device_id`, `allow_fallback`,
    `keep_fp32`, `graph_optimization_level`, `allow_spinning`. Inputs and outputs are in host memory.
    """

    name: ClassVar[str] = "ort-rtx"
    file_kinds: ClassVar[tuple[str, ...]] = (".onnx",)
    precisions: ClassVar[tuple[str, ...]] = GRAPH_PRECISIONS
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
        opened = Model.open(model)
        loaded, precision = model_in_precision(
            self.name, opened, options.precision, keep_fp32=parts(extra["keep_fp32"])
        )
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
        # the provider has no option for it
        tf32 = {} if options.tf32 else {"tf32_how": forbid_tf32()}
        plugin = replace(_plugin(), card=request.extra["device_id"])
        provenance = {**request.provenance, **tf32, **found.versions}
        return load_gpu_session(replace(request, plugin=plugin, provenance=provenance), options)


def _is_served(gpu: Mapping[str, Any]) -> bool:
    capability = tuple(int(part) for part in (gpu["compute_capability"] or "0.0").split("."))
    return capability in _CAPABILITIES or capability >= _FROM


def _opened() -> Availability:
    plain = OrtCpuBackend().availability()
    if not plain.ok:
        return plain
    try:
        plugin, version = _plugin(), str(import_module(PACKAGE).__version__)
    except Exception as error:  # a broken install fails in many ways; each is reported here
        reason = f"{PACKAGE} cannot be imported ({reason_of(error)})."
        return replace(plain, ok=False, reason=reason, fix=package("onnxruntime-ep-nv-tensorrt-rtx"))
    return plugin_availability(plugin, {**plain.versions, "ort_rtx_plugin": version})


def _plugin() -> PluginProvider:
    return PluginProvider(RTX_PROVIDER, str(import_module(PACKAGE).get_library_path()))
