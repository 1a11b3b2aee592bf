"""Types of the building half of the core: errors, TensorRT's libraries, options, builds, inspection, refit."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

from numpy.typing import NDArray

from trt_workbench_native._options import BuildOptions
from trt_workbench_native._runner import Engine

# ---- errors: NativeError and what derives from it are all that the core raises on purpose

class NativeError(Exception):
    """Base of all that the core raises on purpose."""

class UsageProblem(NativeError):
    """The request cannot be served as it stands: a wrong option, shape, dtype, name or file."""

class ComponentMissing(NativeError):
    """A library, header set or feature that the request needs is not there."""

class DeviceFailure(NativeError):
    """The GPU or its driver failed: out of memory, lost, or not usable at all."""

class OutOfMemory(DeviceFailure):
    """Device or page-locked memory ran out. Earlier allocations stay valid."""

class DeviceLost(DeviceFailure):
    """The GPU failed for good: every later call of this process fails, too."""

class CheckFailed(NativeError):
    """A check of results or contents did not hold."""

class Cancelled(NativeError):
    """The caller ended a long operation."""

# ---- every build

def build_info() -> dict[str, str | None]:
    """Return what the module was compiled with; says nothing about this machine.

    Keys: `version`, `cuda`, `cuda_architectures` (such as "90 120"), `tensorrt_headers`, `compiler`; None for what the
    build lacks.
    """

def tensorrt_status(library_dir: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Open TensorRT where it can be found, and tell what it is. Never raises.

    Args:
        library_dir: the only folder to look in; without it `$TENSORRT_HOME/lib`, then the loader's path.

    Returns:
        `available`, `version`, `headers`, the paths `libnvinfer`, `parser` and `plugin`, `error` (why it is not
        available), `notes` (what is missing without being fatal) and `mapped` (every libnvinfer in this process).
    """

def load_tensorrt(library_dir: str | os.PathLike[str] | None = None, plugins: bool = True) -> dict[str, Any]:
    """Open TensorRT once for the whole process; return its status.

    Args:
        library_dir: as of `tensorrt_status`.
        plugins: open libnvinfer_plugin and register its layers.

    Raises:
        ComponentMissing: libnvinfer is absent, or of another major version than the headers of this build.
        UsageProblem: another folder is in use already; a process holds one TensorRT.
    """

# ---- building: needs TensorRT headers

def drain_log() -> list[tuple[str, str]]:
    """Return TensorRT's log lines since the last call as (severity, text) pairs, oldest first."""

def set_log_level(level: str) -> None:
    """Set the least grave severity that is kept.

    Args:
        level: internal_error, error, warning, info (the default) or verbose.

    Raises:
        UsageProblem: there is no such level.
    """

_Dims = Sequence[int]
_Range = tuple[_Dims, _Dims, _Dims]
_ProgressCallback = Callable[[str, int, int], bool | None]

@final
class Profile:
    """The range of input shapes that an engine accepts and is tuned for.

    Attributes:
        shapes: (min, opt, max) by input name, each a sequence of dimensions; read-only, assign a whole mapping.
        values: the same for the values of shape tensors.
    """

    def __init__(self, *, shapes: Mapping[str, _Range] = ..., values: Mapping[str, _Range] = ...) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]
    @property
    def shapes(self) -> Mapping[str, _Range]: ...
    @shapes.setter
    def shapes(self, value: Mapping[str, _Range], /) -> None: ...
    @property
    def values(self) -> Mapping[str, _Range]: ...
    @values.setter
    def values(self, value: Mapping[str, _Range], /) -> None: ...

@final
class Calibration:
    """What an INT8 calibrator is fed with (TensorRT 8 and 10).

    Args:
        algorithm: "entropy2" for convolutional networks, "minmax" for transformers.
        batches: returns an iterable of batches, each a mapping of every input's name to an array of the input's dtype,
            all of one shape. Called once, from the thread that builds.
        cache: bytes of an earlier calibration; the batches are then not read.
    """

    def __init__(
        self,
        *,
        algorithm: str = "entropy2",
        batches: Callable[[], Iterable[Mapping[str, NDArray[Any]]]] | None = None,
        cache: bytes | None = None,
    ) -> None: ...
    @property
    def algorithm(self) -> str: ...

