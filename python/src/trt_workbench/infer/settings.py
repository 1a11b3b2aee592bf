"""What `infer-engine` is asked for, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import (
    MORE,
    BackendOptions,
    Device,
    HostCode,
    Precision,
    ProfileIndex,
    Seed,
    Setting,
    Shapes,
    Trust,
    parts,
)

# Every other file is taken for a plan, whatever its suffix.
MODEL_SUFFIXES = (".onnx", ".pt2")
Note = Callable[[str], None]
Step = Callable[[int], None]

ROUNDS = 5
"""In which ways to measure take turns."""
CALLS = ("buffer", "numpy", "pinned", "torch", "view")
"""Where a user's arrays lie: in the slot's own buffer, ordinary or page-locked memory, on the GPU, strided."""

_DATA, _CHECKS = "Inputs and outputs", "Checks"
_BENCH, _RUNNING = "Measuring", "Running on TensorRT"
_DIGITS = 18  # of a number that 64 bits hold


@dataclass(frozen=True)
class Native:
    """Marks a setting that TensorRT's runner and the core's bench alone have, with what serves instead elsewhere."""

    instead: str = ""


class OfModels:
    """Marks a setting that plans do not have."""


def read_percentiles(option: str, text: str) -> tuple[float, ...]:
    """Return the numbers of a text such as `75,99.9`. Raises UsageProblem for another form."""
    try:
        found = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        found = (-1.0,)
    if not all(0 <= percent <= 100 for percent in found):
        raise UsageProblem(f"{option} takes numbers from 0 to 100 separated by commas, not {text!r}.")
    return found


def read_calls(option: str, text: str) -> tuple[str, ...]:
    """Return the ways named by a text such as `numpy,pinned`. Raises UsageProblem for one that there is not."""
    found = parts(text)
    for name in found:
        if name not in CALLS:
            raise UsageProblem(f"{option} takes {', '.join(CALLS)}, separated by commas, not {name!r}.")
    return found


def read_budget(option: str, text: str) -> int | Literal["auto"]:
    """Return a number of bytes, or `auto`. Raises UsageProblem for anything else."""
    if text == "auto":
        return "auto"
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS:
        return int(text)
    raise UsageProblem(f"{option} must be a number of bytes or auto, not {text!r}.")


_CudaGraph = Annotated[
    bool,
    Setting("Replay the engine as a CUDA graph.", _RUNNING),
    Native(
        "ort-cuda has --option cuda_graph=true, ort-trt --option trt_cuda_graph_enable=true, torch-compile --option "
        "mode=reduce-overhead"
    ),
]
_Spin = Annotated[
    bool,
    Setting("Wait by polling (lowest latency, one busy core) instead of sleeping.", _RUNNING, "--spin/--block"),
    Native("ort-cpu polls, and sleeps with --option allow_spinning=false"),
]


@dataclass(frozen=True)
class MeasureSettings:
    """How to measure. `warmup_ms` is device time, for single calls host time."""

    warmup_ms: Annotated[float, Setting("Warm-up in milliseconds.", _BENCH, "--warmup", min=0.0)] = 200.0
    duration_s: Annotated[float, Setting("Shortest measurement in seconds.", _BENCH, "--duration", min=0.0)] = 3.0
    iterations: Annotated[int, Setting("Fewest queries per stream.", _BENCH, min=1)] = 10
    streams: Annotated[int, Setting("Number of concurrent inference streams.", _BENCH, min=1), Native()] = 1
    threads: Annotated[
        bool,
        Setting("One host thread per stream, or one for all.", _BENCH, "--threads/--no-threads"),
        Native("--cpu-threads sets the threads of a backend"),
    ] = False
    depth: Annotated[
        int, Setting("Queries in flight per stream; 1 exposes the transfers.", _BENCH, min=1), Native()
    ] = 2
    spin: _Spin = True
    cuda_graph: _CudaGraph = True
    transfers: Annotated[bool, Setting("Copy inputs and outputs in every query.", _BENCH), Native()] = True
    single_calls: Annotated[
        bool, Setting("Also time single calls end to end, from C++ and Python.", _BENCH), Native()
    ] = True
    calls: Annotated[
        tuple[str, ...],
        Setting(
            f"Also time a user's call with arrays in these places, five rounds in turn: {','.join(CALLS)}.",
            _BENCH,
            kind=str,
            read=read_calls,
        ),
        Native(),
    ] = ()
    percentiles: Annotated[
        tuple[float, ...],
        Setting(
            "Further percentiles, such as 75,99.9; always included: 50, 90, 95 and 99.",
            _BENCH,
            kind=str,
            read=read_percentiles,
        ),
    ] = ()

    def bench_options(self, profile: int | None) -> dict[str, Any]:
        """Return what the native bench takes."""
        names = ("warmup_ms", "duration_s", "iterations", "streams", "threads", "depth", "spin", "cuda_graph")
        chosen = {name: getattr(self, name) for name in names}
        return {**chosen, "transfers": self.transfers, "profile": profile}


@dataclass(frozen=True)
class InferRequest:
    """What the user asked for. `measure` is None for not at all."""

    model: Annotated[
        Path,
        Setting("Plan made by `build-engine`, or a model (.onnx, and .pt2 on torch).", argument=True, metavar="MODEL"),
    ]
    backend: Annotated[
        str,
        Setting("Runtime for a model, see `trtw backends`; trt builds an engine. Plans run on trt."),
    ] = "auto"
    precision: Annotated[Precision, OfModels()] = "fp32"
    options: Annotated[BackendOptions, OfModels()] = field(default_factory=dict)
    cpu_threads: Annotated[
        int | None, Setting("CPUs that the backend may use; by default all.", MORE, min=1), OfModels()
    ] = None
    inputs: Annotated[
        tuple[str, ...],
        Setting(
            "FILE, FOLDER, NAME=FILE or NAME=FOLDER of .npy or .npz; repeatable; random inputs without it.",
            flags="--input -i",
        ),
    ] = ()
    # Dynamic ones take the profile's best-tuned shape by default, or, without a profile, a batch of 1.
    shapes: Shapes = field(default_factory=dict)
    save: Annotated[bool, Setting("Write outputs/SAMPLE/NAME.npy into the run directory.", _DATA)] = True
    expect: Annotated[Path | None, Setting("Folder of reference outputs; exit code 1 if the outputs differ.")] = None
    rtol: Annotated[float, Setting("Relative tolerance.", _CHECKS, min=0.0)] = 1e-3
    atol: Annotated[float, Setting("Absolute tolerance.", _CHECKS, min=0.0)] = 1e-4
    check_finite: Annotated[bool, Setting("Exit code 1 if an output has NaN or infinity.", _CHECKS)] = False
    measure: MeasureSettings | None = None
    export_times: Annotated[
        Path | None,
        Setting("Also write the times of every query like trtexec's --exportTimes.", _BENCH),
        Native("the run directory's records.jsonl keeps every call"),
    ] = None
    cuda_graph: _CudaGraph = True
    spin: _Spin = True
    profile: Annotated[ProfileIndex, Native()] = None
    trust: Annotated[Trust, Native("torch has --option trust=true for .pt2 files")] = False
    allow_host_code: Annotated[HostCode, Native()] = False
    plugins: Annotated[
        tuple[Path, ...],
        Setting("Plugin library to load first; repeatable. No other is loaded.", _RUNNING, "--plugin"),
        Native(),
    ] = ()
    weight_streaming_budget: Annotated[
        int | Literal["auto"] | None,
        Setting(
            "Device memory in bytes for the weights of a plan built with --weight-streaming, or auto.",
            _RUNNING,
            kind=str,
            read=read_budget,
        ),
        Native(),
    ] = None
    device: Annotated[
        Device, Native("ort-cuda and ort-trt have --option device_id=1, torch --option device=cuda:1")
    ] = 0
    seed: Seed = 0

    @property
    def is_model(self) -> bool:
        """Whether the file is a model, not a plan."""
        return self.model.suffix in MODEL_SUFFIXES

    @property
    def is_native(self) -> bool:
        """Whether TensorRT runs it through the core, which has a bench of its own."""
        from trt_workbench.backends.registry import runs_plans

        return not self.is_model or runs_plans(self.backend)


@dataclass(frozen=True)
class InferOutcome:
    """What a run found: the content of `metrics.json`, and what failed, in sentences."""

    metrics: dict[str, Any]
    failures: tuple[str, ...]
    queries: tuple[dict[str, float], ...] = ()
