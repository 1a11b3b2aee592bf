"""ONNX Runtime's own profiler: a session that writes what every node took, on any of its providers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.backend import OrtBackend
from trt_workbench.backends.ort.common import CPU_PROVIDER, cpu_session, session_config, tensor_spec, translated
from trt_workbench.backends.ort.preload import preload
from trt_workbench.backends.profiling import InputFeed
from trt_workbench.core.errors import ComponentMissing, UsageProblem

TRACES = "onnxruntime*.json"


def profiled_runs(
    backend: OrtBackend, model: Path, options: SessionOptions, feed: InputFeed, runs: int, folder: Path
) -> tuple[Path, Mapping[str, Any]]:
    """Run a model with ONNX Runtime's profiler on.

    Args:
        backend: that would execute it.
        model: the ONNX file.
        options: of the session.
        feed: returns the inputs for the model's inputs.
        runs: how often, warm-up included.
        folder: where ONNX Runtime writes the trace.

    Returns:
        The file with the trace events, and what executed the model.

    Raises:
        UsageProblem: the model or an option is not accepted.
        ComponentMissing: the backend cannot serve here, or ONNX Runtime did not load the provider.
        DeviceFailure: the device failed or is out of memory.
    """
    import onnxruntime as ort

    request = backend.prepare(model, options)
    if formats := request.provenance.get("simulated_formats"):
        raise UsageProblem(
            f"{backend.name} only simulates {' and '.join(formats)}, so that times of its nodes say nothing about the "
            f"format; profile the model on a runtime that has it: {model}"
        )
    earlier = set(folder.glob(TRACES))
    level, spinning = request.extra["graph_optimization_level"], request.extra["allow_spinning"]
    config, record = session_config(ort, options, level, allow_spinning=spinning)
    config.enable_profiling = True
    config.profile_file_prefix = os.fsencode(folder / "onnxruntime")  # bytes: a folder's name may be no text
    if backend.provider != CPU_PROVIDER:
        preload(ort)
    try:
        if backend.provider == CPU_PROVIDER:
            session, int8 = cpu_session(ort, request.model, config)
            record = {**record, **int8}
        else:
            chain = list(request.providers)
            session = ort.InferenceSession(request.model.path, config, providers=chain, enable_fallback=0)
        if missing := [name for name, _ in request.providers if name not in session.get_providers()]:
            raise ComponentMissing(
                f"ONNX Runtime did not load {', '.join(missing)}; `trtw backends` says what is missing: {model}"
            )
        for node in session.get_outputs():
            tensor_spec(node, model, backend.name)  # refuses what a run could not return
        inputs = dict(feed([tensor_spec(node, model, backend.name) for node in session.get_inputs()]))
        for _ in range(runs):
            session.run(None, inputs)
        with contextlib.suppress(UnicodeDecodeError):  # of the file's name, where the folder's is no text
            session.end_profiling()
        (trace,) = set(folder.glob(TRACES)) - earlier
    except Exception as error:
        if problem := translated(error, "ONNX Runtime cannot profile the model", model):
            raise problem from error
        raise
    return trace, {**record, "providers": session.get_providers(), "model": str(request.model.path)}
