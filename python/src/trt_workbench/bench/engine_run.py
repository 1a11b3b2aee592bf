"""infer-engine: load a plan, run it on samples, check and compare the outputs, measure it, write the run's files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.trt_options import RunnerChoice
from trt_workbench.backends.trt_session import TrtSession
from trt_workbench.bench.engine_arrays import Sample, file_name, read_samples
from trt_workbench.bench.engine_compare import Comparison, compare, read_expected
from trt_workbench.bench.engine_measure import Measurement, MeasureSettings, measure
from trt_workbench.bench.engine_random import Shapes, engine_inputs, engine_shapes
from trt_workbench.bench.engine_state import initial_state
from trt_workbench.bench.statistics import summarize
from trt_workbench.engine import native
from trt_workbench.engine.files import write_json, write_text
from trt_workbench.engine.loading import LoadedEngine, load_engine
from trt_workbench.errors import UsageProblem

SCHEMA_VERSION = 1
Note = Callable[[str], None]
Step = Callable[[int], None]


@dataclass(frozen=True)
class InferRequest:
    """What the user asked for.

    Attributes:
        plan: the engine.
        inputs: sources of input arrays, as `read_samples` takes them; none for random inputs.
        shapes: of random inputs, by name; dynamic ones take the profile's best-tuned shape by default.
        seed: of random inputs.
        save: write the outputs to `outputs/` in the run directory.
        expect: folder of reference outputs; None for none.
        rtol: relative tolerance of the comparison.
        atol: absolute tolerance of the comparison.
        check_finite: fail if an output holds NaN or infinity.
        measure: how to measure; None for not at all.
        profile: optimisation profile; None chooses by the shapes.
        cuda_graph: replay captured CUDA graphs.
        spin: wait by polling.
        state: input names by output name, for tensors that stay on the device; the samples are then one sequence.
        trust: load a plan without a matching manifest.
        allow_host_code: let a version-compatible plan execute the host code it carries.
        device: index of the CUDA device.
    """

    plan: Path
    inputs: tuple[str, ...] = ()
    shapes: Shapes = field(default_factory=dict)
    seed: int = 0
    save: bool = True
    expect: Path | None = None
    rtol: float = 1e-3
    atol: float = 1e-4
    check_finite: bool = False
    measure: MeasureSettings | None = None
    profile: int | None = None
    cuda_graph: bool = True
    spin: bool = True
    state: Mapping[str, str] = field(default_factory=dict)
    trust: bool = False
    allow_host_code: bool = False
    device: int = 0


@dataclass(frozen=True)
class InferOutcome:
    """What a run found: the content of `metrics.json`, and what failed, in sentences."""

    metrics: dict[str, Any]
    failures: tuple[str, ...]
    queries: tuple[dict[str, float], ...] = ()


def infer(request: InferRequest, folder: Path, say: Note = lambda _: None, step: Step = lambda _: None) -> InferOutcome:
    """Run an engine and write `metrics.json`, `records.jsonl` and `outputs/` into `folder`.

    Args:
        request: what is asked for.
        folder: an existing folder, such as the staging folder of a run directory.
        say: called with what a person who waits should know.
        step: called with the number of samples done.

    Raises:
        UsageProblem: the plan or the inputs cannot be used, or references are missing.
        ComponentMissing: the native core, TensorRT or the GPU is absent.
        DeviceFailure: the device failed or is out of memory.
    """
    if request.inputs and request.shapes:
        msg = "--shape is for random inputs; arrays that are given have their own shapes."
        raise UsageProblem(msg)
    if request.expect is not None and not request.expect.is_dir():
        msg = f"The folder of reference outputs does not exist: {request.expect}"
        raise UsageProblem(msg)
    free_before = _free_bytes(request.device)
    loaded = load_engine(
        request.plan, trust=request.trust, allow_host_code=request.allow_host_code, device=request.device
    )
    for text in loaded.notes:
        say(text)
    choice = RunnerChoice(
        cuda_graph=request.cuda_graph, spin=request.spin, profile=request.profile, state=request.state
    )
    with TrtSession(loaded, choice, 1) as session, (folder / "records.jsonl").open("w", encoding="utf-8") as records:
        initial_state(session.state_inputs)  # refuses a state that cannot start from zeros
        run = _Run(request, folder, loaded, session)
        for number, record in enumerate(run.samples(), start=1):
            records.write(json.dumps(record, allow_nan=False) + "\n")
            step(number)
        measured = run.measure(say)
        for record in measured.records if measured else ():
            records.write(json.dumps(record, allow_nan=False) + "\n")
        metrics = run.metrics(measured)
        free_after = _free_bytes(request.device)
        if free_before is not None and free_after is not None:
            metrics["memory"]["device_used_bytes"] = free_before - free_after
    write_json(folder / "metrics.json", metrics)
    if measured and measured.layers:
        write_json(folder / "layers.json", {"schema_version": SCHEMA_VERSION, "layers": measured.layers})
    return InferOutcome(metrics, tuple(run.failures), tuple(measured.queries) if measured else ())


def write_times(path: Path, queries: tuple[dict[str, float], ...]) -> None:
    """Write queries as trtexec's --exportTimes does, whole or not at all. Raises OSError."""
    write_text(path, json.dumps(queries, indent=0, allow_nan=False) + "\n")


def _free_bytes(device: int) -> int | None:
    """Return the free memory of a device; None where there is none, which loading the engine will tell in full."""
    try:
        found = native.require("devices")()
        return int(found[device]["memory_free_bytes"])
    except Exception:  # whatever is missing here is missing for the engine too, and told there
        return None


