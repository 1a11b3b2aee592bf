"""The options of `build-engine` and how they become build settings; names follow `engine/options.py`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from trt_workbench.cli.common import panel_option, parse_pairs
from trt_workbench.errors import UsageProblem

if TYPE_CHECKING:
    from trt_workbench.engine.options import BuildSettings


class Constraints(enum.StrEnum):
    """How far layer precisions bind."""

    none = "none"
    prefer = "prefer"
    obey = "obey"


class Compatibility(enum.StrEnum):
    """On which other GPUs an engine runs."""

    none = "none"
    ampere_plus = "ampere_plus"
    same_compute_capability = "same_compute_capability"


class RefitKind(enum.StrEnum):
    """Which weights can be replaced later."""

    none = "none"
    full = "full"
    identical = "identical"
    individual = "individual"


class Tiling(enum.StrEnum):
    """Effort for tiling."""

    none = "none"
    fast = "fast"
    moderate = "moderate"
    full = "full"


class Detail(enum.StrEnum):
    """What the engine inspector can tell."""

    none = "none"
    layer_names_only = "layer_names_only"
    detailed = "detailed"


class LogLevel(enum.StrEnum):
    """How much of TensorRT's log is kept."""

    error = "error"
    warning = "warning"
    info = "info"
    verbose = "verbose"


class Algorithm(enum.StrEnum):
    """How INT8 ranges are found."""

    entropy2 = "entropy2"
    minmax = "minmax"


_KIND, _KERNELS, _IO = "Kind of plan", "Search for kernels", "Inputs and outputs"
_INT8, _TIMINGS, _PRECISION = "INT8 calibration", "Timing cache", "Precision"


