"""`infer-engine`: run a plan or a model on arrays, check its outputs, measure it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    print_json,
    print_note,
    single_command_app,
    stderr_console,
)
from trt_workbench.console.progress import waiting
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.settings import Setting
from trt_workbench.infer.refusals import refuse_misplaced, refuse_unused
from trt_workbench.infer.settings import InferOutcome, InferRequest, MeasureSettings


@handled
def infer_engine(
    context: typer.Context,
    request: InferRequest,
    *,
    bench: Annotated[
        bool | None, Setting("Measure; by default if no inputs are given.", "Measuring", "--bench/--no-bench")
    ] = None,
    settings: MeasureSettings,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Run an engine or a model on arrays, check it, or measure it.

    Everything lands in a run directory.
    """
    refuse_misplaced(context, request)
    from trt_workbench.infer.run import check_times, write_times

    if request.expect is None and (request.rtol, request.atol) != (InferRequest.rtol, InferRequest.atol):
        raise UsageProblem(
            "--rtol and --atol are tolerances of a comparison; name the reference outputs with --expect."
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
        from trt_workbench.infer.tables import print_outcome

        print_outcome(outcome, directory)
    if outcome.failures:
        more = f" And {len(outcome.failures) - 1} more like it." if len(outcome.failures) > 1 else ""
        raise CheckFailed(f"{outcome.failures[0]}{more} All of them: {directory / 'metrics.json'}")


def _run(request: InferRequest, output: Path | None) -> tuple[InferOutcome, Path]:
    from trt_workbench.core.directory import run_directory
    from trt_workbench.infer.run import infer

    notes = stderr_console()

    with run_directory("infer-engine", output) as directory, waiting("Loading") as update:
        note = partial(print_note, notes)
        outcome = infer(request, directory.path, note, lambda number: update(f"{number} samples done"))
        return outcome, directory.commit("complete", passed=not outcome.failures, backend=outcome.metrics["backend"])


def main() -> None:
    """Run `infer-engine`."""
    single_command_app(infer_engine)()
