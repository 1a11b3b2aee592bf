"""What is served: plans with their manifests, or a model; and whether they are one model for one server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.inputs import Kind, random_inputs, usual_shapes
from trt_workbench.backends.registry import load_reference
from trt_workbench.core.compare import difference, typical_error
from trt_workbench.core.errors import CheckFailed, UsageProblem, WorkbenchError
from trt_workbench.core.launcher import task
from trt_workbench.core.verification import UNVERIFIED, WRONG
from trt_workbench.engine.loading import CheckedPlan, read_plan
from trt_workbench.engine.manifest import Manifest
from trt_workbench.engine.profiles import Profile
from trt_workbench.engine.verdicts import kept_verdict
from trt_workbench.model.opened import Model
from trt_workbench.model.randomness import refuse_random
from trt_workbench.verify import Unverified, own_model
from trt_workbench_serving.settings import TritonSettings

_VERSION = re.compile(r"\d+(\.\d+)*")
_DEFAULT_BATCH = 16
# What single rows hold, and which of them are put together: outputs that collect what is found show it by other rows.
_ROWS: tuple[Kind, ...] = ("random", "zeros", "signed", "large")
_PAIRS = ((0, 1), (1, 2), (2, 3), (3, 0))
_NEAR, _FEW = 0.01, 0.1


@dataclass(frozen=True)
class TritonSource:
    """One model to serve.

    Attributes:
        files: what is copied, by the name that it has in the repository.
        inputs: in the model's order; a dynamic dimension is None.
        outputs: in the model's order.
        metadata: the model's own.
        most: rows of a batch; 0 where its first dimension is no batch.
        profiles: of the plan; their best shapes are what is tried first.
        by_capability: the file for each compute capability; empty for a single file.
        facts: what is recorded of it in the configuration.
        plan: whether it is a TensorRT plan.
        notes: what the server needs, in sentences.
    """

    files: Mapping[str, Path]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metadata: Mapping[str, str]
    most: int
    profiles: tuple[Profile, ...] = ()
    by_capability: Mapping[str, str] = ()  # type: ignore[assignment]
    facts: Mapping[str, str] = ()  # type: ignore[assignment]
    plan: bool = False
    notes: tuple[str, ...] = ()

    @property
    def is_batched(self) -> bool:
        """Whether the first dimension of every tensor is the batch."""
        return self.most > 0

    def rows(self, profile: Profile) -> range:
        """Return the batches that a profile takes: every input has to; 0 alone where there are none."""
        if not self.is_batched:
            return range(1)
        shapes = [profile.shapes[spec.name] for spec in self.inputs if spec.name in profile.shapes]
        lowest, most = max((one.min[0] for one in shapes), default=1), min((one.max[0] for one in shapes), default=1)
        return range(lowest, min(most, self.most) + 1)

    def smallest(self) -> int:
        """Return the smallest batch that a profile takes; 1 without profiles."""
        return min((rows[0] for one in self.profiles if (rows := self.rows(one))), default=1)

    def untaken(self) -> list[int]:
        """Return the batches up to the largest that no profile takes."""
        taken = {size for one in self.profiles for size in self.rows(one)}
        return [size for size in range(1, self.most + 1) if self.profiles and size not in taken]

    def unsized(self) -> list[str]:
        """Return the inputs that have a size, besides the batch, which neither the file nor a profile says."""
        start, known = int(self.is_batched), {name for one in self.profiles for name in one.shapes}
        return [spec.name for spec in self.inputs if None in spec.shape[start:] and spec.name not in known]

    def best(self, name: str, rows: int = 1) -> tuple[int, ...]:
        """Return the shape of an input without the batch, as a profile for a batch is tuned for; 1 where none says."""
        spec = next(one for one in self.inputs if one.name == name)
        profiles = sorted(self.profiles, key=lambda one: rows not in self.rows(one))
        known = next((one.shapes[name].opt for one in profiles if name in one.shapes), None)
        whole = known or tuple(1 if dim is None else dim for dim in spec.shape)
        return whole[1:] if self.is_batched else whole


def read_source(settings: TritonSettings) -> TritonSource:
    """Read what is to be served.

    Raises:
        UsageProblem: a file cannot be used, plans are not of one model, or the server has another TensorRT.
        CheckFailed: a plan is wrong, or not verified.
    """
    first = settings.target[0]
    if first.suffix == ".onnx":
        if len(settings.target) > 1:
            raise UsageProblem(f"Several files are plans for several GPU types; a model is one file: {first}")
        return _of_model(Model.open(first), settings)
    if settings.python:
        raise UsageProblem(f"--python serves an ONNX model, not a plan: {first}")
    plans = [read_plan(path, advise_trust=False) for path in settings.target]
    manifests = [_manifest(plan) for plan in plans]
    _require_alike(plans, manifests)
    for plan, manifest in zip(plans, manifests, strict=True):
        _require_right(plan, manifest, allow=settings.allow_unverified)
        _require_server(plan, manifest, settings.server_tensorrt)
    return _of_plans(plans, manifests, settings)


def _of_model(model: Model, settings: TritonSettings) -> TritonSource:
    facts = model.facts
    inputs, outputs = (tuple(map(TensorSpec.of, tensors)) for tensors in (facts.inputs, facts.outputs))
    folder = "" if settings.python or not facts.external_locations else "model.onnx/"
    names = {f"{folder}model.onnx": model.path}
    for location in facts.external_locations:
        names[f"{folder}{location}"] = model.path.parent / location
    most = _most(inputs, outputs, settings.max_batch, settings.max_batch or _DEFAULT_BATCH)
    most, notes = _tried(model, most, settings)
    return TritonSource(
        names, inputs, outputs, facts.metadata, most, facts={"trtw.model_sha256": model.sha256}, notes=notes
    )


def _of_plans(plans: Sequence[CheckedPlan], manifests: Sequence[Manifest], settings: TritonSettings) -> TritonSource:
    made = manifests[0]
    inputs, outputs = (
        tuple(TensorSpec(t.name, t.dtype, tuple(None if dim < 0 else dim for dim in t.shape)) for t in tensors)
        for tensors in (made.inputs, made.outputs)
    )
    profiles = tuple(map(Profile.model_validate, made.profiles))
    # the server takes the batches of the profile that takes most, and there those that every input takes
    sizes = [
        min((one.shapes[spec.name].max[0] for spec in inputs if one.shapes.get(spec.name)), default=1)
        for one in profiles
    ]
    rows = [one.way_around.rows for one in manifests if one.way_around and one.way_around.rows]
    several = len(plans) > 1
    named = {
        _file_name(one) if several else "model.plan": plan.path for plan, one in zip(plans, manifests, strict=True)
    }
    model = own_model(plans[0].path)
    most = _most(inputs, outputs, settings.max_batch, min([max(sizes, default=1), *rows]))
    most, notes = _tried(model, most, settings) if model else (most, ())
    return TritonSource(
        named,
        inputs,
        outputs,
        model.facts.metadata if model else made.model.metadata,
        most,
        profiles,
        {one.gpu.compute_capability: _file_name(one) for one in manifests} if several else {},
        {
            "trtw.model_sha256": made.model.sha256,
            "trtw.tensorrt_version": made.tensorrt_version,
            **{f"trtw.engine_sha256.{one.gpu.compute_capability}": one.engine.sha256 for one in manifests},
        },
        plan=True,
        notes=(*_needs(made, settings.server_tensorrt), *notes),
    )


def _most(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], asked: int | None, offered: int) -> int:
    """Return the rows of a batch; 0 where the first dimension is not dynamic everywhere. Raises UsageProblem."""
    tensors = [*inputs, *outputs]
    if not all(spec.shape and spec.shape[0] is None for spec in tensors):
        if asked:
            fixed = next(spec for spec in tensors if not spec.shape or spec.shape[0] is not None)
            raise UsageProblem(f"--max-batch needs a dynamic first dimension of every input and output, not {fixed}.")
        return 0
    if asked and asked > offered:
        raise UsageProblem(f"The plan takes batches of at most {offered}, not --max-batch {asked}; build another.")
    return asked or offered


def _tried(model: Model, most: int, settings: TritonSettings) -> tuple[int, tuple[str, ...]]:
    """Return the rows of a batch, 0 where a batch of 2 is not what two batches of 1 are, and what is to be said of it.

    Raises:
        UsageProblem: it is not, and batches were asked for.
    """
    if most < 2:
        return most, ()
    try:
        mixed = _mixed_output(model)
    except (WorkbenchError, MemoryError) as error:
        return most, (f"Whether the model keeps the rows of a batch apart could not be tried ({error}).",)
    if not mixed:
        return most, ()
    if settings.max_batch:
        raise UsageProblem(f"--max-batch: the model does not keep the rows of a batch apart ({mixed}): {model.path}")
    return 0, (f"The server makes no batches: the model does not keep the rows of a batch apart ({mixed}).",)


def _mixed_output(model: Model) -> str:
    """Return which output of a batch of 2 is not what its rows give alone; "" where all are.

    Raises:
        UsageProblem: the model does not run on what can be drawn.
        ComponentMissing: ONNX Runtime is absent.
    """
    refuse_random(model, "run", "nothing can be compared")
    specs, shapes = usual_shapes(model)
    rows = [random_inputs(specs, shapes, seed, kind) for seed, kind in enumerate(_ROWS)]
    with load_reference(model.path) as session:
        alone = [session.run(one) for one in rows]
        for first, second in _PAIRS:
            pair = {name: np.concatenate([rows[first][name], rows[second][name]]) for name in rows[0]}
            try:
                found = session.run(pair)
            except UsageProblem as error:
                return f"it refuses 2 rows: {error}"
            for name, array in found.items():
                parts = [alone[first][name], alone[second][name]]
                if [len(one) for one in (array, *parts)] != [2, 1, 1]:
                    return f"{name} has {len(parts[0])}, {len(parts[1])} and, together, {len(array)} rows"
                both = _sorted(array), _sorted(np.concatenate(parts))
                apart = difference(*both, rows=True)
                if apart.shape_differs or typical_error(*both) > _NEAR or apart.changed > _FEW:
                    return f"{name} of a row depends on the other one"
    return ""


def _sorted(array: NDArray[Any]) -> NDArray[Any]:
    """Return the values of each row in ascending order: boxes of nearly the same score may change places."""
    return np.sort(array.reshape(len(array), -1), axis=1)


def _manifest(plan: CheckedPlan) -> Manifest:
    if plan.manifest is None:
        raise UsageProblem(f"export-triton needs the manifest of the plan: {plan.path}")
    for option, what in (("io_formats", "formats of tensors that Triton does not describe (--io-format)"),
                         ("strip_weights", "no weights; refit it first")):  # fmt: skip
        if plan.manifest.options.get(option):
            raise UsageProblem(f"The plan was built with {what}: {plan.path}")
    return plan.manifest


def _require_alike(plans: Sequence[CheckedPlan], manifests: Sequence[Manifest]) -> None:
    """Raise UsageProblem unless plans are of one model, one TensorRT, and each of another GPU type."""
    first = manifests[0]
    seen = {first.gpu.compute_capability: plans[0]}
    for plan, made in zip(plans[1:], manifests[1:], strict=True):
        for what, pair in {
            "models": (made.model.sha256[:16], first.model.sha256[:16]),
            "TensorRT versions": (made.tensorrt_version, first.tensorrt_version),
            "inputs": (made.inputs, first.inputs),
            "outputs": (made.outputs, first.outputs),
            "profiles": (made.profiles, first.profiles),
        }.items():
            if pair[0] != pair[1]:
                raise UsageProblem(f"The plans have other {what} ({pair[0]} and {pair[1]}): {plan.path}")
        if other := seen.get(made.gpu.compute_capability):
            raise UsageProblem(
                f"Two plans are for compute capability {made.gpu.compute_capability}: {other.path} and {plan.path}"
            )
        seen[made.gpu.compute_capability] = plan


def _require_right(plan: CheckedPlan, made: Manifest, *, allow: bool) -> None:
    kept = kept_verdict(made)
    verdict = kept.verdict if kept else UNVERIFIED
    if verdict == WRONG and not allow:
        why = f" ({kept.reason})" if kept and kept.reason else ""
        raise CheckFailed(f"The plan is wrong{why}; serve another one: {plan.path}")
    if verdict == UNVERIFIED and not allow:
        raise Unverified(
            f"The plan is not verified. Run {task('verify', str(plan.path))} first, or pass --allow-unverified."
        )


def _require_server(plan: CheckedPlan, made: Manifest, server: str | None) -> None:
    """Raise UsageProblem where the server has another TensorRT than the plan was built by."""
    if server is None or made.options.get("version_compatible"):
        return
    there = server_version(server)
    own = made.tensorrt_version.split(".")[: len(there.split("."))]
    if there.split(".")[:3] != own[:3] or len(there.split(".")) < 3:
        raise UsageProblem(
            f"The plan was built by TensorRT {made.tensorrt_version}, the server has {there}: it would not load. Build "
            f"it with {there}, or serve it from a container of Triton that has {made.tensorrt_version}: {plan.path}"
        )


def server_version(server: str) -> str:
    """Return the TensorRT version of a server, from the text itself or a folder with its `libnvinfer.so.X.Y.Z`.

    Raises:
        UsageProblem: it is neither.
    """
    if _VERSION.fullmatch(server) and server.count(".") >= 2:
        return server
    found = sorted({name.name.removeprefix("libnvinfer.so.") for name in Path(server).glob("libnvinfer.so.*.*")})
    if len(found) != 1:
        seen = f"this has {', '.join(found)}" if found else "this is neither"
        raise UsageProblem(
            "--server-tensorrt takes a version such as 10.13.3, or a folder with one libnvinfer.so.X.Y.Z; "
            f"{seen}: {server}"
        )
    return found[0]


def _needs(made: Manifest, server: str | None) -> tuple[str, ...]:
    notes = []
    if made.options.get("version_compatible"):
        notes.append(
            "The plan is version-compatible: start the server with --backend-config=tensorrt,version-compatible=true."
        )
    elif server is None:
        notes.append(
            f"The server must have TensorRT {made.tensorrt_version}. It was not checked: pass --server-tensorrt "
            "with its version, or the folder of its libnvinfer.so."
        )
    if made.plugins:
        libraries = ";".join(one.path for one in made.plugins)
        notes.append(f"The server needs its plugins: --backend-config=tensorrt,plugins={libraries}.")
    return tuple(notes)


def _file_name(made: Manifest) -> str:
    return f"model-sm{made.gpu.compute_capability.replace('.', '')}.plan"