Precision = Annotated[
    str | None,
    panel_option(
        "Types that layers may use: fp32, tf32, fp16, bf16, int8, fp8, int4, fp4; several with +.", _PRECISION
    ),
]
StronglyTyped = Annotated[
    bool | None, panel_option("Let the graph's types decide.", _PRECISION, "--strongly-typed/--weakly-typed")
]
PrecisionConstraints = Annotated[Constraints | None, panel_option("How far --layer-precision binds.", _PRECISION)]
LayerPrecisions = Annotated[
    list[str] | None, panel_option("PATTERN=TYPE: data type of layers by name; repeatable.", _PRECISION)
]
LayerOutputTypes = Annotated[
    list[str] | None, panel_option("PATTERN=TYPE: type of layers' outputs by name; repeatable.", _PRECISION)
]
ProfileShapes = Annotated[
    list[str] | None,
    panel_option(
        "Optimisation profile NAME:MIN/OPT/MAX,…, such as images:1x3x640x640/8x3x640x640/16x3x640x640; "
        "NAME=MIN/OPT/MAX for a shape tensor's values; repeatable.",
        _IO,
    ),
]
MaxBatch = Annotated[
    int | None,
    panel_option("Instead of --profile, for a model whose batch alone is dynamic: one profile 1 to this.", _IO, min=1),
]
IoTypes = Annotated[list[str] | None, panel_option("NAME=TYPE of an input or output; repeatable.", _IO)]
IoFormats = Annotated[list[str] | None, panel_option("NAME=FORMAT+FORMAT… of an input or output; repeatable.", _IO)]
DirectIo = Annotated[bool | None, panel_option("No reformatting of inputs and outputs.", _IO, "--direct-io")]
Workspace = Annotated[
    float | None, panel_option("Scratch memory that a layer may use, in MiB; all of the device's by default.", _KERNELS)
]
MemoryPools = Annotated[list[str] | None, panel_option("POOL=MIB: size of a memory pool; repeatable.", _KERNELS)]
OptimizationLevel = Annotated[
    int | None, panel_option("0 (fast build) to 5 (thorough search).", _KERNELS, min=0, max=5)
]
AvgTimingIterations = Annotated[int | None, panel_option("How often a kernel is timed.", _KERNELS, min=1)]
MaxTactics = Annotated[int | None, panel_option("How many kernels are timed a layer.", _KERNELS, min=1)]
MaxAuxStreams = Annotated[int | None, panel_option("How many further streams the engine may use.", _KERNELS, min=0)]
MaxThreads = Annotated[int | None, panel_option("Threads of the builder; all processors by default.", _KERNELS, min=1)]
TacticSources = Annotated[
    list[str] | None,
    panel_option("+NAME or -NAME: libraries to take kernels from, such as -CUDNN; repeatable.", _KERNELS),
]
PreviewFeatures = Annotated[list[str] | None, panel_option("+NAME or -NAME: preview feature; repeatable.", _KERNELS)]
TilingLevel = Annotated[Tiling | None, panel_option("Effort for tiling.", _KERNELS)]
BuildRoute = Annotated[str | None, panel_option("A build route as TensorRT 11.1 writes it.", _KERNELS)]
SparseWeights = Annotated[
    bool | None, panel_option("Use structured sparsity where weights have it.", _KERNELS, "--sparse-weights")
]
CalibrationData = Annotated[
    Path | None, panel_option(".npy or .npz file, or a folder of them or of images (TensorRT 8 and 10).", _INT8)
]
CalibrationBatch = Annotated[int | None, panel_option("Samples a batch.", _INT8, min=1)]
CalibrationAlgorithm = Annotated[Algorithm | None, panel_option("How ranges are found.", _INT8)]
CalibrationLimit = Annotated[int | None, panel_option("Samples to use at most.", _INT8, min=1)]
Family = Annotated[
    str | None,
    panel_option("Detector family that tells how calibration images are prepared; recognised by default.", _INT8),
]
TimingCache = Annotated[
    Path | None, panel_option("File that keeps kernel timings, or `off`; one per GPU by default.", _TIMINGS)
]
TimingCacheStrict = Annotated[
    bool | None, panel_option("A kernel that the timing cache lacks is an error.", _TIMINGS, "--timing-cache-strict")
]
EditableTimingCache = Annotated[
    bool | None, panel_option("Make a timing cache that can be edited.", _TIMINGS, "--editable-timing-cache")
]
HardwareCompatibility = Annotated[Compatibility | None, panel_option("Run on other GPUs too.", _KIND)]
VersionCompatible = Annotated[
    bool | None, panel_option("Run on newer TensorRT versions too.", _KIND, "--version-compatible")
]
ExcludeLeanRuntime = Annotated[
    bool | None, panel_option("Leave the runtime out of a version-compatible plan.", _KIND, "--exclude-lean-runtime")
]
StripWeights = Annotated[bool | None, panel_option("A plan without weights, to be refitted.", _KIND, "--strip-weights")]
Refit = Annotated[RefitKind | None, panel_option("Which weights can be replaced later.", _KIND)]
WeightStreaming = Annotated[
    bool | None, panel_option("Allow weights that exceed the device's memory.", _KIND, "--weight-streaming")
]
StrictNans = Annotated[bool | None, panel_option("Keep NaN through every optimisation.", _KIND, "--strict-nans")]
DistributiveIndependence = Annotated[
    bool | None,
    panel_option("Bitwise equal results at every position of a batch.", _KIND, "--distributive-independence"),
]
NativeInstanceNorm = Annotated[
    bool | None,
    panel_option(
        "TensorRT's own instance normalisation, or the plugin's.",
        _KIND,
        "--native-instance-norm/--plugin-instance-norm",
    ),
]
Plugins = Annotated[list[Path] | None, panel_option("Plugin library to load; repeatable.", _KIND)]
SerializePlugins = Annotated[
    bool | None, panel_option("Put the plugin libraries into the plan.", _KIND, "--serialize-plugins")
]
DlaCore = Annotated[int | None, panel_option("Core of Jetson's Deep Learning Accelerator.", _KIND, min=0)]
GpuFallback = Annotated[bool | None, panel_option("Let the GPU run what the DLA cannot.", _KIND, "--gpu-fallback")]
ProfilingVerbosity = Annotated[Detail | None, panel_option("What `inspect-engine` can tell of layers.", _KIND)]
Verbosity = Annotated[LogLevel | None, panel_option("How much of TensorRT's log is kept.")]
Device = Annotated[int | None, panel_option("Index of the CUDA device.", min=0)]