@final
class NetworkTensor:
    """An input or output of the network that was parsed; -1 stands for a dimension only known at run time."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def is_input(self) -> bool: ...
    @property
    def is_shape_tensor(self) -> bool: ...

@final
class BuildResult:
    """A built plan and what is known of its making.

    Unless the timing cache was disabled, it holds TensorRT's builder, with its memory, until it is freed.

    Attributes:
        plan: what to write to a file.
        timing_cache: for later builds; None where it was disabled.
        calibration_cache: for later builds; None without calibration.
        parse_s: seconds that parsing took.
        build_s: seconds that TensorRT's build took, calibration included.
        layer_count: layers of the network; an engine has fewer after fusion.
        skipped_tactics: kernels skipped because memory ran out, a sign of a slower engine.
        warnings: TensorRT's warnings and the core's, each once.
        inputs: of the network.
        outputs: of the network.
    """

    @property
    def plan(self) -> bytes: ...
    @property
    def timing_cache(self) -> bytes | None: ...
    @property
    def calibration_cache(self) -> bytes | None: ...
    @property
    def parse_s(self) -> float: ...
    @property
    def build_s(self) -> float: ...
    @property
    def layer_count(self) -> int: ...
    @property
    def skipped_tactics(self) -> int: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def inputs(self) -> tuple[NetworkTensor, ...]: ...
    @property
    def outputs(self) -> tuple[NetworkTensor, ...]: ...
    def merge_timing_caches(self, caches: Sequence[bytes]) -> bytes:
        """Join timing caches with the builder of this build; on a conflict the earlier wins.

        Raises:
            UsageProblem: TensorRT rejects one of them, or the build's timing cache was disabled.
            DeviceFailure: the GPU fails.
        """

class BuilderHold:
    """Keeps TensorRT's builder loaded until it is closed or freed, for a process that builds several engines."""

    def __init__(self, device: int = 0) -> None:
        """Load it on a device, which takes seconds.

        Raises:
            ComponentMissing: TensorRT's library or its builder is absent.
            UsageProblem: the device does not exist.
            DeviceFailure: no GPU can be used.
        """

    def close(self) -> None:
        """Release it; calling it again does nothing."""

def build_engine(
    model: str | os.PathLike[str], options: BuildOptions, progress: _ProgressCallback | None = None
) -> BuildResult:
    """Build a plan from an ONNX file. Other Python threads go on while TensorRT works.

    Args:
        model: path of the model; external data is next to it.
        options: what is asked for.
        progress: called with a phase's name, the steps done and the steps in all (0: unknown), from any thread; False
            ends the build. TensorRT 8 reports "parse", "calibrate" and "build" alone.

    Raises:
        UsageProblem: the model or the options cannot be built; a parser's error names the ONNX node.
        ComponentMissing: TensorRT's library, its parser or a library that was asked for is absent.
        DeviceFailure: no GPU can be used, it failed, or its memory does not suffice.
        Cancelled: `progress` returned False.
    """

def unsupported_operators(op_types: Sequence[str]) -> list[str]:
    """Return those of the ONNX operators that TensorRT's parser does not import, plugins aside.

    Raises:
        DeviceFailure: no GPU can be used.
    """

def option_names() -> dict[str, list[str]]:
    """Return the words that options take in the TensorRT in use, or in the headers before one is open.

    Keys: precisions, data_types, memory_pools, tactic_sources, preview_features, io_formats.
    """

def inspect_engine(engine: Engine) -> dict[str, Any]:
    """Return what an engine is made of.

    Keys: `name`, `tensorrt_version`, `layer_count` (after fusion), `profile_count`, `device_memory_bytes` (scratch
    memory of one context), `aux_stream_count`, `refittable`, `hardware_compatibility`, `profiling_verbosity`,
    `engine_capability`, `tactic_sources`, `streamable_weight_bytes` (None before TensorRT 10), `layers_json` (the text
    of TensorRT's inspector).

    Raises:
        DeviceFailure: TensorRT cannot make an inspector.
    """

def refittable_weights(engine: Engine) -> list[str]:
    """Return the names of the weights that the engine lets replace.

    Raises:
        UsageProblem: the engine is not refittable.
    """

def refit(
    engine: Engine,
    *,
    model: str | os.PathLike[str] | None = None,
    weights: Mapping[str, NDArray[Any]] | None = None,
) -> bytes:
    """Put new weights into a refittable engine; return the plan that holds them.

    Args:
        engine: it has the new weights afterwards, and runners of it go on with them; calls that begin during the refit
            wait for its end, and CUDA graphs are captured again.
        model: an ONNX model of the same structure (TensorRT 10 and later).
        weights: arrays by the weights' names, in native byte order, instead of a model.

    Raises:
        UsageProblem: the engine is not refittable, the weights do not fit, this TensorRT version cannot, or calls of
            the engine are in flight (TensorRT leaves a refit undefined then): take their tickets' results first.
        ComponentMissing: the ONNX parser is absent.
    """
