"""What is tried and compared: sessions of an engine or model in several ways, its reference and its shapes."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.base import Session, SessionOptions, TensorSpec
from trt_workbench.backends.kept_reference import open_reference, record_folder
from trt_workbench.backends.measure.inputs import with_limits
from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS, Preparation
from trt_workbench.backends.registry import AUTO, get_backend, require_backend, runs_plans
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file
from trt_workbench.core.settings import with_flags
from trt_workbench.core.stack import Stack
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.engine.options import BuildSettings
from trt_workbench.engine.profiles import Profile, ShapeRange
from trt_workbench.model.index import rounded_sizes
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.model.randomness import refuse_random
from trt_workbench.verify.data import image_ranges, require_inputs
from trt_workbench.verify.reference import CallRecorder, KeptReference, LiveReference
from trt_workbench.verify.settings import MODEL_SUFFIX, Range, VerifySettings
from trt_workbench.verify.space import Budget, Space, engine_spaces, model_space, within_batch

NO_REFERENCE = "none"
# What keeps tensors on the device: a way to run the target, which is verified with them as inputs and outputs first.
_STATE = "state"


@dataclass(frozen=True)
class VerifyRequest(VerifySettings):
    """What is asked for, and how long it may take.

    Attributes:
        preparation: how images become inputs.
        budget: None for as long as it takes. Within one, the first wrong shape is the last.
        sizes_seed: what draws sizes between those that are always tried.
    """

    preparation: Preparation = AS_THE_MODEL_SAYS
    budget: Budget | None = None
    # Of the sizes that no rule names: others in every run, but for --seed.
    sizes_seed: int = field(default_factory=lambda: secrets.randbits(31) | 1, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Draw the same sizes for the same seed."""
        if self.seed:
            object.__setattr__(self, "sizes_seed", self.seed)

    @cached_property
    def versions(self) -> dict[str, str]:
        """Versions of the runtime that the target runs on, its own first; those of its stack where one is named.

        Raises:
            ComponentMissing: the backend cannot serve, or the stack does not start.
        """
        if self.stack:
            return dict(Stack.open(self.stack).ask(self.backend)["versions"])
        return dict(require_backend(self.backend, MODEL_SUFFIX).availability().versions)

    @property
    def runs_plans(self) -> bool:
        """Whether the target is, or becomes, a TensorRT engine."""
        return runs_plans(self.backend)


