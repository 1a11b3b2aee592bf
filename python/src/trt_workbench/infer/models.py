"""infer-engine on a backend that is not TensorRT itself: a model, measured by single calls."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.measure.inputs import (
    SHAPE_HINT,
    complete_shapes,
    dimension_symbols,
    onnx_inputs,
    random_inputs,
    with_limits,
)
from trt_workbench.backends.registry import AUTO, gpu_in_use, require_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.infer.measured import Measurement, call_records, summary
from trt_workbench.infer.settings import InferRequest, MeasureSettings, Note


class ModelSession:
    """A model on a backend.

    Attributes:
        backend: name of the backend.
        session: the model.
    """

    def __init__(self, request: InferRequest, backend: str, session: Session) -> None:
        """Take the session over."""
        self.backend, self.session, self._request = backend, session, request

    def load_parts(self) -> dict[str, float]:
        """Return nothing: a runtime does not say what its loading is made of."""
        return {}

    def random(self) -> dict[str, NDArray[Any]]:
        """Return inputs of the model's own shapes, a dynamic batch being 1, or of those asked for."""
        tensors, specs = onnx_inputs(self._request.model), self.session.inputs
        hint = f"{SHAPE_HINT}, or an array"
        shapes = complete_shapes(specs, dimension_symbols(tensors), {}, hint, asked=self._request.shapes)
        return random_inputs(with_limits(specs, tensors), shapes, self._request.seed)

    def seconds(self, settings: MeasureSettings) -> float:
        """Return about how long measuring takes."""
        return settings.duration_s

    def measure(self, inputs: Mapping[str, NDArray[Any]], settings: MeasureSettings) -> Measurement:
        """Time calls one after the other, host arrays in to host arrays out."""
        from trt_workbench.backends.measure.loop import measure_calls
        from trt_workbench.backends.measuring import SamplingLimits

        limits = SamplingLimits(settings.warmup_ms, settings.duration_s, settings.iterations)
        samples = measure_calls(lambda: self.session.run(inputs), limits)
        names = ("warmup_ms", "duration_s", "iterations", "percentiles")
        metrics = {
            "settings": {name: getattr(settings, name) for name in names},
            "calls": len(samples.latency_ms),
            "wall_ms": samples.wall_s * 1e3,
            "throughput_qps": len(samples.latency_ms) / samples.wall_s,
            "end_to_end_ms": summary(samples.latency_ms, settings.percentiles),
        }
        return Measurement(metrics, [], call_records("python", samples))

    def memory(self) -> dict[str, Any]:
        """Return the process's memory, its peak, and what it holds on the GPU; None where there is no GPU in use."""
        from trt_workbench.backends.measure.telemetry import TelemetrySampler

        device = gpu_in_use(self.backend, self._request.options, self.session.provenance)
        with TelemetrySampler(os.getpid(), device) as sampler:
            pass  # one sample: what is held now
        now = sampler.result.host_memory_bytes
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
        return {
            "host_bytes": now,
            "host_peak_bytes": max(peak, now or 0),  # the kernel's two counts differ by some pages
            "device_bytes": sampler.result.device_memory_bytes,
        }


def open_model(request: InferRequest, say: Note) -> ModelSession:
    """Load a model on the backend that is asked for.

    Args:
        request: what is asked for.
        say: called with the backend that `auto` chose.

    Raises:
        UsageProblem: the model or an option cannot be used.
        CheckFailed: a part of the model would run elsewhere.
        ComponentMissing: the backend cannot serve here.
        DeviceFailure: the device failed or is out of memory.
    """
    backend = require_backend(request.backend, request.model.suffix, say)
    if request.backend == AUTO:
        say(f"Backend {backend.name} was chosen by auto.")
    options = SessionOptions(threads=request.cpu_threads, precision=request.precision, extra=request.options)
    session = backend.load(request.model, options)
    for spec in (*session.inputs, *session.outputs):
        if spec.dtype == "object":
            session.close()
            raise UsageProblem(
                f"infer-engine reads and writes only numbers, but the model has the text tensor {spec}: {request.model}"
            )
    return ModelSession(request, backend.name, session)
