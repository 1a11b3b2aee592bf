"""`infer-engine`: run a plan or a model on arrays, check its outputs, measure it."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trt_workbench.cli.common import (
    BackendExtraOption,
    DebugOption,
    DeviceOption,
    HostCodeOption,
    JsonOption,
    OutputOption,
    ProfileOption,
    SeedOption,
    ShapeOption,
    TrustOption,
    handled,
    panel_option,
    parse_options,
    print_json,
    print_note,
    single_command_app,
    stderr_console,
)
from trt_workbench.cli.infer_refusals import refuse_misplaced, refuse_unused
from trt_workbench.errors import CheckFailed, UsageProblem

if TYPE_CHECKING:
    from trt_workbench.measure.request import InferOutcome

_RTOL, _ATOL = 1e-3, 1e-4
_MODEL, _DATA, _CHECKS = "A model instead of a plan", "Inputs and outputs", "Checks"
_BENCH, _RUNNING = "Measuring", "Running on TensorRT"


@handled
def infer_engine(
    context: typer.Context,
    model: Annotated[
        Path,
        typer.Argument(help="Plan made by `build-engine`, or a model (.onnx, and .pt2 on torch).", metavar="MODEL"),
    ],
    *,
    backend: Annotated[
        str,
        panel_option(
            "Runtime that executes a model, see `trtw backends`; trt builds an engine. Plans run on trt.", _MODEL
        ),
    ] = "auto",
    precision: Annotated[str, panel_option("Precision that the backend is asked for.", _MODEL)] = "fp32",
    option: BackendExtraOption = None,
    cpu_threads: Annotated[
        int | None, panel_option("Processors that the backend may use; all by default.", _MODEL, min=1)
    ] = None,
    inputs: Annotated[
        list[str] | None,
        panel_option(
            "FILE, FOLDER, NAME=FILE or NAME=FOLDER of .npy or .npz; repeatable; random inputs without it.",
            _DATA,
            "--input",
            "-i",
        ),
    ] = None,
    shape: ShapeOption = None,
    save: Annotated[bool, panel_option("Write outputs/SAMPLE/NAME.npy into the run directory.", _DATA)] = True,
    expect: Annotated[
        Path | None, panel_option("Folder of reference outputs; exit code 1 if they differ.", _CHECKS)
    ] = None,
    rtol: Annotated[float, panel_option("Relative tolerance.", _CHECKS, min=0.0)] = _RTOL,
    atol: Annotated[float, panel_option("Absolute tolerance.", _CHECKS, min=0.0)] = _ATOL,
    check_finite: Annotated[
        bool, panel_option("Exit code 1 if an output holds NaN or infinity.", _CHECKS, "--check-finite")
    ] = False,
    bench: Annotated[
        bool | None, panel_option("Measure; by default if no inputs are given.", _BENCH, "--bench/--no-bench")
    ] = None,
    warmup: Annotated[float, panel_option("Milliseconds before anything counts.", _BENCH, min=0.0)] = 200.0,
    duration: Annotated[float, panel_option("Least seconds of measuring.", _BENCH, min=0.0)] = 3.0,
    iterations: Annotated[int, panel_option("Least number of queries a stream.", _BENCH, min=1)] = 10,
    streams: Annotated[int, panel_option("Inference streams at once.", _BENCH, min=1)] = 1,
    threads: Annotated[
        bool, panel_option("One host thread for each stream, or one for all.", _BENCH, "--threads/--no-threads")
    ] = False,
    depth: Annotated[int, panel_option("Queries in flight a stream; 1 exposes the transfers.", _BENCH, min=1)] = 2,
    transfers: Annotated[
        bool, panel_option("Copy inputs and outputs at every query.", _BENCH, "--transfers/--no-transfers")
    ] = True,
    single_calls: Annotated[
        bool,
        panel_option(
            "Also time single calls end to end, from C++ and Python.", _BENCH, "--single-calls/--no-single-calls"
        ),
    ] = True,
    layer_times: Annotated[bool, panel_option("Also time every layer (layers.json).", _BENCH, "--layer-times")] = False,
    percentiles: Annotated[
        str | None, panel_option("Further percentiles, such as 75,99.9; 50, 90, 95 and 99 are always there.", _BENCH)
    ] = None,
    profiler: Annotated[
        bool, panel_option("Bound the timed part for Nsight (cudaProfilerStart and -Stop).", _BENCH, "--profiler")
    ] = False,
    export_times: Annotated[
        Path | None, panel_option("Also write every query's times as trtexec's --exportTimes does.", _BENCH)
    ] = None,
    cuda_graph: Annotated[
        bool, panel_option("Replay the engine as a CUDA graph.", _RUNNING, "--cuda-graph/--no-cuda-graph")
    ] = True,
    spin: Annotated[
        bool, panel_option("Wait by polling (least latency, a busy core) or asleep.", _RUNNING, "--spin/--block")
    ] = True,
    profile: ProfileOption = None,
    state: Annotated[
        list[str] | None,
        panel_option("OUTPUT=INPUT: stays on the device, from zeros; samples are one sequence; repeatable.", _RUNNING),
    ] = None,
    trust: TrustOption = False,
    allow_host_code: HostCodeOption = False,
    plugin: Annotated[
        list[Path] | None,
        panel_option("Plugin library to load beside those that the manifest names; repeatable.", _RUNNING),
    ] = None,
    weight_streaming_budget: Annotated[
        str | None,
        panel_option(
            "Device memory in bytes for the weights of a plan built with --weight-streaming, or auto.", _RUNNING
        ),
    ] = None,
    device: DeviceOption = 0,
    output: OutputOption = None,
    as_json: JsonOption = False,
    seed: SeedOption = 0,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Run a TensorRT engine, or a model on any backend, on arrays; check its outputs, or measure it.

    Everything lands in a run directory.
    """
    refuse_misplaced(context, model, backend)
    from trt_workbench.measure.infer import write_times
    from trt_workbench.measure.queries import MeasureSettings
    from trt_workbench.measure.random_arrays import parse_shapes
    from trt_workbench.measure.request import InferRequest
    from trt_workbench.measure.state import parse_state

    if expect is None and (rtol, atol) != (_RTOL, _ATOL):
        raise UsageProblem(
            "--rtol and --atol are tolerances of a comparison; name the reference outputs with --expect."
        )
    measuring = not inputs if bench is None else bench
    settings = MeasureSettings(
        warmup_ms=warmup,
        duration_s=duration,
        iterations=iterations,
        streams=streams,
        threads=threads,
        depth=depth,
        spin=spin,
        cuda_graph=cuda_graph,
        transfers=transfers,
        profiler=profiler,
        single_calls=single_calls,
        layer_times=layer_times,
        percentiles=_percentiles(percentiles),
    )
    if not measuring:
        refuse_unused(settings, export_times)
    request = InferRequest(
        model=model,
        backend=backend,
        precision=precision,
        options=parse_options(option),
        cpu_threads=cpu_threads,
        inputs=tuple(inputs or ()),
        shapes=parse_shapes(shape or ()),
        seed=seed,
        save=save,
        expect=expect,
        rtol=rtol,
        atol=atol,
        check_finite=check_finite,
        measure=settings if measuring else None,
        profile=profile,
        cuda_graph=cuda_graph,
        spin=spin,
        state=parse_state(state or ()),
        trust=trust,
        allow_host_code=allow_host_code,
        plugins=tuple(plugin or ()),
        weight_streaming_budget=_budget(weight_streaming_budget),
        device=device,
    )
    outcome, directory = _run(request, output)
    if export_times:
        write_times(export_times, outcome.queries)
    if as_json:
        print_json({**outcome.metrics, "directory": str(directory)})
    else:
        from trt_workbench.cli.infer_tables import print_outcome

        print_outcome(outcome, directory)
    if outcome.failures:
        more = f" And {len(outcome.failures) - 1} more like it." if len(outcome.failures) > 1 else ""
        raise CheckFailed(f"{outcome.failures[0]}{more} All of them: {directory / 'metrics.json'}")


