"""The options of a build: every setting, defined once with its option. Names follow TensorRT's own.

A setting that is added here is a key of settings files, an option of `build-engine`, part of the cache key and an
attribute of the native `BuildOptions`. `BuildSettings` in `options.py` checks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from trt_workbench.core.precision import names
from trt_workbench.core.settings import MORE, Setting, pairs, signed

_PRECISION, _KERNELS, _IO = "Precision", "Kernel search", "Inputs and outputs"
_KIND, _INT8, _TIMINGS = "Kind of plan", "INT8 calibration", "Timing cache"
_NONE: Any = {}

BUILT = tuple(reversed(names(lambda one: one.is_flag or one.name == "fp32")))
"""Types that layers may be built in, the finest first."""


class MemoryPool(StrEnum):
    """Memory pools of TensorRT's builder (MemoryPoolType)."""

    workspace = "workspace"
    dla_managed_sram = "dla_managed_sram"
    dla_local_dram = "dla_local_dram"
    dla_global_dram = "dla_global_dram"
    tactic_dram = "tactic_dram"
    tactic_shared_memory = "tactic_shared_memory"


@dataclass(frozen=True)
class BuildSetting(Setting):
    """A setting of a build.

    Attributes:
        in_key: whether it can change what the engine computes or how fast; else it is no part of the cache key.
        native: whether the native `BuildOptions` has it under the same name with the same meaning.
    """

    in_key: bool = True
    native: bool = True


def _formats(option: str, texts: Sequence[str]) -> dict[str, list[str]]:
    return {name: value.split("+") for name, value in pairs(option, texts).items()}


# Settings of every command that builds.
Profiles = Annotated[
    Any,
    BuildSetting(
        "Optimisation profile NAME:MIN/OPT/MAX,…, such as images:1x3x640x640/8x3x640x640/16x3x640x640; "
        "NAME=MIN/OPT/MAX for the values of a shape tensor; repeatable.",
        _IO,
        "--profile",
        kind=list[str],
        native=False,
    ),
]
MaxBatch = Annotated[
    int | None,
    Setting("Instead of --profile, if only the batch is dynamic: one profile from 1 to this.", min=1),
]


