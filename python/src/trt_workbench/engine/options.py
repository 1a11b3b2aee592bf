"""Build settings: everything that can be asked of an engine, as one checked, serialisable value."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from trt_workbench.engine.profiles import Profile

MIB = 1 << 20
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8", "int4", "fp4")
# Settings that change how a build goes and what it reports, but not what the engine computes or how fast.
_NOT_IN_KEY = frozenset({"timing_cache", "timing_cache_strict", "verbosity", "max_threads", "device", "calibration"})
_TACTIC_SOURCE = re.compile(r"[+-][A-Za-z_]+")


class MemoryPool(StrEnum):
    """Memory pools of TensorRT's builder (MemoryPoolType)."""

    workspace = "workspace"
    dla_managed_sram = "dla_managed_sram"
    dla_local_dram = "dla_local_dram"
    dla_global_dram = "dla_global_dram"
    tactic_dram = "tactic_dram"
    tactic_shared_memory = "tactic_shared_memory"


def _split_precision(value: Any) -> Any:
    return tuple(part.strip() for part in value.split("+")) if isinstance(value, str) else value


class Calibration(BaseModel):
    """What an INT8 calibrator is fed with.

    Attributes:
        data: a `.npy` or `.npz` file, or a folder of them or of images.
        batch: samples a batch; None for what the model's inputs have, or 8 where their batch is dynamic.
        algorithm: "entropy2" for convolutional networks, "minmax" for transformers.
        limit: how many samples to use at most.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path
    batch: Annotated[int, Field(ge=1)] | None = None
    algorithm: Literal["entropy2", "minmax"] = "entropy2"
    limit: Annotated[int, Field(ge=1)] | None = None


class BuildSettings(BaseModel):
    """Everything that can be asked of a build. Names follow TensorRT's own.

    A request that the TensorRT at hand cannot honour is an error when building, never quietly something else.

    Attributes:
        precision: types that layers may use, such as `fp16` or `int8+fp16`. `fp32` is always allowed; `tf32` lets
            fp32 matrix products use TF32. On strongly typed networks (a choice in TensorRT 10, always in 11) the graph
            decides, and a type named here must occur in it.
        strongly_typed: let the graph's types decide (TensorRT 10).
        precision_constraints: how far `layer_precisions` bind.
        layer_precisions: data type by layer name pattern.
        layer_output_types: data type of outputs by layer name pattern.
        io_types: data type of the engine's inputs and outputs by name.
        io_formats: allowed memory formats of inputs and outputs by name.
        profiles: optimisation profiles; needed where an input is dynamic.
        workspace_mib: scratch memory that a layer may use; TensorRT's default is all of the device's.
        memory_pools: size of further pools in MiB.
        optimization_level: 0 (fast build) to 5 (slow build).
        avg_timing_iterations: how often a kernel is timed.
        max_tactics: how many kernels are timed a layer.
        max_aux_streams: how many further streams the engine may use.
        max_threads: threads of the builder; None for all available processors.
        tactic_sources: libraries to switch on or off, such as `-CUDNN`.
        preview_features: preview features to switch on or off by name.
        tiling_optimization_level: effort for tiling.
        build_route: a build route as TensorRT writes it (11.1).
        hardware_compatibility: run on other GPUs too.
        version_compatible: run on newer TensorRT versions too; needs host code in the plan.
        exclude_lean_runtime: leave that host code out of the plan.
        strip_weights: a plan without weights, to be refitted.
        refit: which weights can be replaced later.
        weight_streaming: allow weights that exceed the device's memory.
        sparse_weights: use structured sparsity where weights have it.
        distributive_independence: bitwise equal results at every position of a batch.
        strict_nans: keep NaN through every optimisation.
        direct_io: no reformatting of inputs and outputs.
        native_instance_norm: TensorRT's own instance normalisation instead of the plugin's.
        profiling_verbosity: what the engine inspector can tell later.
        timing_cache: file to share kernel timings through; None for the shared one, "off" for none.
        timing_cache_strict: a kernel that the timing cache lacks is an error.
        editable_timing_cache: a timing cache that can be edited.
        calibration: data for INT8 without Q/DQ nodes (TensorRT 8 and 10).
        plugins: plugin libraries to load.
        serialize_plugins: put these libraries into the plan.
        dla_core: core of the Deep Learning Accelerator of Jetson and DRIVE.
        gpu_fallback: let the GPU run what that accelerator cannot.
        device: index of the CUDA device.
        verbosity: how much of TensorRT's log is kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    precision: Annotated[tuple[str, ...], BeforeValidator(_split_precision)] = ("fp32",)
    strongly_typed: bool = False
    precision_constraints: Literal["none", "prefer", "obey"] = "none"
    layer_precisions: dict[str, str] = {}
    layer_output_types: dict[str, str] = {}
    io_types: dict[str, str] = {}
    io_formats: dict[str, tuple[str, ...]] = {}
    profiles: tuple[Profile, ...] = ()
    workspace_mib: Annotated[float, Field(gt=0)] | None = None
    memory_pools: dict[MemoryPool, Annotated[float, Field(ge=0)]] = {}
    optimization_level: Annotated[int, Field(ge=0, le=5)] | None = None
    avg_timing_iterations: Annotated[int, Field(ge=1)] | None = None
    max_tactics: Annotated[int, Field(ge=1)] | None = None
    max_aux_streams: Annotated[int, Field(ge=0)] | None = None
    max_threads: Annotated[int, Field(ge=1)] | None = None
    tactic_sources: tuple[str, ...] = ()
    preview_features: dict[str, bool] = {}
    tiling_optimization_level: Literal["none", "fast", "moderate", "full"] | None = None
    build_route: str | None = None
    hardware_compatibility: Literal["none", "ampere_plus", "same_compute_capability"] = "none"
    version_compatible: bool = False
    exclude_lean_runtime: bool = False
    strip_weights: bool = False
    refit: Literal["none", "full", "identical", "individual"] = "none"
    weight_streaming: bool = False
    sparse_weights: bool = False
    distributive_independence: bool = False
    strict_nans: bool = False
    direct_io: bool = False
    native_instance_norm: bool | None = None
    profiling_verbosity: Literal["none", "layer_names_only", "detailed"] = "detailed"
    timing_cache: Path | None = None
    timing_cache_strict: bool = False
    editable_timing_cache: bool = False
    calibration: Calibration | None = None
    plugins: tuple[Path, ...] = ()
    serialize_plugins: bool = False
    dla_core: Annotated[int, Field(ge=0)] | None = None
    gpu_fallback: bool = False
    device: Annotated[int, Field(ge=0)] = 0
    verbosity: Literal["error", "warning", "info", "verbose"] = "warning"

    @field_validator("precision")
    @classmethod
    def _known_precisions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or (unknown := sorted(set(value) - set(PRECISIONS))):
            named = f"{', '.join(unknown)} is none of" if value else "name at least one of"
            raise ValueError(f"{named} {', '.join(PRECISIONS)}; several are joined by +, such as int8+fp16")
        # one spelling for one meaning, so that one engine has one cache key
        chosen = tuple(name for name in PRECISIONS if name in value and name != "fp32")
        return chosen or ("fp32",)

    @field_validator("tactic_sources")
    @classmethod
    def _signed_sources(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [source for source in value if not _TACTIC_SOURCE.fullmatch(source)]:
            raise ValueError(f"{wrong[0]!r} needs a sign, such as +CUDNN or -CUBLAS")
        return tuple(sorted({source[1:].lower(): source.lower() for source in value}.values()))

    @model_validator(mode="after")
    def _together(self) -> BuildSettings:
        rules = (
            (
                self.exclude_lean_runtime and not self.version_compatible,
                "exclude_lean_runtime: set version_compatible",
            ),
            (
                bool(self.layer_precisions or self.layer_output_types) and self.precision_constraints == "none",
                "layer_precisions and layer_output_types need precision_constraints prefer or obey",
            ),
            (self.calibration is not None and "int8" not in self.precision, "calibration needs the precision int8"),
            (self.serialize_plugins and not self.plugins, "serialize_plugins needs plugins"),
            (self.gpu_fallback and self.dla_core is None, "gpu_fallback needs dla_core"),
            (self.workspace_mib is not None and MemoryPool.workspace in self.memory_pools, "workspace is set twice"),
            (self.timing_cache_strict and self.timing_cache_off, "timing_cache_strict needs a timing cache"),
        )
        for broken, problem in rules:
            if broken:
                raise ValueError(problem)
        return self

    @property
    def timing_cache_off(self) -> bool:
        """Whether no timing cache is used at all."""
        return self.timing_cache is not None and str(self.timing_cache) == "off"

    @property
    def precision_text(self) -> str:
        """The precision as it is written, such as `int8+fp16`."""
        return "+".join(self.precision)

    def key_fields(self) -> dict[str, Any]:
        """Return the settings that can change the engine, as JSON values; files count by their hash, elsewhere."""
        document = self.model_dump(mode="json", exclude=set(_NOT_IN_KEY) | {"plugins"})
        if self.calibration:
            document["calibration"] = self.calibration.model_dump(mode="json", exclude={"data"})
        return document