_DIGITS = 18  # of a number that 64 bits hold


def _budget(given: str | None) -> int | Literal["auto"] | None:
    if given is None:
        return None
    if given == "auto":
        return "auto"
    if given.isascii() and given.isdecimal() and len(given) <= _DIGITS:
        return int(given)
    raise UsageProblem(f"--weight-streaming-budget is a number of bytes or auto, not {given!r}.")


def _run(request: Any, output: Path | None) -> tuple[InferOutcome, Path]:
    from trt_workbench.measure.infer import infer
    from trt_workbench.runs.directory import run_directory

    notes = stderr_console()

    with run_directory("infer-engine", output) as directory, contextlib.ExitStack() as stack:
        waiting = stack.enter_context(notes.status("Loading")) if notes.is_terminal else None

        def step(number: int) -> None:
            if waiting:
                waiting.update(f"{number} samples done")

        outcome = infer(request, directory.path, partial(print_note, notes), step)
        return outcome, directory.commit("complete", passed=not outcome.failures, backend=outcome.metrics["backend"])


def _percentiles(text: str | None) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        found = (-1.0,)
    if not all(0 <= percent <= 100 for percent in found):
        raise UsageProblem(f"--percentiles takes numbers from 0 to 100 apart by commas, not {text!r}.")
    return found


def main() -> None:
    """Run `infer-engine`."""
    single_command_app(infer_engine)()
