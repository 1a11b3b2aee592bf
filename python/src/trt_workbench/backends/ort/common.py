"""What the three ONNX Runtime backends share: versions, session settings, tensor types, errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import Availability, SessionOptions, TensorSpec
from trt_workbench.core.device_errors import device_error, device_message
from trt_workbench.core.environment import available_processors
from trt_workbench.core.errors import ComponentMissing, Unsupported, UsageProblem, WorkbenchError, reason_of
from trt_workbench.core.launcher import package

if TYPE_CHECKING:
    import onnxruntime as ort

    from trt_workbench.model.opened import Model

# Older releases lack the containment checks of external data; this is the one that is tested.
MINIMUM_VERSION = "1.31.1"
CPU_PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"
TENSORRT_PROVIDER = "TensorrtExecutionProvider"

LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}

# ONNX Runtime's element types by numpy name, those that numpy itself has.
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "bool": "bool",
    "string": "object",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

# A provider reports an option that it does not take by the text of a plain RuntimeError: one that every version of it
# has, and one that another version has.
_REFUSED_OPTION = re.compile(
    r"""(?:Failed to parse provider option "|The value for the key ')(\w+)(?:":|') ?"""
    r"(?:\S+\.\w+:\d+ \S+ )?(?:Failed to parse value|(.*))"
)
_UNKNOWN_OPTION = re.compile(r'(?:Unknown provider|Invalid TensorRT EP) option: "?(\w+)')
_NO_KERNEL = re.compile("kernel for (com.microsoft.)?(QLinear|QGemm|MatMulInteger|ConvInteger)")
_SHARED_WEIGHT = "AddInitializedOrtValue Attempt to replace the existing tensor"
_ABSENT_DEVICE = re.compile(r"Invalid device ID: .* and (\d+) \(exclusive\)|invalid device ordinal")


def too_old(version: str) -> str:
    """Return why a version of ONNX Runtime is not taken, a sentence; "" where it is, as any of a chosen stack is."""
    if release(version) >= release(MINIMUM_VERSION):
        return ""
    from trt_workbench.core.stack import is_chosen

    return "" if is_chosen() else f"onnxruntime {version} is older than {MINIMUM_VERSION}."


def installed(wheel: str) -> Availability:
    """Say whether ONNX Runtime can be imported here and is new enough; the fix installs `wheel`."""
    try:
        import onnxruntime as ort
    except Exception as error:  # a broken install fails in many ways; each is reported here
        return Availability(
            ok=False, reason=f"onnxruntime cannot be imported ({reason_of(error)}).", fix=package(wheel)
        )
    reason = too_old(ort.__version__)
    fix = package(wheel) if reason else ""
    return Availability(ok=not reason, reason=reason, fix=fix, versions={"onnxruntime": str(ort.__version__)})


def method(session: ort.InferenceSession, name: str) -> Callable[..., Any]:
    """Return a method of a session. Raises ComponentMissing where this ONNX Runtime, of a chosen stack, lacks it."""
    found: Callable[..., Any] | None = getattr(session, name, None)
    if found is None:
        version = import_module("onnxruntime").__version__
        raise ComponentMissing(f"onnxruntime {version} has no {name}, which is needed here; {MINIMUM_VERSION} has it.")
    return found


def cuda_major(ort: Any) -> int | None:
    """Return the major version of CUDA that the module onnxruntime `ort` was built with; None without CUDA."""
    version = str(getattr(ort, "cuda_version", "") or "")
    return int(version.split(".")[0]) if version else None


