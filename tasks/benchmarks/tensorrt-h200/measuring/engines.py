"""Plans of the measured engines: building, finding, loading, and inputs for them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from measuring.cases import DETECTOR_BATCHES, ENGINES, EngineCase
from measuring.records import Budget, Recorder, say


def plan_path(folder: Path, engine: str) -> Path:
    """Return where the plan of an engine is kept."""
    return folder / "plans" / f"{engine}.plan"


def build_all(recorder: Recorder, plans: Path, models: list[Path], names: list[str], budget: Budget) -> int:
    """Build the engines that are not there yet; return how many are still missing or failed.

    The first is built whatever the budget is, so that every call gets on; another one if the longest build so far fits.
    """
    from trt_workbench.core.errors import WorkbenchError

    left, longest_s = 0, 0.0
    for name in names:
        if plan_path(plans, name).is_file():
            continue
        model = next((path for folder in models if (path := folder / ENGINES[name].model).is_file()), None)
        if model is None or (longest_s and not budget.allows(longest_s)):
            say(f"{name}: {'no model' if model is None else 'left for later'}")
            left += 1
            continue
        start = time.monotonic()
        try:
            _build(recorder, plan_path(plans, name), model, name)
        except WorkbenchError as error:
            say(f"{name}: FAILED {error}")
            recorder.add("build", {"engine": name, "error": str(error)})
            left += 1
        longest_s = max(longest_s, time.monotonic() - start)
    return left


def _build(recorder: Recorder, path: Path, model: Path, name: str) -> None:
    from trt_workbench.engine.builder import build, export, prepare_build
    from trt_workbench.engine.options import BuildSettings
    from trt_workbench.model.opened import Model

    case = ENGINES[name]
    asked = {"precision": case.precision, "profiles": profiles(case, model), "tactic_sources": case.tactic_sources}
    settings = BuildSettings.model_validate({**asked, "optimization_level": case.level})
    start = time.perf_counter()
    built = build(prepare_build(Model.open(model), settings), note=say)
    export(built.plan, path)
    wall_s = time.perf_counter() - start
    manifest = built.manifest
    facts = {
        "engine": name,
        "precision": case.precision,
        "optimization_level": case.level,
        "tactic_sources": case.tactic_sources,
        "wall_s": wall_s,
        "build_s": manifest.build_s,
        "from_cache": not built.built,
        "size_bytes": manifest.engine.size_bytes,
        "plan_sha256": manifest.engine.sha256,
        "model_sha256": manifest.model.sha256,
        "layer_count": manifest.layer_count,
        "tensorrt": manifest.tensorrt_version,
        "warnings": len(manifest.warnings),
    }
    recorder.add("build", {**facts, **_first_run(path, case)})
    say(f"{name}: built in {wall_s:.1f} s, {manifest.engine.size_bytes / 1e6:.1f} MB, {manifest.layer_count} layers")


def profiles(case: EngineCase, model: Path) -> tuple[str, ...]:
    """Return the case's profiles; for a model whose batch alone is dynamic, one from a single image to eight."""
    if case.profiles:
        return case.profiles
    from trt_workbench.model.opened import Model

    found = []
    for tensor in Model.open(model).facts.inputs:
        if tensor.is_dynamic and tensor.shape:
            rest = "x".join(str(dim) for dim in tensor.shape[1:])
            found.append(f"{tensor.name}:" + "/".join(f"{batch}x{rest}" for batch in DETECTOR_BATCHES))
    return (",".join(found),) if found else ()


def _first_run(path: Path, case: EngineCase) -> dict[str, Any]:
    from trt_workbench.engine import native

    engine = load(path)
    with native.translated(), native.require("Runner")(engine) as runner:
        outputs = runner.run(random_inputs(engine, case))
        memory = runner.memory_bytes()
    return {
        "outputs": {name: list(array.shape) for name, array in outputs.items()},
        "finite": all(bool(np.isfinite(array.astype(np.float64)).all()) for array in outputs.values()),
        "memory_bytes": dict(memory),
    }


def load(path: Path) -> Any:
    """Return the native engine of a plan."""
    from trt_workbench.engine.loading import load_engine, read_plan

    return load_engine(read_plan(path)).engine


def random_inputs(engine: Any, case: EngineCase, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return inputs like trtexec's: uniform in [-1, 1], of the case's shapes, a dynamic batch being 1."""
    rng = np.random.default_rng(seed)
    made = {}
    for tensor in engine.inputs:
        shape = case.shapes.get(tensor.name) or tuple(1 if dim < 0 else dim for dim in tensor.shape)
        made[tensor.name] = rng.uniform(-1.0, 1.0, shape).astype(tensor.dtype)
    return made