class Opened(AbstractContextManager["Opened"]):
    """The sessions of a request. A context manager that closes them.

    Attributes:
        graph: the ONNX model that the target is or was made from; None where it is not available.
        session: of the target.
        reference: the model on a backend; None without one.
        record: what an earlier run kept, in place of `reference`; None without one.
        spaces: shapes that the target accepts, by profile.
    """

    def __init__(self, request: VerifyRequest, note: Callable[[str], None]) -> None:
        """Open target and reference.

        Raises:
            UsageProblem: a file or option cannot be used, or the model is nondeterministic.
            ComponentMissing: a backend cannot serve here.
            DeviceFailure: the device failed or is out of memory.
        """
        self._request, self._sessions = request, ExitStack()
        self.graph = Model.open(request.model) if request.model else own_model(request.target)
        target = Model.open(request.target) if request.target.suffix == MODEL_SUFFIX else None
        for model in filter(None, (self.graph, target)):
            refuse_random(model, "verified")
        self.record = self._open_record()
        if request.target.suffix != MODEL_SUFFIX and not request.runs_plans:
            raise UsageProblem(f"A plan runs on backend trt, not {request.backend}: {request.target}")
        require_inputs(request.inputs, request.preparation, request.split)
        self._note = note
        self._in_profile: tuple[int, Session] | None = None
        try:
            self.session = self.open()
            self.reference = None if self.record else self._open_reference()
            self._require_outputs()
        except BaseException:
            self.close()
            raise
        self.spaces = self._spaces()

    @property
    def is_itself(self) -> bool:
        """Whether reference and target are the same file on the same runtime, which proves nothing."""
        request, graph = self._request, self.graph
        if graph is None or request.target.suffix != MODEL_SUFFIX or self.session.simulated:
            return False
        if self.record:  # it is evidence if the runtime's version differs
            again = self.record.is_of(request.backend, require_backend(request.backend).availability().versions)
        else:
            again = self.reference is not None and request.backend == request.reference
        return again and Model.open(request.target).sha256 == graph.sha256

    @property
    def on_gpu(self) -> bool:
        """Whether the target may run on a GPU."""
        return "cuda" in require_backend(self._request.backend, self._request.target.suffix).devices

    @property
    def inputs(self) -> list[TensorSpec]:
        """The target's inputs, with the lengths of the tables that the model indexes with them."""
        return with_limits(self.session.inputs, self.graph.facts.inputs if self.graph else ())

    def open(self, concurrency: int = 1, **extra: Any) -> Session:
        """Open the target again, with further options of its backend; closed with the others."""
        request = self._request
        given = {name: value for name, value in request.options.items() if name != _STATE}
        backend = require_backend(request.backend, request.target.suffix)
        flags = {**backend.device_option(request.device), **backend.url_option(request.url)}
        if request.runs_plans and request.target.suffix != MODEL_SUFFIX:
            flags["trust"] = request.trust
        options = {**with_flags(given, flags), **extra}
        chosen = SessionOptions(
            precision=request.precision, concurrency=concurrency, extra=options, shapes=self._shapes(), note=self._note
        )
        session = self._sessions.enter_context(backend.load(request.target, chosen))
        session.refuses_misfits = False
        return session

    def of_profile(self, profile: int | None) -> Session:
        """Return the session that runs in a profile; None for the one that chooses by the shapes.

        Of shapes that several profiles offer, that one would never see more than one of them.
        """
        if profile is None:
            return self.session
        if self._in_profile is None or self._in_profile[0] != profile:
            if self._in_profile:
                self._in_profile[1].close()
            self._in_profile = (profile, self.open(profile=profile))
        return self._in_profile[1]

    def recorder(self, folder: Path) -> CallRecorder:
        """Return what keeps the reference's side in a folder. Raises UsageProblem where there is no reference."""
        if self.reference is None or self.graph is None:
            raise UsageProblem("--record needs a reference that a backend runs; name one with --reference.")
        return CallRecorder(
            folder,
            model_sha256=self.graph.sha256,
            reference=self._request.reference,
            provenance=self.reference.provenance(),
            ranges={name: [r.low, r.best, r.high] for name, r in self.spaces[0].ranges.items()},
            seed=self._request.seed,
        )

    def close(self) -> None:
        """Close every session."""
        self._sessions.close()

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self.close()

    def _open_record(self) -> KeptReference | None:
        request = self._request
        folder = None
        if request.reference != NO_REFERENCE:
            folder = record_folder(request.reference, "--inputs" if request.inputs else "")
        if folder is None:
            return None
        record = KeptReference(folder)
        record.require_model(graph_hash(self.graph, request.target), self.graph.path if self.graph else request.target)
        return record

    def _require_outputs(self) -> None:
        """Raise UsageProblem if either the target or the reference has an output that the other does not have."""
        known = self.record or self.reference
        if known is None:
            return
        own, theirs = [spec.name for spec in self.session.outputs], f"the reference ({known.name})"
        more, fewer = [name for name in own if name not in known.outputs], [n for n in known.outputs if n not in own]
        if more or fewer:
            has, lacks, name = ("The target", theirs, more[0]) if more else ("The reference", "the target", fewer[0])
            of = self.graph.path if self.graph else self._request.reference
            raise UsageProblem(
                f"{has} has an output {name}, {lacks} does not; pass the model that the target was made from with "
                f"--model, or record that one: {of}"
            )

    def _open_reference(self) -> LiveReference | None:
        request, graph = self._request, self.graph
        if request.reference == NO_REFERENCE:
            return None
        if graph is None:
            self._note("The model of the plan was not found (pass it with --model): only properties are verified.")
            return None
        return LiveReference(
            request.reference, self._sessions.enter_context(open_reference(request.reference, graph.path))
        )

    def rounded_sizes(self, inputs: Mapping[str, NDArray[Any]]) -> str:
        """Return the end of a sentence about an output of another shape: sizes that depend on a rounding."""
        shapes = {name: array.shape for name, array in inputs.items()}
        found = rounded_sizes(self.graph.proto, shapes) if self.graph else []
        return f" ({', '.join(found)})" if found else ""

    @property
    def state(self) -> dict[str, str]:
        """Return the pairs that the option `state` names."""
        state = self._request.options.get(_STATE) or {}
        if not isinstance(state, Mapping):
            raise UsageProblem(f'Option state takes a JSON object such as {{"h_next": "h"}}, not {state!r}.')
        return {str(output): str(fed) for output, fed in state.items()}

    @property
    def ranges(self) -> Mapping[str, Range]:
        """Return the sizes that are requested: the user's, else those of the record; of images as they are used."""
        asked = self._request.ranges or (self.record.ranges if self.record else {})
        return {**(image_ranges(self.graph, self._request.preparation) if self.graph else {}), **asked}

    def _spaces(self) -> list[Space]:
        symbols = {tensor.name: tensor.shape for tensor in self.graph.facts.inputs} if self.graph else {}
        if loaded := self.session.loaded:
            names = {spec.name for spec in self.session.inputs}
            spaces = engine_spaces([t for t in loaded.engine.inputs if t.name in names], symbols)
            chosen = self._request.options.get("profile")
            return spaces if chosen is None or len(spaces) == 1 else [one for one in spaces if one.profile == chosen]
        return [within_batch(model_space(self.session.inputs, symbols, self.ranges), self.session.largest_batch)]

    def _shapes(self) -> Profile | None:
        """Return the ranges that a build is for."""
        backend = require_backend(self._request.backend, self._request.target.suffix)
        if not backend.ranges or self._request.target.suffix != MODEL_SUFFIX or self.graph is None:
            return None
        inputs = self.graph.facts.inputs
        specs = [TensorSpec.of(tensor) for tensor in inputs]
        space = model_space(specs, {tensor.name: tensor.shape for tensor in inputs}, self.ranges)
        if not space.ranges:
            return None
        ends = [
            space.case({name: getattr(around, end) for name, around in space.ranges.items()}).shapes
            for end in ("low", "best", "high")
        ]
        dynamic = [spec.name for spec in specs if None in spec.shape]
        ranges = {name: ShapeRange(min=ends[0][name], opt=ends[1][name], max=ends[2][name]) for name in dynamic}
        counts = {name: math.prod(shape) for name, shape in space.case({}).shapes.items() if name in space.ranges}
        around = [(name, space.ranges[name], count) for name, count in counts.items()]
        values = {
            name: ShapeRange(min=(one.low,) * count, opt=(one.best,) * count, max=(one.high,) * count)
            for name, one, count in around
        }
        return Profile(shapes=ranges, values=values)


