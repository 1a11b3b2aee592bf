"""Where a profile comes from: TensorRT's profiler, ONNX Runtime's, or an earlier run directory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.backends.ort_backend import OrtBackend
from trt_workbench.backends.ort_profile import profiled_runs
from trt_workbench.backends.registry import get_backend
from trt_workbench.backends.trt_options import RunnerChoice
from trt_workbench.engine.layer_times import time_layers
from trt_workbench.errors import UsageProblem
from trt_workbench.measure.loop import measure_calls
from trt_workbench.measure.stability import noise_interval
from trt_workbench.onnxtools.identity import sha256_of
from trt_workbench.onnxtools.node_names import ModelNodes
from trt_workbench.profiling.layers import join_layers
from trt_workbench.profiling.ort_trace import read_trace
from trt_workbench.profiling.records import Operation, ProfileRun, Side, read_records
from trt_workbench.profiling.workload import Workload, feed_for, open_session, random_feed
from trt_workbench.runs.artefacts import Environment, read_environment, read_run
from trt_workbench.runs.machines import other_machine
from trt_workbench.system.environment import collect_environment

# Enough to set the profiler's cost against; a bench measures with care.
_BRIEFLY = SamplingLimits(warmup_ms=100.0, duration_s=0.3)
# What a plan is loaded and run with, once a model is built.
_PLAN_KEYS = (frozenset(RunnerChoice.model_fields) | {"device"}) - {"config", "force", "max_batch"}


@dataclass(frozen=True)
class ProfiledSide:
    """One side of a profile.

    Attributes:
        operations: layers or nodes in the order of execution.
        facts: JSON values for `run.json`.
        work: the same workload for another process; None for an earlier run.
    """

    operations: list[Operation]
    facts: dict[str, Any] = field(default_factory=dict)
    work: Workload | None = None


def profile_workload(work: Workload, nodes: ModelNodes, side: Side, folder: Path) -> ProfiledSide:
    """Profile a workload with the profiler of its runtime.

    Args:
        work: what to run.
        nodes: of the ONNX model.
        side: of the comparison.
        folder: for files that a runtime writes.

    Raises:
        UsageProblem: the model, engine or inputs cannot be used; the runtime has no profiler by layer.
        ComponentMissing: the backend cannot serve here.
        DeviceFailure: the device failed or is out of memory.
    """
    backend = get_backend(work.backend)
    if backend.plans:
        return _tensorrt(work, nodes, side)
    if isinstance(backend, OrtBackend):
        return _onnxruntime(backend, work, nodes, side, folder)
    raise UsageProblem(
        f"Backend {work.backend} has no profiler by layer; use trt or one of ONNX Runtime's, or --nsys or --ncu."
    )


def has_profiler(backend: str) -> bool:
    """Say whether `profile_workload` has a profiler for a backend."""
    found = get_backend(backend)
    return found.plans or isinstance(found, OrtBackend)


def kernels_alone(work: Workload) -> ProfiledSide:
    """Return a profile without layers, for a runtime whose kernels alone can be recorded."""
    note = f"Backend {work.backend} has no profiler by layer; the kernels alone were recorded."
    return ProfiledSide([], {**_facts(work), "notes": [note]}, work)


def earlier_run(directory: Path) -> ProfiledSide:
    """Return the target of an earlier profile as the other side of a comparison.

    Raises:
        UsageProblem: it is no run directory of `profile`, or its files are damaged.
    """
    run = read_run(directory, "profile", ProfileRun)
    records = read_records(directory / "records.jsonl")
    found = [one for one in records if isinstance(one, Operation) and one.side == "target"]
    now = Environment.model_validate(collect_environment(sys.argv))
    differing = other_machine(read_environment(directory), now)
    facts = {**run.sides["target"], "run": str(directory), "other_machine": differing}
    return ProfiledSide([one.model_copy(update={"side": "against"}) for one in found], facts)


def _tensorrt(work: Workload, nodes: ModelNodes, side: Side) -> ProfiledSide:
    from trt_workbench.backends.trt_opening import engine_session

    with open_session(work) as opened:
        session = engine_session(opened)
        assert session is not None
        inputs = random_feed(session, work)
        own = session.measure(inputs, _BRIEFLY).split_ms["compute"]
        found = time_layers(session.loaded, inputs, work.iterations, work.profile)
        plan, provenance = session.loaded.plan, session.record()
    operations = join_layers(found.layers, found.times, nodes.operators, side)
    facts = {
        **_facts(work),
        "plan": str(plan.path),
        "sha256": plan.sha256,
        "precision": provenance["precision"],
        "precision_ran": provenance["precision_ran"],
        **_timed("own", own.tolist()),
        **_timed("profiled", [sum(run) for run in zip(*(times.tolist() for _, times in found.times), strict=True)]),
        "sum_ms": _sum(operations),
        "inputs": {name: list(array.shape) for name, array in inputs.items()},
        "provenance": provenance,
        "notes": [*session.loaded.notes, *found.notes],
    }
    options = {key: value for key, value in work.options.items() if key in _PLAN_KEYS}
    return ProfiledSide(
        operations, facts, work.model_copy(update={"path": plan.path, "options": options, "precision": "fp32"})
    )


def _onnxruntime(backend: OrtBackend, work: Workload, nodes: ModelNodes, side: Side, folder: Path) -> ProfiledSide:
    backend.availability().required(backend.name)
    if work.path.suffix != ".onnx":
        raise UsageProblem(f"Backend {work.backend} loads .onnx files, not this one: {work.path}")
    folder.mkdir(parents=True, exist_ok=True)
    file, provenance = profiled_runs(
        backend, work.path, work.session_options(), lambda specs: feed_for(specs, work),
        work.warmup + work.iterations, folder,
    )  # fmt: skip
    trace = read_trace(file, work.warmup, nodes, side)
    with open_session(work) as session:
        inputs = random_feed(session, work)
        own = measure_calls(lambda: session.run(inputs), _BRIEFLY).latency_ms
        precision_ran = session.record()["precision_ran"]
    facts = {
        **_facts(work),
        "precision_ran": precision_ran,
        "sha256": sha256_of(work.path),
        **_timed("own", own.tolist()),
        **_timed("profiled", trace.run_ms),
        "sum_ms": _sum(trace.operations),
        "inputs": {name: list(array.shape) for name, array in inputs.items()},
        "provenance": dict(provenance),
        "notes": ["ONNX Runtime reports whole microseconds: trust the means of short nodes, not their medians."],
    }
    return ProfiledSide(trace.operations, facts, work)


def _facts(work: Workload) -> dict[str, Any]:
    return {
        "path": str(work.path),
        "backend": work.backend,
        "precision": work.precision if get_backend(work.backend).precisions != ("fp32",) else "as exported",
        "iterations": work.iterations,
        "warmup": work.warmup,
    }


def _timed(which: str, samples: Sequence[float]) -> dict[str, Any]:
    """Return the median of one run's time and its interval, milliseconds."""
    if not samples:
        return {}
    found = noise_interval(samples)
    return {
        f"{which}_ms": found.median,
        f"{which}_interval_ms": [found.low, found.high],
        f"{which}_interval_coverage": found.coverage,
    }


def _sum(operations: list[Operation]) -> float:
    return sum(one.mean_ms or 0.0 for one in operations)
