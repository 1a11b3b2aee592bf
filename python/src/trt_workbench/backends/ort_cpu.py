"""The backend `ort-cpu`: ONNX Runtime with its CPU execution provider."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions, TensorSpec
from trt_workbench.errors import ComponentMissing, DeviceFailure, UsageProblem, WorkbenchError

if TYPE_CHECKING:
    import onnxruntime as ort
    from numpy.typing import NDArray

# Older releases lack the containment checks of external data; this is the one that is tested.
MINIMUM_VERSION = "1.31.1"
_MEND = f"Install it with `pip install onnxruntime=={MINIMUM_VERSION}`."
_PROVIDER = "CPUExecutionProvider"

# Threads that spin while they wait take the processors from image loading: on two shared cores YOLOX-Nano made
# 12 runs/s with spinning and 22 without.
_EXTRA_DEFAULTS: Mapping[str, Any] = {"allow_spinning": False, "graph_optimization_level": "all"}
_LEVELS = {
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

# ONNX Runtime reports a failed allocation by text alone.
_OUT_OF_MEMORY = ("bad allocation", "bad_alloc", "failed to allocate", "out of memory")


class OrtCpuBackend(Backend):
    """ONNX Runtime on the CPU, running the model in the precision it was exported in.

    Extra options: `allow_spinning` (bool, off unless asked for) and `graph_optimization_level` ("disable", "basic",
    "extended", "all").
    """

    name: ClassVar[str] = "ort-cpu"
    file_kinds: ClassVar[tuple[str, ...]] = (".onnx",)

    def availability(self) -> Availability:
        """Say whether ONNX Runtime can be imported here and is new enough."""
        try:
            import onnxruntime as ort
        except Exception as error:  # a broken install fails in many ways; each is the answer here
            return Availability(ok=False, reason=f"onnxruntime cannot be imported ({error}).", mend=_MEND)
        versions = {"onnxruntime": str(ort.__version__)}
        if _release(ort.__version__) < _release(MINIMUM_VERSION):
            reason = f"onnxruntime {ort.__version__} is older than {MINIMUM_VERSION}."
            return Availability(ok=False, reason=reason, mend=_MEND, versions=versions)
        return Availability(ok=True, versions=versions)

    def _load(self, model: Path, options: SessionOptions) -> Session:
        try:
            import onnxruntime as ort
        except ImportError as error:
            msg = f"Backend ort-cpu needs onnxruntime, which cannot be imported ({error}). {_MEND}"
            raise ComponentMissing(msg) from error
        from trt_workbench.onnxtools.preflight import examine_model

        extra = _checked_extra(options)
        examine_model(model)
        config, provenance = _configure(ort, options, extra)
        try:
            session = ort.InferenceSession(model, config, providers=[_PROVIDER])
        except Exception as error:
            if problem := _translated(error, "ONNX Runtime cannot load the model", model):
                raise problem from error
            raise
        return OrtCpuSession(session, model, options.concurrency, provenance)


class OrtCpuSession(Session):
    """A model in ONNX Runtime. `run` may be called from several threads at once."""

    def __init__(
        self, session: ort.InferenceSession, model: Path, concurrency: int, provenance: Mapping[str, Any]
    ) -> None:
        self._session: ort.InferenceSession | None = session
        self._model = model
        self.inputs = tuple(_spec(node, model) for node in session.get_inputs())
        self.outputs = tuple(_spec(node, model) for node in session.get_outputs())
        self.metadata = dict(session.get_modelmeta().custom_metadata_map)
        self.provenance = {**provenance, "providers": session.get_providers()}
        self.concurrency = concurrency
        self._output_names = [spec.name for spec in self.outputs]

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        session = self._session
        if session is None:  # closed by another thread since the check
            msg = "The session is closed; load the model again."
            raise UsageProblem(msg)
        try:
            results = session.run(self._output_names, inputs)
        except Exception as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
            if problem := _translated(error, f"ONNX Runtime cannot run the model with {shapes}", self._model):
                raise problem from error
            raise
        return dict(zip(self._output_names, results, strict=True))

    def _close(self) -> None:
        self._session = None


def _configure(
    ort: Any, options: SessionOptions, extra: Mapping[str, Any]
) -> tuple[ort.SessionOptions, dict[str, Any]]:
    total = options.threads if options.threads is not None else len(os.sched_getaffinity(0))
    intra = max(1, total // options.concurrency)
    config = ort.SessionOptions()
    config.intra_op_num_threads = intra
    config.inter_op_num_threads = 1
    config.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    config.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[extra["graph_optimization_level"]])
    config.log_severity_level = 3  # errors; they come back as exceptions anyway
    config.add_session_config_entry("session.intra_op.allow_spinning", str(int(extra["allow_spinning"])))
    return config, {
        "onnxruntime": str(ort.__version__),
        "intra_op_threads": intra,
        "inter_op_threads": 1,
        "concurrency": options.concurrency,
        "allow_spinning": extra["allow_spinning"],
        "graph_optimization_level": extra["graph_optimization_level"],
        "precision": "as exported",
    }


def _checked_extra(options: SessionOptions) -> dict[str, Any]:
    """Return the extra options with defaults filled in, or raise UsageProblem for any option that cannot be had."""
    if options.precision != "fp32":
        msg = (
            f"Backend ort-cpu runs a model in the precision it was exported in and cannot be asked for "
            f"{options.precision!r}; leave the precision out or convert the model."
        )
        raise UsageProblem(msg)
    if options.concurrency < 1 or (options.threads is not None and options.threads < 1):
        msg = f"Threads and concurrency are at least 1, not {options.threads} and {options.concurrency}."
        raise UsageProblem(msg)
    for key in options.extra:
        if key not in _EXTRA_DEFAULTS:
            near = difflib.get_close_matches(key, _EXTRA_DEFAULTS, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(_EXTRA_DEFAULTS)}."
            msg = f"Backend ort-cpu has no option {key!r}; {hint}"
            raise UsageProblem(msg)
    extra = {**_EXTRA_DEFAULTS, **options.extra}
    if extra["graph_optimization_level"] not in _LEVELS:
        msg = f"graph_optimization_level is one of {', '.join(_LEVELS)}, not {extra['graph_optimization_level']!r}."
        raise UsageProblem(msg)
    if not isinstance(extra["allow_spinning"], bool):
        msg = f"allow_spinning is true or false, not {extra['allow_spinning']!r}."
        raise UsageProblem(msg)
    return extra


def _spec(node: ort.NodeArg, model: Path) -> TensorSpec:
    kind = node.type.removeprefix("tensor(").removesuffix(")")
    if kind == node.type or kind not in _DTYPES:
        msg = f"Backend ort-cpu cannot exchange {node.name} of type {node.type} with numpy: {model}"
        raise UsageProblem(msg)
    shape = tuple(dim if isinstance(dim, int) and dim >= 0 else None for dim in node.shape)
    return TensorSpec(node.name, _DTYPES[kind], shape)


def _translated(error: Exception, what: str, model: Path) -> WorkbenchError | None:
    """Return the error to raise instead of one of ONNX Runtime's, None for one that is not its own."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) or any(sign in text.lower() for sign in _OUT_OF_MEMORY):
        return DeviceFailure(f"Out of memory. {what} ({text}). Use a smaller batch or fewer runs at once: {model}")
    if type(error).__module__.startswith("onnxruntime"):
        return UsageProblem(f"{what} ({text}): {model}")
    return None


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, so that a nightly build compares like its release."""
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
