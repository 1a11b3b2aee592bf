"""What is profiled: a model or engine on a backend, with random inputs of the shapes asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from trt_workbench.backends.base import Session, SessionOptions, TensorSpec
from trt_workbench.backends.measure.inputs import (
    SHAPE_HINT,
    complete_shapes,
    dimension_symbols,
    onnx_inputs,
    random_inputs,
    with_limits,
)
from trt_workbench.backends.registry import get_backend, require_backend
from trt_workbench.backends.trt.inputs import engine_inputs
from trt_workbench.engine.loading import LoadedEngine
from trt_workbench.engine.profiles import fixed_profile


class Workload(BaseModel):
    """Everything that another process needs to do the same.

    Attributes:
        path: model or plan.
        backend: name of the backend, never "auto".
        precision: asked of the backend.
        options: extra options of the backend.
        shapes: of inputs with dynamic dimensions, by name.
        seed: of the random inputs.
        warmup: runs that do not count.
        iterations: runs that do.
        profile: optimisation profile of an engine; None chooses by the shapes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    backend: str
    precision: str = "fp32"
    options: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    seed: int = 0
    warmup: int = 3
    iterations: int = 20
    profile: int | None = None

    def session_options(self) -> SessionOptions:
        """Return the options of a session: what the runtime itself makes of the file, without a simulation.

        TensorRT runs without CUDA graphs, which hide the layers.
        """
        own = {} if self.profile is None else {"profile": self.profile}
        if get_backend(self.backend).plans:
            own["cuda_graph"] = False
        return SessionOptions(
            precision=self.precision, exact=True, extra={**self.options, **own}, shapes=fixed_profile(self.shapes)
        )


def open_session(work: Workload) -> Session:
    """Load the workload's model on its backend. Raises as `Backend.load`."""
    return require_backend(work.backend, work.path.suffix).load(work.path, work.session_options())


def random_feed(session: Session, work: Workload) -> dict[str, NDArray[Any]]:
    """Return random inputs for a session.

    Raises:
        UsageProblem: a dynamic dimension has no value, or a shape does not fit.
    """
    return feed_for(session.inputs, work, session.loaded)


def feed_for(
    specs: Sequence[TensorSpec], work: Workload, engine: LoadedEngine | None = None
) -> dict[str, NDArray[Any]]:
    """Return random inputs for a model's inputs, for one of an engine's profiles. Raises as `random_feed`."""
    if engine:
        return engine_inputs(engine, specs, work.path, work.seed, asked=work.shapes, profile=work.profile)
    tensors = onnx_inputs(work.path)
    shapes = complete_shapes(specs, dimension_symbols(tensors), {}, SHAPE_HINT, asked=work.shapes)
    hint = "profile generates random inputs; infer-engine --input takes arrays"
    return random_inputs(with_limits(specs, tensors), shapes, work.seed, hint=hint)