class _Run:
    """One run while it goes on: what it has seen so far."""

    def __init__(self, request: InferRequest, folder: Path, loaded: LoadedEngine, session: TrtSession) -> None:
        self.request, self.folder, self.loaded, self.session = request, folder, loaded, session
        self.failures: list[str] = []
        self._latencies: list[float] = []
        self._first: Mapping[str, NDArray[Any]] = {}
        self._outputs: dict[str, dict[str, Any]] = {}

    def samples(self) -> Iterator[dict[str, Any]]:
        """Execute every sample once and yield its record."""
        waiting = next(source := self._source(), None)
        number = 0
        while waiting is not None:
            sample, waiting = waiting, next(source, None)
            self._first = self._first or sample.inputs
            yield self._one(sample, only=number == 0 and waiting is None)
            number += 1

    def measure(self, say: Note) -> Measurement | None:
        """Measure on the first sample's inputs, if that is asked for."""
        if self.request.measure is None:
            return None
        seconds = self.request.measure.duration_s * (3 if self.request.measure.single_calls else 1)
        say(f"Measuring for about {seconds:.0f} s.")
        return measure(self.loaded, self.session, self._first, self.request.measure, self.request.profile)

    def metrics(self, measured: Measurement | None) -> dict[str, Any]:
        """Return the content of `metrics.json`."""
        request = self.request
        comparison = {"expect": str(request.expect), "rtol": request.rtol, "atol": request.atol}
        shapes = {name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in self._first.items()}
        return {
            "schema_version": SCHEMA_VERSION,
            "status": "complete",
            "passed": not self.failures,
            "failures": self.failures,
            "provenance": dict(self.session.provenance),
            "inputs": {"source": list(request.inputs) or f"random, seed {request.seed}", "first": shapes},
            "state": dict(request.state),
            "samples": len(self._latencies),
            "latency_ms": summarize(self._latencies),
            "outputs": self._outputs,
            "comparison": comparison if request.expect else None,
            "check_finite": request.check_finite,
            "memory": self._memory(),
            "benchmark": measured.metrics if measured else None,
        }

    def _source(self) -> Iterator[Sample]:
        specs = self.session.inputs
        if self.request.inputs:
            return read_samples(self.request.inputs, specs)
        shapes = engine_shapes(self.loaded, self.request.shapes, self.request.profile)
        arrays = engine_inputs(self.loaded, specs, shapes, self.request.seed, self.request.profile)
        return iter([Sample("random", arrays)])

    def _one(self, sample: Sample, *, only: bool) -> dict[str, Any]:
        start = time.perf_counter()
        try:
            outputs = self.session.run(sample.inputs)
        except UsageProblem as error:
            msg = f"Sample {sample.name}: {error}"
            raise UsageProblem(msg) from error
        latency_ms = (time.perf_counter() - start) * 1e3
        self._latencies.append(latency_ms)
        arrays = {name: _saveable(array) for name, array in outputs.items()}
        expect = self.request.expect
        expected = read_expected(expect, sample.name, list(arrays), only=only) if expect else {}
        found = {name: self._judge(sample.name, name, array, expected.get(name)) for name, array in arrays.items()}
        if self.request.save:
            target = self.folder / "outputs" / sample.name
            target.mkdir(parents=True, exist_ok=True)
            for name, array in arrays.items():
                np.save(target / f"{file_name(name)}.npy", array, allow_pickle=False)
        record = {"schema_version": SCHEMA_VERSION, "kind": "sample", "sample": sample.name}
        return {**record, "latency_ms": latency_ms, "outputs": found}

    def _judge(self, sample: str, name: str, array: NDArray[Any], expected: NDArray[Any] | None) -> dict[str, Any]:
        nonfinite = int(array.size - np.count_nonzero(np.isfinite(array))) if array.dtype.kind == "f" else 0
        document: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape), "nonfinite": nonfinite}
        total = self._outputs.setdefault(name, {"dtype": array.dtype.name, "nonfinite": 0})
        total["nonfinite"] += nonfinite
        if nonfinite and self.request.check_finite:
            self.failures.append(f"Output {name} of sample {sample} holds {nonfinite} NaN or infinite values.")
        if expected is not None:
            result = compare(array, expected, self.request.rtol, self.request.atol)
            document["comparison"] = result.document()
            _worst(total, result)
            if not result.passed:
                self.failures.append(_mismatch(sample, name, result))
        return document

    def _memory(self) -> dict[str, Any]:
        return {
            "plan_bytes": len(self.loaded.plan.data),
            "context_scratch_bytes": self.loaded.engine.device_memory_bytes,
            "runner_bytes": self.session.memory_bytes(),
        }


def _saveable(array: NDArray[Any]) -> NDArray[Any]:
    """Return `array`, in float32 where numpy's files do not have its type (bfloat16, fp8)."""
    return array.astype(np.float32) if array.dtype.name.startswith(("bfloat", "float8")) else array


def _worst(total: dict[str, Any], result: Comparison) -> None:
    """Fold one sample's comparison into the worst over all samples."""
    for key in ("max_abs_error", "max_rel_error"):
        total[key] = max(total.get(key, 0.0), getattr(result, key) or 0.0)
    if result.cosine is not None:
        total["min_cosine"] = min(total.get("min_cosine", 1.0), result.cosine)
    for key in ("elements", "mismatches"):
        total[key] = total.get(key, 0) + getattr(result, key)
    total["passed"] = total.get("passed", True) and result.passed


def _mismatch(sample: str, name: str, result: Comparison) -> str:
    if not result.elements:
        return f"Output {name} of sample {sample} has {result.note}."
    note = f"; {result.note}" if result.note else ""
    return (
        f"Output {name} of sample {sample} differs from its reference in {result.mismatches} of {result.elements} "
        f"elements (largest error {result.max_abs_error:.3g}{note})."
    )
