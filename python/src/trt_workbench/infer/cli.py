"""`infer-engine`: run a plan or a model on arrays, check its outputs, measure it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    note,
    print_json,
    print_parts,
    print_run,
    single_command_app,
)
from trt_workbench.console.options import marked, spelled
from trt_workbench.console.progress import waiting
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.settings import Setting
from trt_workbench.engine.native import open_early
from trt_workbench.infer.settings import InferOutcome, InferRequest, MeasureSettings, Native, OfModels


def refuse_misplaced(context: typer.Context, request: InferRequest) -> None:
    """Raise UsageProblem if an option was given that the plan, or the backend of the model, does not have.

    Args:
        context: separates the options that were given from defaults.
        request: names the plan or the model, and the backend as it was given.
    """
    from trt_workbench.backends.registry import AUTO, get_backend, runs_plans

    given = [name for name in context.params if _is_given(context, name)]
    model, backend, is_model = request.model, request.backend, request.is_model
    of_models = marked(InferRequest, OfModels)
    native = marked(InferRequest, Native) | marked(MeasureSettings, Native)
    is_native = runs_plans(backend)
    if not is_model and not is_native and backend != AUTO:
        raise UsageProblem(
            f"A plan runs only on TensorRT, not on {backend}; omit --backend, or pass the ONNX file: {model}"
        )
    if not is_model and (misplaced := [name for name in given if name in of_models]):
        flag, _ = of_models[misplaced[0]]
        raise UsageProblem(
            f"{flag} applies to models, but this is a plan, which is already built; omit it, or pass the ONNX file: "
            f"{model}"
        )
    if is_native and "cpu_threads" in given:
        raise UsageProblem("--cpu-threads is for backends that compute on the CPU, which TensorRT does not. Omit it.")
    if is_model and not is_native and (misplaced := [name for name in given if name in native]):
        if "device" in misplaced and backend != AUTO:
            get_backend(backend).device_option(request.device)
        flags, marker = native[misplaced[0]]
        which = f"Backend {backend}" if backend != AUTO else "Backend auto, which never builds an engine,"
        instead = f"; {marker.instead}" if marker.instead else ""
        raise UsageProblem(
            f"{which} has no {flags}: only TensorRT's own runner and bench have that (a plan, or --backend trt); a "
            f"session is measured by single calls{instead}."
        )


def refuse_unused(settings: MeasureSettings, export_times: Path | None) -> None:
    """Raise UsageProblem if an option says how to measure, where nothing is measured."""
    options = spelled(MeasureSettings)
    usual = asdict(MeasureSettings(spin=settings.spin, cuda_graph=settings.cuda_graph))  # these two serve every run
    changed = {name: value for name, value in asdict(settings).items() if value != usual[name]}
    unused = [f"--no-{options[name][2:]}" if value is False else options[name] for name, value in changed.items()]
    if export_times:
        unused.append("--export-times")
    if unused:
        raise UsageProblem(f"{unused[0]} needs --bench: with --input or --no-bench, nothing is measured.")


def _is_given(context: typer.Context, name: str) -> bool:
    # by its name: where the enumeration lives differs between versions of typer
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@handled
def infer_engine(
    context: typer.Context,
    request: InferRequest,
    *,
    bench: Annotated[
        bool | None, Setting("Measure; the default without inputs.", "Measuring", "--bench/--no-bench")
    ] = None,
    settings: MeasureSettings,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Run an engine or a model on arrays, check it, or measure it.

    All results are written to a run directory.
    """
    if not request.is_model:
        open_early(request.device)  # of a model it takes as long to tell that a backend builds engines
    refuse_misplaced(context, request)
    if request.is_model and request.is_native:
        open_early(request.device)
    from trt_workbench.infer.run import check_times, write_times

    if request.expect is None and (request.rtol, request.atol) != (InferRequest.rtol, InferRequest.atol):
        raise UsageProblem(
            "--rtol and --atol are tolerances of a comparison; pass the reference outputs with --expect."
        )
    if not request.inputs if bench is None else bench:
        request = replace(request, measure=settings)
    else:
        refuse_unused(settings, request.export_times)
    if request.export_times:
        check_times(request.export_times)
    outcome, directory = _run(request, output)
    if request.export_times:
        write_times(request.export_times, outcome.queries)
    if as_json:
        print_json({**outcome.metrics, "directory": str(directory)})
    else:
        from trt_workbench.infer.tables import shown

        print_parts(shown(outcome))
        print_run(directory)
    if outcome.failures:
        more = f" And {len(outcome.failures) - 1} more like it." if len(outcome.failures) > 1 else ""
        raise CheckFailed(f"{outcome.failures[0]}{more} Full report: {directory / 'metrics.json'}")


def _run(request: InferRequest, output: Path | None) -> tuple[InferOutcome, Path]:
    from trt_workbench.core.directory import run_directory
    from trt_workbench.infer.run import infer

    with run_directory("infer-engine", output, described=False) as directory, waiting("Loading") as update:

        def step(number: int) -> None:
            directory.describe()
            update(f"{counted(number, 'sample')} done")

        outcome = infer(request, directory.path, note, step)
        return outcome, directory.commit("complete", passed=not outcome.failures, backend=outcome.metrics["backend"])


def main() -> None:
    """Run `infer-engine`."""
    single_command_app(infer_engine)()
