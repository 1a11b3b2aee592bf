"""Where a profile comes from: TensorRT's profiler, ONNX Runtime's, or an earlier run directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.abilities import Profiles
from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.loop import measure_calls
from trt_workbench.backends.measure.stability import contended, noise_interval
from trt_workbench.backends.measure.telemetry import TelemetrySampler
from trt_workbench.backends.measuring import BRIEFLY
from trt_workbench.backends.profiling import Operation, ProfiledRuns
from trt_workbench.backends.registry import get_backend, gpu_in_use
from trt_workbench.backends.trt.choice import RunnerChoice
from trt_workbench.core.artefacts import Environment, read_environment, read_run
from trt_workbench.core.documents import Strict
from trt_workbench.core.environment import collect_environment
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.machines import other_machine
from trt_workbench.engine.loading import LoadedEngine
from trt_workbench.model.node_names import ModelNodes, read_nodes
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.profile.document import ProfileRun, read_records, with_shares
from trt_workbench.profile.workload import Workload, feed_for, open_session, random_feed

# What a plan is loaded and run with, once a model is built.
_PLAN_KEYS = (RunnerChoice.model_fields.keys() | {"device"}) - {"config", "force", "max_batch"}


class ProfiledSide(Strict):
    """One side of a profile.

    Attributes:
        operations: layers or nodes in the order of execution.
        facts: JSON values for `run.json`.
        work: the same workload for another process; None for an earlier run.
    """

    operations: list[Operation]
    facts: dict[str, Any]
    work: Workload | None = None


def profiled(request: dict[str, Any]) -> dict[str, Any]:
    """Profile a workload with the profiler of its runtime: what a worker is asked for.

    Args:
        request: the `work`; its `side` of the comparison; the `model` of a plan, None for the work's own; the `folder`
            for files that a runtime writes; whether `kernels` are recorded, which do for a runtime without a profiler.

    Returns:
        A ProfiledSide as JSON values.

    Raises:
        UsageProblem: the model, engine or inputs cannot be used, or the runtime has no profiler by layer.
        ComponentMissing: the backend cannot serve here.
        DeviceFailure: the device failed or is out of memory.
    """
    work, shapes = Workload.model_validate(request["work"]), dict[str, list[int]]()
    model = request["model"] or (work.path if work.path.suffix == ".onnx" else None)
    nodes = read_nodes(Model.open(Path(model))) if model else ModelNodes()

    def feed(specs: Sequence[TensorSpec], engine: LoadedEngine | None = None) -> dict[str, NDArray[Any]]:
        drawn = feed_for(specs, work, engine)
        shapes.update({name: list(array.shape) for name, array in drawn.items()})
        return drawn

    runs = ProfiledRuns(feed, nodes, Path(request["folder"]), work.warmup, work.iterations, work.profile)
    backend = get_backend(work.backend)
    if not isinstance(backend, Profiles):
        if request["kernels"]:
            note = f"Backend {work.backend} has no layer profiler; only the kernels were recorded."
            return {"operations": [], "facts": {**_facts(work), "notes": [note]}, "work": request["work"]}
        raise UsageProblem(
            f"Backend {work.backend} has no profiler by layer; use trt or one of ONNX Runtime, or --nsys or --ncu."
        )
    with TelemetrySampler(os.getpid(), gpu_in_use(work.backend, work.options)) as watched:
        found = backend.profile(work.path, work.session_options(), runs)
        own, ran = _measured(work) if found.own_ms is None else (found.own_ms, found.provenance["precision_ran"])
    operations = with_shares([one.model_copy(update={"side": request["side"]}) for one in found.operations])
    facts = {
        **_facts(work),
        **({} if found.built else {"sha256": sha256_of(work.path)}),
        "precision_ran": ran,
        **_timed("own", own),
        **_timed("profiled", found.run_ms),
        "sum_ms": sum(one.mean_ms or 0.0 for one in operations),
        "inputs": shapes,
        "provenance": dict(found.provenance),
        "unstable": contended(watched.result),
        "notes": list(found.notes),
        **found.facts,
    }
    return ProfiledSide(
        operations=operations, facts=facts, work=work if found.built is None else _of_engine(work, found.built)
    ).model_dump(mode="json")


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
    return ProfiledSide(operations=[one.model_copy(update={"side": "against"}) for one in found], facts=facts)


def _measured(work: Workload) -> tuple[list[float], Any]:
    """Return the milliseconds of calls without a profiler, and what they computed in."""
    with open_session(work) as session:
        inputs = random_feed(session, work)
        own = measure_calls(lambda: session.run(inputs), BRIEFLY).latency_ms
        return own.tolist(), session.record()["precision_ran"]


def _of_engine(work: Workload, plan: Path) -> Workload:
    """Return the same work on the engine that was built for it."""
    options = {key: value for key, value in work.options.items() if key in _PLAN_KEYS}
    return work.model_copy(update={"path": plan, "options": options, "precision": "fp32"})


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