# Option to setting, where their names differ.
_RENAMED = {
    "workspace": "workspace_mib",
    "profile": "profiles",
    "tactic_source": "tactic_sources",
    "plugin": "plugins",
}
_SAME = (
    "precision",
    "strongly_typed",
    "precision_constraints",
    "optimization_level",
    "avg_timing_iterations",
    "max_tactics",
    "max_aux_streams",
    "max_threads",
    "tiling_optimization_level",
    "build_route",
    "direct_io",
    "timing_cache",
    "timing_cache_strict",
    "editable_timing_cache",
    "hardware_compatibility",
    "version_compatible",
    "exclude_lean_runtime",
    "strip_weights",
    "refit",
    "weight_streaming",
    "sparse_weights",
    "strict_nans",
    "distributive_independence",
    "native_instance_norm",
    "serialize_plugins",
    "dla_core",
    "gpu_fallback",
    "profiling_verbosity",
    "verbosity",
    "device",
)
_PAIRS = {
    "memory_pool": "memory_pools",
    "layer_precision": "layer_precisions",
    "layer_output_type": "layer_output_types",
    "io_type": "io_types",
}


def overrides(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that the command line names, for `load_settings`.

    Args:
        given: the command's arguments by name; None or an empty list for what was not given.

    Raises:
        UsageProblem: an argument that needs the form NAME=VALUE has another.
    """
    found: dict[str, Any] = {name: given[name] for name in _SAME if given[name] is not None}
    found |= {setting: given[name] for name, setting in _RENAMED.items() if given[name] not in (None, [])}
    found |= {setting: parse_pairs(_flag(name), given[name]) for name, setting in _PAIRS.items() if given[name]}
    if given["io_format"]:
        formats = parse_pairs("--io-format", given["io_format"])
        found["io_formats"] = {name: value.split("+") for name, value in formats.items()}
    if given["preview_feature"]:
        found["preview_features"] = dict(_signed("preview_feature", text) for text in given["preview_feature"])
    if calibration := _calibration(given):
        found["calibration"] = calibration
    return {name: str(value) if isinstance(value, enum.StrEnum) else value for name, value in found.items()}


def spelling(setting: str) -> str:
    """Return the option behind a setting, such as `--workspace` for `workspace_mib`."""
    options = {kept: option for option, kept in {**_RENAMED, **_PAIRS}.items()}
    options |= {"io_formats": "io_format", "preview_features": "preview_feature"}
    return _flag(options.get(setting, setting))


def with_batch_profile(model: Path, settings: BuildSettings, max_batch: int | None) -> BuildSettings:
    """Return `settings` with a profile for batches of 1 to `max_batch`, where that is asked for.

    Raises:
        UsageProblem: profiles are given as well, or more than the batch is dynamic, or nothing is.
    """
    if max_batch is None:
        return settings
    from trt_workbench.engine.profiles import batch_profile
    from trt_workbench.onnxtools.preflight import examine_model

    if settings.profiles:
        raise UsageProblem("Give either --max-batch or profiles, not both.")
    made = batch_profile([(tensor.name, tensor.shape) for tensor in examine_model(model).inputs], max_batch)
    if made is None:
        raise UsageProblem(
            f"--max-batch is for a model whose batch alone is dynamic; give each range with --profile: {model}"
        )
    return settings.model_copy(update={"profiles": (made,)})


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _signed(option: str, text: str) -> tuple[str, bool]:
    if len(text) < 2 or text[0] not in "+-":
        raise UsageProblem(f"Option {_flag(option)} takes +NAME or -NAME, not {text!r}.")
    return text[1:], text[0] == "+"


def _calibration(given: Mapping[str, Any]) -> dict[str, Any]:
    parts = {name: given[f"calibration_{name}"] for name in ("batch", "algorithm", "limit")}
    chosen = {name: str(v) if isinstance(v, enum.StrEnum) else v for name, v in parts.items() if v is not None}
    if given["calibration"] is None:
        if chosen:
            raise UsageProblem(f"Option --calibration-{next(iter(chosen))} needs --calibration.")
        return {}
    return {"data": given["calibration"], **chosen}
