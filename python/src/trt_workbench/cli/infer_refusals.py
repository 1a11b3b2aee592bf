"""Options of `infer-engine` that do not fit what is run: refused, with what to use instead."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trt_workbench.errors import UsageProblem

if TYPE_CHECKING:
    from trt_workbench.measure.queries import MeasureSettings

# Parameters of the command that only TensorRT's runner and the core's bench have: the flags, and what serves instead.
_NATIVE = {
    "streams": ("--streams", ""),
    "threads": ("--threads", "--cpu-threads sets the processors of a backend"),
    "depth": ("--depth", ""),
    "transfers": ("--transfers/--no-transfers", ""),
    "single_calls": ("--single-calls/--no-single-calls", ""),
    "layer_times": ("--layer-times", "`trtw profile` times the nodes of every backend"),
    "profiler": ("--profiler", "`trtw profile` runs Nsight Systems on every backend"),
    "export_times": ("--export-times", "the run directory's records.jsonl keeps every call"),
    "cuda_graph": (
        "--cuda-graph/--no-cuda-graph",
        "ort-cuda has --option cuda_graph=true, ort-trt --option trt_cuda_graph_enable=true, torch-compile --option "
        "mode=reduce-overhead",
    ),
    "spin": ("--spin/--block", "ort-cpu has --option allow_spinning=true"),
    "profile": ("--profile", ""),
    "state": ("--state", ""),
    "trust": ("--trust", "torch has --option trust=true for .pt2 files"),
    "allow_host_code": ("--allow-host-code", ""),
    "plugin": ("--plugin", ""),
    "weight_streaming_budget": ("--weight-streaming-budget", ""),
    "device": ("--device", "ort-cuda and ort-trt have --option device_id=1, torch --option device=cuda:1"),
}
_OF_MODELS = {"precision": "--precision", "option": "--option", "cpu_threads": "--cpu-threads"}


def refuse_misplaced(context: typer.Context, model: Path, backend: str) -> None:
    """Raise UsageProblem if an option was given that the plan, or the backend of the model, does not have.

    Args:
        context: tells the options that were given from defaults.
        model: the plan or the model.
        backend: as it was given.
    """
    from trt_workbench.backends.registry import AUTO, runs_plans
    from trt_workbench.measure.request import MODEL_SUFFIXES

    given = [name for name in context.params if _is_given(context, name)]
    is_model = model.suffix in MODEL_SUFFIXES
    is_native = runs_plans(backend)
    if not is_model and not is_native and backend != AUTO:
        raise UsageProblem(
            f"A plan runs on TensorRT alone, not on {backend}; leave --backend out, or name the ONNX file: {model}"
        )
    if not is_model and (misplaced := [name for name in given if name in _OF_MODELS]):
        flag = _OF_MODELS[misplaced[0]]
        raise UsageProblem(
            f"{flag} is for models, and this is a plan, built as it is; leave it out, or name the ONNX file: {model}"
        )
    if is_native and "cpu_threads" in given:
        raise UsageProblem(
            "--cpu-threads is for backends that compute on the processor; TensorRT does not. Leave it out."
        )
    if is_model and not is_native and (misplaced := [name for name in given if name in _NATIVE]):
        flags, instead = _NATIVE[misplaced[0]]
        which = f"Backend {backend}" if backend != AUTO else "Backend auto, which never builds an engine,"
        instead = f"; {instead}" if instead else ""
        raise UsageProblem(
            f"{which} has no {flags}: that is of TensorRT's own runner and bench (a plan, or --backend trt), and a "
            f"session is measured by single calls{instead}."
        )


def refuse_unused(settings: MeasureSettings, export_times: Path | None) -> None:
    """Raise UsageProblem if an option says how to measure, where nothing is measured."""
    options = {"warmup_ms": "--warmup", "duration_s": "--duration"}
    options |= {name: f"--no-{name.replace('_', '-')}" for name in ("transfers", "single_calls")}
    usual = asdict(type(settings)(spin=settings.spin, cuda_graph=settings.cuda_graph))  # these two serve every run
    unused = [
        options.get(name, f"--{name.replace('_', '-')}") for name, v in asdict(settings).items() if v != usual[name]
    ]
    if export_times:
        unused.append("--export-times")
    if unused:
        raise UsageProblem(f"{unused[0]} needs --bench: with --input or --no-bench, nothing is measured.")


def _is_given(context: typer.Context, name: str) -> bool:
    # by its name: where the enumeration lives differs between versions of typer
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
