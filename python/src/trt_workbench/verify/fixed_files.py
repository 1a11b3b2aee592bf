"""Files of a workaround: the engine with a manifest that says so, or the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.builder import export
from trt_workbench.engine.loading import read_plan
from trt_workbench.engine.manifest import WorkaroundRecord, check_destination
from trt_workbench.engine.written_models import check_model_output, write_model
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.settings import MODEL_SUFFIX
from trt_workbench.verify.workarounds import Fixed, WorkaroundResult


def check_output(request: VerifyRequest, output: Path) -> None:
    """Check where the result is to be written, before the work begins.

    Raises:
        UsageProblem: it is a folder, or a file of another kind than what is made.
    """
    is_model = output.suffix == MODEL_SUFFIX
    if is_model == request.runs_plans:
        kind = "a plan, such as model.plan" if request.runs_plans else "a model, such as model.onnx"
        raise UsageProblem(f"--fix-out on {request.backend} takes the name of {kind}, not {output}")
    sources = [path for path in (request.target, request.model) if path]
    if is_model:
        check_model_output(output, sources)
    else:
        check_destination(output, sources)


def result_name(request: VerifyRequest) -> str:
    """Return what the result is called in a run directory."""
    return f"{request.target.stem}-fixed{'.plan' if request.runs_plans else MODEL_SUFFIX}"


def write_fixed(found: Fixed, request: VerifyRequest, output: Path) -> Path:
    """Write what the way that is taken made: of the backend `trt` the plan with its manifest, else the model.

    Args:
        found: with a way that is taken.
        request: that was wrong.
        output: the plan or model to write.

    Raises:
        OSError: it cannot be written.
    """
    taken = found.chosen
    assert taken is not None
    if taken.plan is None:
        write_model(Model.open(taken.request.target).load(), output)
        return output
    plan = read_plan(taken.plan)
    assert plan.manifest is not None
    marked = plan.manifest.model_copy(update={"way_around": way_around(found, taken, request)})
    export(replace(plan, manifest=marked), output)
    return output


def way_around(found: Fixed, taken: WorkaroundResult, request: VerifyRequest) -> WorkaroundRecord:
    """Return what a manifest says of a way that was taken."""
    assert taken.milliseconds is not None
    return WorkaroundRecord(
        name=taken.name,
        model_sha256=sha256_of(request.model or request.target),
        verdict=taken.verdict,
        latency_ms=taken.milliseconds,
        plain_latency_ms=found.plain_milliseconds,
        rows=taken.request.options.get("rows"),
    )
