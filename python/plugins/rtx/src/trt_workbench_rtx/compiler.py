"""TensorRT-RTX's compiler (the package `tensorrt-rtx`): a model, ahead of time, for a card that need not be here.

No other module imports `tensorrt_rtx`. It is C++ that any model may crash: `run.py` runs it in a process of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trt_workbench.core.documents import Strict
from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.launcher import package
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.opened import Model
from trt_workbench_rtx.layers import BuiltLayer, built_layers
from trt_workbench_rtx.refusals import Complaint, Refusal, build_refusal, parser_refusal

MODULE = "tensorrt_rtx"
_ERRORS = ("ERROR", "INTERNAL_ERROR")


class Compiled(Strict):
    """What came of a build: an engine's size and layers, or the refusal.

    Attributes:
        build_s: seconds of parsing and building.
        version: of TensorRT-RTX.
        refusal: None where an engine was built.
        engine_size_bytes: None without an engine.
        layers: of the engine.
        log: warnings and errors.
    """

    build_s: float
    version: str
    refusal: Refusal | None = None
    engine_size_bytes: int | None = None
    layers: tuple[BuiltLayer, ...] = ()
    log: tuple[str, ...] = ()


def require_compiler() -> None:
    """Raise ComponentMissing where the package is not installed; it is not imported."""
    if importlib.util.find_spec(MODULE) is None:
        raise ComponentMissing(
            f"check-target compiles with TensorRT-RTX's package ({MODULE}), which is not installed. It needs neither "
            f"a GPU nor a driver, and is 95 MB. {package('tensorrt-rtx')}"
        )


def compile_model(model: Path, sm: str, profiles: Sequence[Profile]) -> Compiled:
    """Compile a model for one architecture; what its types say is what is computed (a strongly typed network).

    Args:
        model: the ONNX file.
        sm: one of the architectures that it builds for (`cards.py`).
        profiles: ranges of shapes of dynamic inputs.

    Raises:
        ComponentMissing: the package cannot be imported.
        UsageProblem: the file is no ONNX, or a profile does not fit it.
    """
    trt = _module()
    graph = Model.open(model).proto.graph
    logger = _logger(trt)
    begin = time.perf_counter()
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(model)):
        complaints = [_complaint(parser.get_error(number)) for number in range(parser.num_errors)]
        refusal = parser_refusal(complaints, graph) if complaints else build_refusal(_of(logger, *_ERRORS), graph)
        return Compiled(
            build_s=time.perf_counter() - begin,
            version=trt.__version__,
            refusal=refusal,
            log=_of(logger, "WARNING", *_ERRORS),
        )
    plan = builder.build_serialized_network(network, _config(trt, builder, sm, profiles))
    if plan is None:
        built: dict[str, Any] = {"refusal": build_refusal(_of(logger, *_ERRORS), graph)}
    else:
        built = {"engine_size_bytes": plan.nbytes, "layers": built_layers(_of(logger, "VERBOSE"))}
    return Compiled(
        build_s=time.perf_counter() - begin, version=trt.__version__, log=_of(logger, "WARNING", *_ERRORS), **built
    )


def _module() -> Any:
    require_compiler()
    try:
        return importlib.import_module(MODULE)
    except (ImportError, OSError) as error:
        raise ComponentMissing(f"TensorRT-RTX's package cannot be loaded ({error}); reinstall it.") from error


def _config(trt: Any, builder: Any, sm: str, profiles: Sequence[Profile]) -> Any:
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED  # only this one reports the layers' types
    config.num_compute_capabilities = 1
    config.set_compute_capability(getattr(trt.ComputeCapability, sm.upper()), 0)
    for asked in profiles:
        profile = builder.create_optimization_profile()
        for name, shape in asked.shapes.items():
            profile.set_shape(name, shape.min, shape.opt, shape.max)
        for name, values in asked.values.items():
            profile.set_shape_input(name, values.min, values.opt, values.max)
        config.add_optimization_profile(profile)
    return config


def _complaint(error: Any) -> Complaint:
    return Complaint(
        index=error.node(),
        name=error.node_name(),
        operator=error.node_operator(),
        text=error.desc(),
        function=error.func(),
        file=error.file(),
    )


def _logger(trt: Any) -> Any:
    """Return a logger that keeps the messages, as severity and text; its base class is TensorRT-RTX's."""

    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.messages: list[tuple[str, str]] = []

        def log(self, severity: Any, text: str) -> None:
            self.messages.append((severity.name, text))

    return Logger()


def _of(logger: Any, *severities: str) -> tuple[str, ...]:
    return tuple(text for severity, text in logger.messages if severity in severities)
