"""What is tried, and beside what: sessions of an engine or model in several ways, its reference, and its shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import require_backend
from trt_workbench.backends.trt_opening import engine_session
from trt_workbench.engine.hashing import hash_model
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.engine.profiles import Profile, ShapeRange
from trt_workbench.errors import UsageProblem, WorkbenchError
from trt_workbench.onnxtools.preflight import ModelFacts, examine_model
from trt_workbench.verify.budget import Budget
from trt_workbench.verify.space import Range, Space, engine_spaces, model_space

MODEL_SUFFIX = ".onnx"
NO_REFERENCE = "none"
TENSORRT = "trt"
# Results that differ from call to call by design.
_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")


@dataclass(frozen=True)
class VerifyRequest:
    """What is asked for.

    Attributes:
        target: an ONNX model, or a plan.
        model: ONNX model that the target was made from, for the reference; None for the target itself where it is a
            model, and for the one that a plan's manifest names where that is still the same.
        backend: that executes the target.
        precision: that it is asked for.
        reference: backend that executes the model beside it, or "none".
        inputs: array files as `infer-engine --input` takes them; none to draw inputs at random.
        ranges: sizes of dynamic dimensions by symbol or `input.axis`.
        options: of the backend.
        quick: fewer shapes and no further sessions.
        seed: of inputs and shapes.
        trust: load a plan without a matching manifest.
        device: CUDA device.
        budget: how long it may take; None for as long as it takes. Within one, the first wrong shape is the last.
    """

    target: Path
    model: Path | None = None
    backend: str = TENSORRT
    precision: str = "fp32"
    reference: str = "ort-cpu"
    inputs: tuple[str, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False
    seed: int = 0
    trust: bool = False
    device: int = 0
    budget: Budget | None = None


class Opened:
    """The sessions of a request. A context manager that closes them.

    Attributes:
        graph: the ONNX model that the target is or was made from; None where it is not at hand.
        facts: of the model; None without one.
        session: of the target.
        reference: of the model; None without one.
        spaces: shapes that the target accepts, by profile.
    """

    def __init__(self, request: VerifyRequest, note: Callable[[str], None]) -> None:
        """Open target and reference.

        Raises:
            UsageProblem: a file or option cannot be used, or the model is random by design.
            ComponentMissing: a backend cannot serve here.
            DeviceFailure: the device failed or is out of memory.
        """
        self._request, self._sessions = request, []  # type: ignore[var-annotated]
        self.graph = request.model or own_model(request.target)
        graph = self.graph
        self.facts: ModelFacts | None = examine_model(graph) if graph else None
        if self.facts:
            _refuse_random(self.facts, request.target)
        if request.target.suffix != MODEL_SUFFIX and request.backend != TENSORRT:
            msg = f"A plan is executed by backend {TENSORRT}, not {request.backend}: {request.target}"
            raise UsageProblem(msg)
        self._note = note
        try:
            self.session = self.open()
            self.reference = self._open_reference()
        except BaseException:
            self.close()
            raise
        self.spaces = self._spaces()

    def open(self, concurrency: int = 1, **extra: Any) -> Session:
        """Open the target once more, with further options of its backend; closed with the others."""
        request = self._request
        options: dict[str, Any] = {**self._profiles(), **request.options, **extra}
        if request.backend == TENSORRT:
            options |= {"device": request.device, "note": self._note}
            if request.target.suffix != MODEL_SUFFIX:
                options["trust"] = request.trust
        chosen = SessionOptions(precision=request.precision, concurrency=concurrency, extra=options)
        session = require_backend(request.backend, request.target.suffix).load(request.target, chosen)
        self._sessions.append(session)
        return session

    def ways(self) -> dict[str, Callable[[], Session]]:
        """Return further ways to run the target, by name; each opens a session."""
        ways: dict[str, Callable[[], Session]] = {"a second session": self.open}
        if engine_session(self.session):
            ways["without a CUDA graph"] = lambda: self.open(cuda_graph=False)
            ways["transfers outside of the graph"] = lambda: self.open(graph_includes_transfers=False)
        return ways

    def close(self) -> None:
        """Close every session."""
        while self._sessions:
            self._sessions.pop().close()

    def __enter__(self) -> Opened:
        """Return the sessions."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self.close()

    def _open_reference(self) -> Session | None:
        request, graph = self._request, self.graph
        if request.reference == NO_REFERENCE:
            return None
        if graph is None:
            self._note("The model of the plan is not at hand (--model names it): properties alone are verified.")
            return None
        backend = require_backend(request.reference, MODEL_SUFFIX)
        try:
            session = backend.load(graph, SessionOptions())
        except WorkbenchError as error:
            msg = f"The reference {request.reference} cannot be opened; choose another with --reference. {error}"
            raise type(error)(msg) from error
        self._sessions.append(session)
        return session

    def _spaces(self) -> list[Space]:
        symbols = {tensor.name: tensor.shape for tensor in self.facts.inputs} if self.facts else {}
        if session := engine_session(self.session):
            names = {spec.name for spec in session.inputs}
            return engine_spaces([t for t in session.loaded.engine.inputs if t.name in names], symbols)
        return [model_space(self.session.inputs, symbols, self._request.ranges)]

    def _profiles(self) -> dict[str, Any]:
        """Return the profile that a build needs for the ranges, unless the user names profiles."""
        request = self._request
        named = {"profiles", "config", "max_batch"} & request.options.keys()
        if request.backend != TENSORRT or request.target.suffix != MODEL_SUFFIX or named or self.facts is None:
            return {}
        from trt_workbench.backends.base import TensorSpec

        specs = [
            TensorSpec(
                tensor.name, tensor.dtype, tuple(dim if isinstance(dim, int) else None for dim in tensor.shape or ())
            )
            for tensor in self.facts.inputs
        ]
        space = model_space(specs, {tensor.name: tensor.shape for tensor in self.facts.inputs}, request.ranges)
        if not space.ranges:
            return {}
        ends = [
            space.case({name: getattr(around, end) for name, around in space.ranges.items()}).shapes
            for end in ("low", "best", "high")
        ]
        dynamic = [spec.name for spec in specs if None in spec.shape]
        ranges = {name: ShapeRange(min=ends[0][name], opt=ends[1][name], max=ends[2][name]) for name in dynamic}
        return {"profiles": [str(Profile(shapes=ranges))]}


def own_model(target: Path) -> Path | None:
    """Return the model itself, or the one beside a plan that its manifest was written for, if it is still the same."""
    if target.suffix == MODEL_SUFFIX:
        return target
    manifest = read_manifest(target) if target.is_file() else None
    beside = target.with_name(manifest.model.file) if manifest else None
    return beside if manifest and beside and beside.is_file() and hash_model(beside) == manifest.model.sha256 else None


def _refuse_random(facts: ModelFacts, model: Path) -> None:
    if found := [name for name in _RANDOM if name in facts.operators]:
        msg = (
            f"The model is random by design ({', '.join(found)}): two right runs of it differ, so nothing can be "
            f"verified. Export it without, or cut it before: {model}"
        )
        raise UsageProblem(msg)
