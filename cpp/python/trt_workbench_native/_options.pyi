"""Types of the core's options. Written by tasks/native-stubs from the tables in cpp/include/trtw."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypedDict, final

from trt_workbench_native._builder import Calibration, Profile

@final
class BuildOptions:
    """Everything that can be asked of a build; None leaves TensorRT's default.

    Containers are read-only; assign whole ones.

    Attributes:
        device: CUDA device index.
        profiles: ranges of input shapes, each tuned for.
        precision_constraints: none, prefer or obey.
        layer_precisions: layer name pattern (fnmatch) to data type; the last match applies.
        layer_output_types: the same for the outputs of layers.
        calibration: of int8.
        memory_pools: pool name to bytes.
        optimization_level: 0 to 5.
        tactic_sources: source name to on or off.
        preview_features: feature name to on or off.
        tiling_optimization_level: none, fast, moderate or full.
        build_route: as IBuilderConfig::getAllBuildRoutes writes it.
        timing_cache: an earlier one; empty starts a new one.
        hardware_compatibility: none, ampere_plus or same_compute_capability.
        refit: none, full, identical or individual.
        profiling_verbosity: none, layer_names_only or detailed.
        distributive_independence: bitwise equal results at every position of a batch.
        io_types: tensor name to data type.
        io_formats: tensor name to allowed formats (linear, hwc8).
        plugins: shared libraries to load before parsing.
        plugins_to_serialize: shared libraries to embed in the plan.
    """

    def __init__(self) -> None: ...
    device: int
    @property
    def profiles(self) -> tuple[Profile, ...]: ...
    @profiles.setter
    def profiles(self, value: Sequence[Profile], /) -> None: ...
    fp16: bool
    bf16: bool
    int8: bool
    fp8: bool
    int4: bool
    fp4: bool
    tf32: bool
    strongly_typed: bool
    sparse_weights: bool
    precision_constraints: str
    @property
    def layer_precisions(self) -> Mapping[str, str]: ...
    @layer_precisions.setter
    def layer_precisions(self, value: dict[str, str], /) -> None: ...
    @property
    def layer_output_types(self) -> Mapping[str, str]: ...
    @layer_output_types.setter
    def layer_output_types(self, value: dict[str, str], /) -> None: ...
    calibration: Calibration | None
    @property
    def memory_pools(self) -> Mapping[str, int]: ...
    @memory_pools.setter
    def memory_pools(self, value: Mapping[str, int], /) -> None: ...
    optimization_level: int | None
    @property
    def tactic_sources(self) -> Mapping[str, bool]: ...
    @tactic_sources.setter
    def tactic_sources(self, value: Mapping[str, bool], /) -> None: ...
    @property
    def preview_features(self) -> Mapping[str, bool]: ...
    @preview_features.setter
    def preview_features(self, value: Mapping[str, bool], /) -> None: ...
    avg_timing_iterations: int | None
    max_tactics: int | None
    max_aux_streams: int | None
    max_threads: int | None
    tiling_optimization_level: str | None
    build_route: str | None
    timing_cache: bytes | None
    timing_cache_ignore_mismatch: bool
    disable_timing_cache: bool
    error_on_timing_cache_miss: bool
    editable_timing_cache: bool
    hardware_compatibility: str
    version_compatible: bool
    exclude_lean_runtime: bool
    strip_weights: bool
    refit: str
    weight_streaming: bool
    profiling_verbosity: str
    strict_nans: bool
    distributive_independence: bool
    @property
    def io_types(self) -> Mapping[str, str]: ...
    @io_types.setter
    def io_types(self, value: Mapping[str, str], /) -> None: ...
    @property
    def io_formats(self) -> Mapping[str, Sequence[str]]: ...
    @io_formats.setter
    def io_formats(self, value: Mapping[str, Sequence[str]], /) -> None: ...
    direct_io: bool
    @property
    def plugins(self) -> tuple[str, ...]: ...
    @plugins.setter
    def plugins(self, value: Sequence[str], /) -> None: ...
    @property
    def plugins_to_serialize(self) -> tuple[str, ...]: ...
    @plugins_to_serialize.setter
    def plugins_to_serialize(self, value: Sequence[str], /) -> None: ...
    native_instance_norm: bool | None
    dla_core: int | None
    gpu_fallback: bool
    def validate(self) -> None:
        """Check what can be checked without a model, a GPU or TensorRT's libraries.

        Raises:
            UsageProblem: a word, a range or a combination is wrong, or the TensorRT version lacks what is asked for.
        """

class RunnerOptions:
    """How an engine is run.

    Attributes:
        slots: calls in flight at once, 1 to 64; each has its own context, streams and buffers.
        cuda_graph: capture a call of the same shapes at its second use and replay it from the third on.
        spin: wait by polling (lowest latency, one busy core) instead of sleeping.
        timing: measure device time by stage; costs four to six event records per call.
        graph_includes_transfers: copies and compute in one stream, with copies of less than 32 KiB in the graph, or
            each in its own stream; by default the former for inputs of up to 2 MiB in total.
        profile: always this optimisation profile; by default the one that fits the shapes of each call.
        state: output name to input name: values that stay on the device and feed the next call. One slot only.
        outputs: names of the outputs to copy to the host; by default all but the state outputs.
        graph_cache: shapes of which each slot keeps graphs. Where there are more, those that are used more often have
            them; of one shape there are several graphs if it comes with several addresses, choices of outputs or
            buffers of state.
    """

    slots: int
    cuda_graph: bool
    spin: bool
    timing: bool
    graph_includes_transfers: bool | None
    profile: int | None
    state: dict[str, str]
    outputs: list[str] | None
    graph_cache: int
    def __init__(
        self,
        *,
        slots: int = 1,
        cuda_graph: bool = True,
        spin: bool = True,
        timing: bool = False,
        graph_includes_transfers: bool | None = None,
        profile: int | None = None,
        state: Mapping[str, str] | None = None,
        outputs: Sequence[str] | None = None,
        graph_cache: int = 16,
    ) -> None: ...

class BenchOptions:
    """What `bench` does; the method is trtexec's.

    Attributes:
        iterations: fewest queries per stream after the warm-up.
        duration_s: shortest duration after the warm-up, in seconds.
        warmup_ms: warm-up in GPU time; its queries are dropped.
        streams: inference streams, each with its own context and buffers.
        threads: one host thread per stream; otherwise one for all.
        depth: queries in flight per stream; 1 exposes the transfers.
        spin: wait by polling instead of sleeping.
        transfers: copy inputs and outputs at every query.
        cuda_graph: launch the engine as a captured graph; copies stay outside.
        profiler: mark the timed part with cudaProfilerStart and -Stop.
        profile: optimisation profile; by default the one that fits the shapes.
    """

    iterations: int
    duration_s: float
    warmup_ms: float
    streams: int
    threads: bool
    depth: int
    spin: bool
    transfers: bool
    cuda_graph: bool
    profiler: bool
    profile: int | None
    def __init__(
        self,
        *,
        iterations: int = 10,
        duration_s: float = 3.0,
        warmup_ms: float = 200.0,
        streams: int = 1,
        threads: bool = False,
        depth: int = 2,
        spin: bool = True,
        transfers: bool = True,
        cuda_graph: bool = True,
        profiler: bool = False,
        profile: int | None = None,
    ) -> None: ...

class LetterboxSpec:
    """How a decoded image becomes one item of a model's input tensor; fields as those of `ImageTransform`.

    A grey level v of channel c becomes (v * scale - mean[c]) / std[c]. As uint8 the levels stay as they are.
    Values that make no sense, such as a uint8 tensor with a normalisation, are a UsageProblem.

    Attributes:
        placement: stretch fills the input: no padding, the aspect ratio is not kept.
        pad_value: grey level of the padding, normalised like any other.
        rounding: of the resized sides: half to even, or down.
        layout: hwc8: eight values a pixel, the last five zero.
    """

    height: Final[int]
    width: Final[int]
    placement: Final[Literal["centre", "top-left", "stretch"]]
    pad_value: Final[int]
    scale_up: Final[bool]
    rounding: Final[Literal["nearest", "down"]]
    channels: Final[Literal["rgb", "bgr"]]
    scale: Final[float]
    mean: Final[tuple[float, float, float]]
    std: Final[tuple[float, float, float]]
    layout: Final[Literal["nchw", "nhwc", "hwc8"]]
    dtype: Final[Literal["float32", "float16", "uint8"]]
    def __init__(
        self,
        height: int,
        width: int,
        *,
        placement: Literal["centre", "top-left", "stretch"] = "centre",
        pad_value: int = 114,
        scale_up: bool = True,
        rounding: Literal["nearest", "down"] = "nearest",
        channels: Literal["rgb", "bgr"] = "rgb",
        scale: float = ...,
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        layout: Literal["nchw", "nhwc", "hwc8"] = "nchw",
        dtype: Literal["float32", "float16", "uint8"] = "float32",
    ) -> None: ...

class HeadSpec:
    """How a detector's outputs become boxes; fields as those of `Head` (`backends/images.py`).

    Values that make no sense, such as no item, are a UsageProblem.

    Attributes:
        kind: what is a candidate.
        boxes: place of an item's four values.
        form: what the four values are.
        scores: place of the scores of an item, one a class.
        objectness: place of what the scores are multiplied by; of kind cells.
        labels: place of an item's class; of kind rows.
        background: place of a value of an item that must be finite; output -1: none.
        more: place of an item's further values, which go with its box.
        values: how many further values an item has, such as keypoints or weights of masks.
        planes: place of the planes that an item's further values weigh, which makes its mask, each an item and its
            pixels the values; output -1: none.
        plane_height: rows of a plane, at most those of the input.
        plane_width: its columns.
        label_major: of equal scores the one of the first class counts, not that of the first item.
        logits: a score is the sigmoid of its value.
        sizes: whether boxes of cells are raw; of kind cells.
        strides: of the levels, finest first; of kind cells.
        conf: lowest score, which kind cells keeps and others do not.
        iou: overlap from which on a better box of its class drops one; None for no suppression.
        most: best candidates that count; 0 for all.
        max_dets: boxes of an image.
    """

    height: Final[int]
    width: Final[int]
    items: Final[int]
    classes: Final[int]
    kind: Final[Literal["pairs", "best", "cells", "rows"]]
    boxes: Final[tuple[int, int, int, int]]
    form: Final[Literal["corners", "centre", "shares"]]
    scores: Final[tuple[int, int, int, int]]
    objectness: Final[tuple[int, int, int, int]]
    labels: Final[tuple[int, int, int, int]]
    background: Final[tuple[int, int, int, int]]
    more: Final[tuple[int, int, int, int]]
    values: Final[int]
    planes: Final[tuple[int, int, int, int]]
    plane_height: Final[int]
    plane_width: Final[int]
    label_major: Final[bool]
    logits: Final[bool]
    sizes: Final[Literal["by-value", "raw", "decoded"]]
    strides: Final[list[int]]
    conf: Final[float]
    iou: Final[float | None]
    most: Final[int]
    max_dets: Final[int]
    def __init__(
        self,
        height: int,
        width: int,
        items: int,
        classes: int,
        *,
        kind: Literal["pairs", "best", "cells", "rows"] = "pairs",
        boxes: Sequence[int] = (0, 0, 0, 0),
        form: Literal["corners", "centre", "shares"] = "corners",
        scores: Sequence[int] = (0, 0, 0, 0),
        objectness: Sequence[int] = (0, 0, 0, 0),
        labels: Sequence[int] = (0, 0, 0, 0),
        background: Sequence[int] = (-1, 0, 0, 0),
        more: Sequence[int] = (0, 0, 0, 0),
        values: int = 0,
        planes: Sequence[int] = (-1, 0, 0, 0),
        plane_height: int = 0,
        plane_width: int = 0,
        label_major: bool = False,
        logits: bool = False,
        sizes: Literal["by-value", "raw", "decoded"] = "by-value",
        strides: Sequence[int] = (),
        conf: float = 0.001,
        iou: float | None = None,
        most: int = 0,
        max_dets: int = 300,
    ) -> None: ...

class _PlanOptions(TypedDict, total=False):
    """How a plan is loaded.

    Attributes:
        allow_host_code: let a version-compatible plan execute the host code it carries (default False).
        device: CUDA device; -1 for the current one (default -1).
        library_dir: where libnvinfer lies, unless it is loaded already (default None).
        plugins: libraries to load before the plan, as they were for its build. Each is opened once and loaded through
            its descriptor (default ()).
        weight_streaming_budget: bytes of device memory for the weights of a plan that was built with weight streaming
            (TensorRT 10.1 and later), the rest is copied from the host while it runs; 'auto' (WeightBudget::automatic)
            lets TensorRT choose by what is free. Without a value all are on the device (default None).
    """

    allow_host_code: bool
    device: int
    library_dir: str | os.PathLike[str] | None
    plugins: Sequence[str]
    weight_streaming_budget: int | Literal["auto"] | None

class _StreamPoolOptions(TypedDict, total=False):
    """How streams are run.

    Attributes:
        capacity: most open streams (default 256).
        buckets: batch sizes to run. Each optimisation profile clips them to the batch sizes that it allows (default (1,
            2, 4, 8)).
        cuda_graphs: capture a batch of the same shapes at its second use and replay it from the third on (default
            True).
        timing: measure device time by stage, for `timing()` (default False).
        spin: wait by polling (lowest latency, one busy core) instead of sleeping (default True).
        graph_cache: combinations of shapes that are remembered; the oldest graph is dropped (default 64).
    """

    capacity: int
    buckets: Sequence[int]
    cuda_graphs: bool
    timing: bool
    spin: bool
    graph_cache: int