class BuildOptions:
    """The settings and their defaults. Defaults missing here are in `BuildSettings`, in the form that files use."""

    # `fp32` is always allowed; `tf32` lets fp32 matrix products use TF32. On strongly typed networks (a choice in
    # TensorRT 10, always in 11) the graph decides, and a type named here must occur in it.
    precision: Annotated[
        Any,
        BuildSetting(
            f"Types that layers may use: {', '.join(BUILT)}; join several with +.",
            kind=str,
            completes=BUILT,
            native=False,
        ),
    ]
    strongly_typed: Annotated[
        bool, BuildSetting("Take all types from the graph.", _PRECISION, "--strongly-typed/--weakly-typed")
    ] = False
    precision_constraints: Annotated[
        Literal["none", "prefer", "obey"], BuildSetting("How strictly --layer-precision applies.", _PRECISION)
    ] = "none"
    layer_precisions: Annotated[
        dict[str, str],
        BuildSetting(
            "PATTERN=TYPE: data type of layers by name; repeatable.", _PRECISION, "--layer-precision", read=pairs
        ),
    ] = _NONE
    layer_output_types: Annotated[
        dict[str, str],
        BuildSetting(
            "PATTERN=TYPE: type of layers' outputs by name; repeatable.", _PRECISION, "--layer-output-type", read=pairs
        ),
    ] = _NONE
    io_types: Annotated[
        dict[str, str],
        BuildSetting("NAME=TYPE: data type of an input or output; repeatable.", _IO, "--io-type", read=pairs),
    ] = _NONE
    io_formats: Annotated[
        dict[str, tuple[str, ...]],
        BuildSetting(
            "NAME=FORMAT+FORMAT…: formats of an input or output; repeatable.",
            _IO,
            "--io-format",
            read=_formats,
            native=False,
        ),
    ] = _NONE
    profiles: Profiles
    workspace_mib: Annotated[
        float | None,
        BuildSetting(
            "Scratch memory that a layer may use, in MiB; by default all of the device's memory.",
            _KERNELS,
            "--workspace",
            above=0,
            native=False,
        ),
    ] = None
    memory_pools: Annotated[
        dict[MemoryPool, Annotated[float, Setting(min=0)]],
        BuildSetting(
            "POOL=MIB: size of a memory pool; repeatable.", _KERNELS, "--memory-pool", read=pairs, native=False
        ),
    ] = _NONE
    optimization_level: Annotated[
        int | None, BuildSetting("0 (fast build) to 5 (thorough search).", _KERNELS, min=0, max=5)
    ] = None
    avg_timing_iterations: Annotated[int | None, BuildSetting("How often a kernel is timed.", _KERNELS, min=1)] = None
    max_tactics: Annotated[int | None, BuildSetting("How many kernels are timed per layer.", _KERNELS, min=1)] = None
    max_aux_streams: Annotated[
        int | None, BuildSetting("How many auxiliary streams the engine may use.", _KERNELS, min=0)
    ] = None
    max_threads: Annotated[
        int | None,
        BuildSetting("Threads of the builder; by default one per CPU.", _KERNELS, min=1, in_key=False, native=False),
    ] = None
    tactic_sources: Annotated[
        tuple[str, ...],
        BuildSetting(
            "+NAME or -NAME: libraries to take kernels from, such as -CUDNN; repeatable.",
            _KERNELS,
            "--tactic-source",
            native=False,
        ),
    ] = ()
    preview_features: Annotated[
        dict[str, bool],
        BuildSetting("+NAME or -NAME: preview feature; repeatable.", _KERNELS, "--preview-feature", read=signed),
    ] = _NONE
    tiling_optimization_level: Annotated[
        Literal["none", "fast", "moderate", "full"] | None, BuildSetting("Effort of the tiling optimisation.", _KERNELS)
    ] = None
    build_route: Annotated[str | None, BuildSetting("A build route in the notation of TensorRT 11.1.", _KERNELS)] = None
    hardware_compatibility: Annotated[
        Literal["none", "ampere_plus", "same_compute_capability"],
        BuildSetting("Allow other GPUs to run the plan.", _KIND),
    ] = "none"
    version_compatible: Annotated[bool, BuildSetting("Allow newer TensorRT versions to run the plan.", _KIND)] = False
    exclude_lean_runtime: Annotated[bool, BuildSetting("Omit the runtime from a version-compatible plan.", _KIND)] = (
        False
    )
    strip_weights: Annotated[bool, BuildSetting("Build a plan without weights, to refit later.", _KIND)] = False
    refit: Annotated[
        Literal["none", "full", "identical", "individual"], BuildSetting("Which weights can be replaced later.", _KIND)
    ] = "none"
    weight_streaming: Annotated[bool, BuildSetting("Allow weights that exceed the device's memory.", _KIND)] = False
    sparse_weights: Annotated[bool, BuildSetting("Use structured sparsity if the weights have it.", _KERNELS)] = False
    distributive_independence: Annotated[
        bool, BuildSetting("Bitwise equal results at every position of a batch.", _KIND)
    ] = False
    strict_nans: Annotated[bool, BuildSetting("Keep NaN through every optimisation.", _KIND)] = False
    direct_io: Annotated[bool, BuildSetting("Do not reformat inputs and outputs.", _IO)] = False
    native_instance_norm: Annotated[
        bool | None,
        BuildSetting(
            "TensorRT's own instance normalisation, or the plugin's.",
            _KIND,
            "--native-instance-norm/--plugin-instance-norm",
        ),
    ] = None
    profiling_verbosity: Annotated[
        Literal["none", "layer_names_only", "detailed"],
        BuildSetting("How much detail of the layers `inspect` can report.", _KIND),
    ] = "detailed"
    timing_cache: Annotated[
        Path | None,
        BuildSetting(
            "File that keeps kernel timings, or `off`; one per GPU by default.", _TIMINGS, in_key=False, native=False
        ),
    ] = None
    timing_cache_strict: Annotated[
        bool,
        BuildSetting("Fail if the timing cache lacks a kernel.", _TIMINGS, in_key=False, native=False),
    ] = False
    editable_timing_cache: Annotated[bool, BuildSetting("Write a timing cache that can be edited.", _TIMINGS)] = False
    build_number: Annotated[
        int | None,
        BuildSetting(
            "Build this one of several, from an empty timing cache; --builds makes them all.",
            _TIMINGS,
            min=1,
            native=False,
        ),
    ] = None
    calibration: Any
    plugins: Annotated[
        tuple[Path, ...], BuildSetting("Plugin library to load; repeatable.", _KIND, "--plugin", native=False)
    ] = ()
    serialize_plugins: Annotated[bool, BuildSetting("Embed the plugin libraries in the plan.", _KIND, native=False)] = (
        False
    )
    dla_core: Annotated[int | None, BuildSetting("Core of Jetson's Deep Learning Accelerator.", _KIND, min=0)] = None
    gpu_fallback: Annotated[bool, BuildSetting("Let the GPU run layers that the DLA cannot.", _KIND)] = False
    device: Annotated[int, BuildSetting("Index of the CUDA device.", MORE, min=0, in_key=False)] = 0
    verbosity: Annotated[
        Literal["error", "warning", "info", "verbose"],
        BuildSetting("How much of TensorRT's log to keep.", MORE, in_key=False, native=False),
    ] = "warning"


class CalibrationOptions:
    """What an INT8 calibrator is fed with (TensorRT 8 and 10)."""

    data: Annotated[
        Path,
        Setting(
            ".npy or .npz file, a folder of them or of images, or a data set of images (TensorRT 8 and 10).",
            _INT8,
            "--calibration",
        ),
    ]
    # None for what the model's inputs have, or 8 where their batch is dynamic.
    batch: Annotated[int | None, Setting("Samples per batch.", _INT8, min=1)] = None
    # "entropy2" for convolutional networks, "minmax" for transformers.
    algorithm: Annotated[Literal["entropy2", "minmax"], Setting("How ranges are computed.", _INT8)] = "entropy2"
    limit: Annotated[int | None, Setting("Largest number of samples to use.", _INT8, min=1)] = None
