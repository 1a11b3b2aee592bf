"""ONNX Runtime's own profiler: a session that writes what every node took, on any of its providers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.base import SessionOptions, TensorSpec
from trt_workbench.backends.extra_options import checked_extra
from trt_workbench.backends.ort_common import CPU_PROVIDER, session_config, tensor_spec, translated
from trt_workbench.backends.ort_gpu import ProviderOptions
from trt_workbench.backends.ort_preload import preload
from trt_workbench.errors import ComponentMissing

BACKENDS = ("ort-cpu", "ort-cuda", "ort-trt")
Feed = Callable[[Sequence[TensorSpec]], Mapping[str, NDArray[Any]]]
_Request = tuple[Path, Sequence[tuple[str, ProviderOptions]], Mapping[str, Any]]


def profiled_runs(
    backend: str, model: Path, options: SessionOptions, feed: Feed, runs: int, folder: Path
) -> tuple[Path, Mapping[str, Any]]:
    """Run a model with ONNX Runtime's profiler on.

    Args:
        backend: one of BACKENDS; whether it can serve is checked before.
        model: the ONNX file.
        options: of the session.
        feed: returns the inputs for the model's inputs.
        runs: how often, warm-up included.
        folder: where ONNX Runtime writes the trace.

    Returns:
        The file with the trace events, and what executed the model.

    Raises:
        UsageProblem: the model or an option is not accepted.
        ComponentMissing: ONNX Runtime did not load the provider.
        DeviceFailure: the device failed or is out of memory.
    """
    import onnxruntime as ort

    path, providers, extra = _request(backend, model, options)
    config, record = session_config(
        ort, options, extra["graph_optimization_level"], allow_spinning=extra["allow_spinning"]
    )
    config.enable_profiling = True
    config.profile_file_prefix = os.fsencode(folder / "onnxruntime")  # bytes: a folder's name may be no text
    if backend != "ort-cpu":
        preload(ort)
    try:
        session = ort.InferenceSession(path, config, providers=list(providers), enable_fallback=0)
        if missing := [name for name, _ in providers if name not in session.get_providers()]:
            raise ComponentMissing(
                f"ONNX Runtime did not load {', '.join(missing)}; `trtw backends` says what is missing: {model}"
            )
        for node in session.get_outputs():
            tensor_spec(node, model, backend)  # refuses what a run could not return
        inputs = dict(feed([tensor_spec(node, model, backend) for node in session.get_inputs()]))
        for _ in range(runs):
            session.run(None, inputs)
        with contextlib.suppress(UnicodeDecodeError):  # of the file's name, where the folder's is no text
            session.end_profiling()
        trace = max(folder.glob("onnxruntime*.json"), key=lambda file: file.stat().st_mtime_ns)
    except Exception as error:
        if problem := translated(error, "ONNX Runtime cannot profile the model", model):
            raise problem from error
        raise
    return trace, {**record, "providers": session.get_providers(), "model": str(path)}


def _request(backend: str, model: Path, options: SessionOptions) -> _Request:
    """Return the file, providers and checked options as the backend itself would choose them."""
    if backend == "ort-cpu":
        return _cpu_request(model, options)
    if backend == "ort-cuda":
        from trt_workbench.backends.ort_cuda import OrtCudaBackend

        request = OrtCudaBackend().request(model, options)
    else:
        from trt_workbench.backends.ort_trt import OrtTrtBackend
        from trt_workbench.backends.tf32 import forbid_tf32

        serving = OrtTrtBackend()
        request = serving.request(model, options, serving.availability().versions)
        if not options.tf32:
            forbid_tf32()
        for option in ("trt_engine_cache_path", "trt_timing_cache_path"):
            if cache := request.providers[0][1].get(option):
                Path(cache).mkdir(parents=True, exist_ok=True, mode=0o700)
    return request.model, request.providers, request.extra


def _cpu_request(model: Path, options: SessionOptions) -> _Request:
    from trt_workbench.backends.ort_cpu import CPU_OPTIONS, OrtCpuBackend
    from trt_workbench.onnxtools.preflight import examine_model

    OrtCpuBackend().check_precision(options.precision)
    examine_model(model)
    return model, [(CPU_PROVIDER, {})], checked_extra("ort-cpu", CPU_OPTIONS, options.extra)