def release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, so that a nightly build compares like its release."""
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def check_counts(options: SessionOptions) -> None:
    """Raise UsageProblem if the threads or the concurrency that were requested are below 1."""
    if options.concurrency < 1 or (options.threads is not None and options.threads < 1):
        raise UsageProblem(
            f"Threads and concurrency must be at least 1, not {options.threads} and {options.concurrency}."
        )


def session_config(
    ort: Any, options: SessionOptions, level: str, *, allow_spinning: bool | None = None
) -> tuple[ort.SessionOptions, dict[str, Any]]:
    """Return ONNX Runtime's session settings and their record.

    Args:
        ort: the module onnxruntime.
        options: threads are shared out among the runs in flight.
        level: a key of LEVELS.
        allow_spinning: whether idle threads poll; None for what `options` say.
    """
    total = options.threads if options.threads is not None else available_processors()
    intra = max(1, total // options.concurrency)
    config = ort.SessionOptions()
    config.intra_op_num_threads = intra
    config.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    config.log_severity_level = 4  # not errors: they come back as exceptions, these without colours and file names
    ort.set_default_logger_severity(config.log_severity_level)
    polls = options.polls if allow_spinning is None else allow_spinning
    config.add_session_config_entry("session.intra_op.allow_spinning", str(int(polls)))
    # 4-bit weights are multiplied by activations as they are: at 4, the default, the CPU's kernel rounds these to int8,
    # and the graph of any provider says that it would
    config.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    return config, {
        "onnxruntime": str(ort.__version__),
        "intra_op_threads": intra,
        "concurrency": options.concurrency,
        "allow_spinning": polls,
        "graph_optimization_level": level,
    }


def cpu_session(ort: Any, model: Model, config: ort.SessionOptions) -> tuple[ort.InferenceSession, dict[str, Any]]:
    """Return a session on the CPU provider whose low precision is the model's own, and what to record of it.

    Without VNNI the sums of the default int8 kernels saturate in 16 bits, which costs a quantised model most of its
    accuracy. The rewrite that avoids it stops at weights that several products share (ONNX Runtime 1.31): such a model
    is computed in fp32, as its Q/DQ nodes say. In one of QLinearMatMul and its like it leaves types that no kernel
    takes: below that level there are no rewrites. Scales along an axis that no kernel takes are computed in fp32, too
    (`lacks_kernel`).

    Raises:
        Exception: as ONNX Runtime does.
    """
    from trt_workbench.backends.simulation import lacks_kernel

    config.add_session_config_entry("session.x64quantprecision", "1")
    plain = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    record: dict[str, Any] = {}
    if model.facts.is_quantized and lacks_kernel(model.proto):
        config.add_session_config_entry("session.disable_quant_qdq", "1")
        record = {"simulated": True, "int8_products": "in fp32: no kernel supports scales along their axis"}
    try:
        return ort.InferenceSession(model.path, config, providers=[CPU_PROVIDER], enable_fallback=0), record
    except Exception as error:
        if _SHARED_WEIGHT in str(error):
            config.add_session_config_entry("session.disable_quant_qdq", "1")
            record = {"simulated": True, "int8_products": "in fp32: several share a weight"}
        elif _NO_KERNEL.search(str(error)) and config.graph_optimization_level not in plain:
            config.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
            record = {"graph_optimization_level": "basic"}
        else:
            raise
    return ort.InferenceSession(model.path, config, providers=[CPU_PROVIDER], enable_fallback=0), record


def tensor_spec(node: ort.NodeArg, model: Path, backend: str) -> TensorSpec:
    """Return name, dtype and shape of an input or output.

    Raises:
        UsageProblem: it is no tensor, or of a type that numpy does not have.
    """
    kind = node.type.removeprefix("tensor(").removesuffix(")")
    if kind == node.type or kind not in _DTYPES:
        raise UsageProblem(f"Backend {backend} cannot exchange {node.name} of type {node.type} with numpy: {model}")
    shape = tuple(dim if isinstance(dim, int) and dim >= 0 else None for dim in node.shape)
    return TensorSpec(node.name, _DTYPES[kind], shape)


def translated(
    error: Exception, what: str, model: Path, given: Mapping[str, str] = MappingProxyType({})
) -> WorkbenchError | None:
    """Return the error to raise instead of one of ONNX Runtime's, None for errors of other origin.

    Args:
        error: as it was raised.
        what: was tried, for the message.
        model: the file, for the message.
        given: options of the provider, by their names.
    """
    text = " ".join(str(error).split())
    if absent := _ABSENT_DEVICE.search(text):
        count = int(absent[1] or 0)
        seen = f"GPUs 0 to {count - 1}" if count > 1 else "only GPU 0" if count else "no such GPU"
        return UsageProblem(
            f"{what}: the option device_id={given.get('device_id')} was given, but ONNX Runtime sees {seen}: {model}"
        )
    if kind := device_error(error):
        return kind(f"{device_message(kind, what, text)}: {model}")
    if refused := _REFUSED_OPTION.search(text):
        name, why = refused[1], (refused[2] or "of another type").rstrip(".")
        return UsageProblem(f"{what}: its provider does not accept {name}={given.get(name)} ({why}): {model}")
    if unknown := _UNKNOWN_OPTION.search(text):
        version = import_module("onnxruntime").__version__
        return UsageProblem(f"{what}: its provider in onnxruntime {version} has no option {unknown[1]}: {model}")
    # a bound run raises plain RuntimeErrors
    if type(error).__module__.startswith("onnxruntime") or text.startswith("Error in execution"):
        lacks = type(error).__name__ == "NotImplemented"
        return (Unsupported if lacks else UsageProblem)(f"{what} ({text}): {model}")
    return None
