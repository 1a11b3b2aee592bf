"""Whether a model can be compiled for cards that are not here: by TensorRT-RTX's compiler, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.workers import CRASH, TIMEOUT, WorkerFailure, WorkerProcess
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.opened import Model
from trt_workbench_rtx.cards import TIME_LIMIT_S, titled
from trt_workbench_rtx.compiler import Compiled, compile_model
from trt_workbench_rtx.document import CheckedTarget, TargetCheck, TargetLayers
from trt_workbench_rtx.layers import BuiltLayer, built_precision
from trt_workbench_rtx.refusals import fp64_notes

TARGET = "trt_workbench_rtx.run"


def compiled(request: dict[str, Any]) -> dict[str, Any]:
    """Compile for one architecture, in a worker process. Raises WorkbenchError as `compile_model`."""
    profiles = TypeAdapter(tuple[Profile, ...]).validate_python(request["profiles"])
    return compile_model(Path(request["model"]), request["sm"], profiles).model_dump(mode="json")


def check_targets(
    model: Model,
    profiles: Sequence[Profile],
    asked: Mapping[str, Sequence[str]],
    logs: Path,
    *,
    time_limit_s: float = TIME_LIMIT_S,
    update: Callable[[str], None] = lambda _: None,
) -> tuple[TargetCheck, TargetLayers]:
    """Compile `model` for each architecture.

    Args:
        model: what is compiled.
        profiles: ranges of shapes of dynamic inputs.
        asked: the architectures, each with the names by which it was asked for.
        logs: folder to make, for what the compiler says.
        time_limit_s: seconds that one build may take.
        update: called with what is being done.

    Raises:
        ComponentMissing: the compiler's package cannot be opened.
        UsageProblem: a profile does not fit the model.
    """
    graph = read_precision(model)
    targets, layers, version = [], {}, None
    logs.mkdir()
    for sm, names in asked.items():
        update(f"Compiling for {titled(sm, names)}")
        found = _compiled(model.path, profiles, sm, logs / f"{sm}.log", time_limit_s)
        targets.append(_target(sm, names, found, calibrated=graph.calibrated))
        if isinstance(found, Compiled):
            version = found.version
            if found.layers:
                layers[sm] = found.layers
    check = TargetCheck(
        model=str(model.path),
        model_sha256=model.sha256,
        model_size_bytes=model.size_bytes,
        graph_precision=graph.document(),
        compiler_version=version,
        profiles=tuple(map(str, profiles)),
        passed=False,
        targets=tuple(targets),
        notes=fp64_notes(model.proto.graph),
    )
    return check.model_copy(update={"passed": check.reach.passed}), TargetLayers(layers=layers)


def _compiled(
    model: Path, profiles: Sequence[Profile], sm: str, log: Path, time_limit_s: float
) -> Compiled | WorkerFailure:
    """Compile in a process of its own, so that nothing of one build reaches the next; a crash is returned."""
    request = {"verb": "compiled", "model": str(model.resolve()), "sm": sm, "profiles": list(map(str, profiles))}
    try:
        with WorkerProcess(log, TARGET) as worker:
            found = Compiled.model_validate(worker.ask(request, time_limit_s))
    except WorkerFailure as failure:
        if isinstance(failure.error, ComponentMissing | UsageProblem):
            raise failure.error from failure
        return failure
    with log.open("a", encoding="utf-8") as file:
        file.writelines(f"{text}\n" for text in found.log)
    return found


def _target(sm: str, asked: Sequence[str], compiled: Compiled | WorkerFailure, *, calibrated: bool) -> CheckedTarget:
    if isinstance(compiled, WorkerFailure):
        ended = {
            CRASH: "the compiler crashed: ",
            TIMEOUT: "the compiler was stopped at its limit (--time-limit): ",
        }.get(compiled.kind, "")
        return CheckedTarget(sm=sm, asked=tuple(asked), outcome="failed", reason=f"{ended}{compiled}")
    return CheckedTarget(
        sm=sm,
        asked=tuple(asked),
        outcome="refused" if compiled.refusal else "built",
        reason=compiled.refusal.text if compiled.refusal else "",
        refusal=compiled.refusal,
        engine_size_bytes=compiled.engine_size_bytes,
        build_s=compiled.build_s,
        precision=_precision(compiled.layers, calibrated=calibrated),
        layers=len(compiled.layers),
    )


def _precision(layers: Sequence[BuiltLayer], *, calibrated: bool) -> dict[str, object] | None:
    return replace(built_precision(layers), calibrated=calibrated).document() if layers else None
