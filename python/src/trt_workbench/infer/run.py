"""infer-engine: open a plan or a model, run it on samples, check the outputs, measure it, write the run's files."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

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
from trt_workbench.backends.measure.loop import measure_calls
from trt_workbench.backends.measure.telemetry import TelemetrySampler, gpu_in_use
from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.backends.registry import AUTO, require_backend
from trt_workbench.backends.samples import Sample, read_samples
from trt_workbench.core.documents import append_lines, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import refuse_foreign, write_text
from trt_workbench.core.input_files import parse_json, read_text
from trt_workbench.infer.checks import SampleRun
from trt_workbench.infer.native import open_native
from trt_workbench.infer.queries import Measurement, call_records, summary
from trt_workbench.infer.settings import InferOutcome, InferRequest, MeasureSettings, Note, Step
from trt_workbench.model.opened import Model
from trt_workbench.model.randomness import refuse_random


class ModelSession:
    """A model on a backend.

    Attributes:
        backend: name of the backend.
        session: the model.
    """

    def __init__(self, request: InferRequest, backend: str, session: Session) -> None:
        """Take the session over."""
        self.backend, self.session, self._request = backend, session, request

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


class _Opened(Protocol):
    """What is run: a session, and what differs between TensorRT's own engine and every other backend."""

    @property
    def backend(self) -> str:
        """Name of the backend."""

    @property
    def session(self) -> Session:
        """What executes the samples."""

    def random(self) -> dict[str, NDArray[Any]]:
        """Return random inputs. Raises UsageProblem if they cannot be made."""

    def seconds(self, settings: MeasureSettings) -> float:
        """Return about how long measuring takes."""

    def measure(self, inputs: Mapping[str, NDArray[Any]], settings: MeasureSettings) -> Measurement:
        """Measure on one set of inputs."""

    def memory(self) -> dict[str, Any]:
        """Return bytes by purpose."""


def infer(request: InferRequest, folder: Path, say: Note = lambda _: None, step: Step = lambda _: None) -> InferOutcome:
    """Run a plan or a model and write `metrics.json`, `records.jsonl` and `outputs/` into `folder`.

    Args:
        request: what is asked for.
        folder: an existing folder, such as the staging folder of a run directory.
        say: called with progress messages for the user.
        step: called with the number of samples done.

    Raises:
        UsageProblem: the file, an option or the inputs cannot be used, or references are missing.
        CheckFailed: a part of the model would run elsewhere than on the backend that was asked for.
        ComponentMissing: the backend, or a library or GPU that it needs, is absent.
        DeviceFailure: the device failed or is out of memory.
    """
    if request.inputs and request.shapes:
        raise UsageProblem("--shape is for random inputs; the given arrays have their own shapes.")
    if request.expect is not None and not request.expect.is_dir():
        raise UsageProblem(f"The folder of reference outputs does not exist: {request.expect}")
    if request.expect is not None and request.is_model:
        refuse_random(Model.open(request.model), "compared", "without --expect it runs")
    started = time.perf_counter()
    opened: _Opened = open_native(request, say) if request.is_native else open_model(request, say)
    load_s = time.perf_counter() - started
    with opened.session:
        run = SampleRun(request, folder, opened.session)
        for number, record in enumerate(run.execute(_source(request, opened)), start=1):
            append_lines(folder / "records.jsonl", [record])
            step(number)
        measured = None
        if opened.session.simulated:
            say("Not timed: the formats are simulated, so times would say nothing about them.")
        else:
            measured = _measured(opened, run.first, request.measure, say)
        append_lines(folder / "records.jsonl", measured.records if measured else ())
        metrics = run.metrics(opened.backend, load_s, opened.memory(), measured)
    write_json(folder / "metrics.json", metrics)
    if measured and measured.layers:
        write_json(folder / "layers.json", {"schema_version": 1, "layers": measured.layers})
    return InferOutcome(metrics, tuple(run.failures), tuple(measured.queries) if measured else ())


def check_times(path: Path) -> None:
    """Refuse to write times over a file that `write_times` did not write. Raises UsageProblem."""
    refuse_foreign(path, lambda file: _times(parse_json(read_text(file))) == read_text(file))


def write_times(path: Path, queries: tuple[dict[str, float], ...]) -> None:
    """Write queries as trtexec's --exportTimes does, whole or not at all. Raises OSError."""
    write_text(path, _times(queries))


def _times(queries: Any) -> str:
    return json.dumps(queries, indent=0, allow_nan=False) + "\n"


def _source(request: InferRequest, opened: _Opened) -> Iterator[Sample]:
    if request.inputs:
        return read_samples(request.inputs, opened.session.inputs)
    return iter([Sample("random", opened.random())])


def _measured(
    opened: _Opened, first: Mapping[str, NDArray[Any]], settings: MeasureSettings | None, say: Note
) -> Measurement | None:
    """Measure on the first sample's inputs, if requested."""
    if settings is None:
        return None
    seconds = opened.seconds(settings)
    # below a second, the least number of calls may take longer
    say(f"Measuring for about {seconds:.0f} s." if seconds >= 1 else "Measuring.")
    return opened.measure(first, settings)