def own_model(target: Path) -> Model | None:
    """Return the model itself, or the one beside a plan that its manifest was written for, if it is still the same.

    Raises:
        UsageProblem: there is no such file, or it is no plan and no sound model.
    """
    require_file("engine or model", target)
    if target.suffix == MODEL_SUFFIX:
        return Model.open(target)
    manifest = read_manifest(target)
    model = target.with_name(manifest.model.file) if manifest else target
    return Model.open(model) if manifest and model.is_file() and sha256_of(model) == manifest.model.sha256 else None


def graph_hash(graph: Model | None, target: Path) -> str | None:
    """Return the hash of the model that a target is, or was built from; None where no manifest has it."""
    if graph:
        return graph.sha256
    manifest = read_manifest(target)
    return manifest.model.sha256 if manifest else None


def of_model(request: VerifyRequest) -> VerifyRequest:
    """Return the request with the model as its target: that of a plan builds as its manifest says.

    Raises:
        UsageProblem: the plan, its model or its manifest is not available.
    """
    if request.backend != AUTO and get_backend(request.backend).served:
        raise UsageProblem(
            "--bisect and --fix load parts of the model, which a server does not; use another --backend."
        )
    if request.target.suffix == MODEL_SUFFIX:
        return replace(request, model=request.model or request.target)
    own, manifest = own_model(request.target), read_manifest(request.target)
    model = request.model or (own.path if own else None)
    if model is None or manifest is None:
        raise UsageProblem(
            "--bisect and --fix need the model that the plan was built from: pass it with --model, and keep the "
            f"manifest next to {request.target}"
        )
    plain = BuildSettings().model_dump(mode="json")
    asked = {key: value for key, value in manifest.options.items() if key in plain and value != plain[key]}
    for name in ("precision", "device"):  # have flags of their own
        asked.pop(name, None)
    options = {**asked, **request.options}
    return replace(request, target=model, model=model, precision="+".join(manifest.precision), options=options)
