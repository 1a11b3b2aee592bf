"""Loading a plan: its manifest is checked against the same bytes that TensorRT gets."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import read_hashed
from trt_workbench.core.launcher import task
from trt_workbench.engine import native
from trt_workbench.engine.manifest import Manifest, manifest_path, read_manifest
from trt_workbench.engine.plugins import PluginLibrary, opened_plugins
from trt_workbench.engine.target import Target, require_target
from trt_workbench.model.sniff import refuse_other_than_engine

WeightBudget = int | Literal["auto"]
_MOST_BYTES = 2**40  # engines of language models are large; they are read from disk, so that the disk bounds them
REBUILD = "Build it again on this machine: `build-engine MODEL.onnx`."
TRUST = (
    "A plan is executable code: load it with --trust (`--option trust=true` where a backend loads it) only if you know "
    "where it comes from."
)


@dataclass(frozen=True)
class CheckedPlan:
    """A plan's bytes that may be loaded.

    Attributes:
        path: where they lie.
        data: the bytes that TensorRT gets; empty once they are released.
        sha256: of these bytes.
        size_bytes: how many they are.
        manifest: that describes them; None where a plan was trusted without a matching one.
        notes: messages for the user, such as a plan tuned on another model of GPU.
        read_s: seconds that reading, hashing and checking took; 0 for a plan that was just built.
    """

    path: Path
    data: bytes
    sha256: str
    size_bytes: int
    manifest: Manifest | None
    notes: tuple[str, ...] = ()
    read_s: float = 0.0

    def let_go(self) -> CheckedPlan:
        """Return what is known of the plan, without its bytes, which take as much memory as the engine."""
        return replace(self, data=b"")


@dataclass(frozen=True)
class LoadedEngine:
    """A deserialised engine of the native core, and the plan that it came from, without its bytes.

    Attributes:
        engine: of the native core.
        plan: that it came from, without its bytes.
        target: the GPU and TensorRT that execute it.
        notes: messages for the user.
        open_s: seconds until CUDA and TensorRT's libraries were there.
        deserialise_s: seconds that TensorRT took after that.
    """

    engine: Any
    plan: CheckedPlan
    target: Target
    notes: tuple[str, ...] = ()
    open_s: float = 0.0
    deserialise_s: float = 0.0


def read_plan(path: Path, *, trust: bool = False, advise_trust: bool = True) -> CheckedPlan:
    """Read a plan whole and check it against its manifest; needs neither GPU nor TensorRT.

    Args:
        path: the plan.
        trust: accept a plan without a manifest, or one that does not match.
        advise_trust: name `--trust` as a fix; not where the manifest is what is needed.

    Raises:
        UsageProblem: the file is absent or empty, or not to be trusted.
    """
    began = time.perf_counter()
    return replace(_read(path, trust=trust, advise_trust=advise_trust), read_s=time.perf_counter() - began)


def _read(path: Path, *, trust: bool, advise_trust: bool) -> CheckedPlan:
    try:
        # the hash is of this buffer, not of the file: nobody can change it between check and use
        data, digest = read_hashed(path, limit=_MOST_BYTES)
    except OSError as error:
        raise UsageProblem(f"The plan cannot be read ({error.strerror}): {path}") from error
    if path.suffix == ".onnx":
        raise UsageProblem(
            f"This is a model, not a plan; build one first: {task('build-engine', shlex.quote(str(path)))}."
        )
    if not data:
        raise UsageProblem(f"The plan is empty. {REBUILD} {path}")
    checked = partial(CheckedPlan, path, data, digest, len(data))
    try:
        manifest = read_manifest(path)
    except UsageProblem:
        if not trust:
            raise
        return checked(None, ("The plan's damaged manifest was ignored (--trust).",))
    if manifest is None:
        if not trust:
            refuse_other_than_engine(path)
            raise UsageProblem(
                f"The plan has no manifest ({manifest_path(path).name}). {TRUST if advise_trust else REBUILD} {path}"
            )
        return checked(None, ("The plan has no manifest (--trust).",))
    if manifest.engine.sha256 == digest:
        return checked(manifest)
    if not trust:
        expected = manifest.engine.size_bytes
        size = f"{len(data)} bytes instead of {expected}, " if len(data) != expected else ""
        raise UsageProblem(
            f"The plan does not match its manifest ({size}SHA-256 {digest[:16]}… instead of "
            f"{manifest.engine.sha256[:16]}…): it was truncated, replaced or tampered with. {REBUILD} "
            f"{TRUST + ' ' if advise_trust else ''}{path}"
        )
    return checked(None, ("The plan does not match its manifest (--trust).",))


def check_target(plan: CheckedPlan, target: Target) -> tuple[str, ...]:
    """Compare what a plan was built for with this machine; return notes about lesser differences.

    Raises:
        UsageProblem: it was built by another TensorRT version or for another GPU architecture.
    """
    made = plan.manifest
    if made is None:
        return ()
    options = made.options
    if made.tensorrt_version != target.tensorrt_version and not options.get("version_compatible"):
        raise UsageProblem(
            f"The plan was built by TensorRT {made.tensorrt_version}, but this machine has "
            f"{target.tensorrt_version}; a plan runs only on the version that built it. {REBUILD} {plan.path}"
        )
    compatible = options.get("hardware_compatibility", "none")
    if made.gpu.compute_capability != target.compute_capability and compatible != "ampere_plus":
        raise UsageProblem(
            f"The plan was built for compute capability {made.gpu.compute_capability} ({made.gpu.name}), but this "
            f"GPU has {target.compute_capability} ({target.gpu_name}). {REBUILD} {plan.path}"
        )
    if made.gpu.name != target.gpu_name:
        return (f"The plan was tuned on {made.gpu.name} and may run slower on this {target.gpu_name}.",)
    return ()


def load_engine(
    plan: CheckedPlan,
    *,
    allow_host_code: bool = False,
    device: int = 0,
    plugins: Sequence[Path] = (),
    weight_streaming_budget: WeightBudget | None = None,
) -> LoadedEngine:
    """Deserialise a plan that can compute: one with its weights.

    Args:
        plan: from `read_plan`, or just built.
        allow_host_code: let a version-compatible plan execute the host code it carries.
        device: index of the CUDA device.
        plugins: plugin libraries to load first; those that the manifest names must be among them.
        weight_streaming_budget: bytes of device memory for the weights of a plan that was built with weight streaming,
            or "auto" to let TensorRT choose by what is free; None keeps all weights on the device.

    Raises:
        UsageProblem: the plan is damaged, lacks its weights, or was made for another version or GPU.
        ComponentMissing: the native core, TensorRT or the GPU is absent.
        DeviceFailure: the device is out of memory or failed.
    """
    if plan.manifest and plan.manifest.options.get("strip_weights"):
        # TensorRT would run it, and return zeros
        raise UsageProblem(
            "The plan was built without weights; add them first: "
            f"{task('refit-engine', shlex.quote(str(plan.path)), 'MODEL.onnx')}."
        )
    return load_checked(
        plan,
        allow_host_code=allow_host_code,
        device=device,
        plugins=plugins,
        weight_streaming_budget=weight_streaming_budget,
    )


def load_checked(
    plan: CheckedPlan,
    *,
    allow_host_code: bool = False,
    device: int = 0,
    plugins: Sequence[Path] = (),
    weight_streaming_budget: WeightBudget | None = None,
) -> LoadedEngine:
    """Deserialise a plan, with its weights or without. Arguments and errors are those of `load_engine`."""
    began = time.perf_counter()
    target = require_target(device)
    notes = [*plan.notes, *check_target(plan, target)]
    streams = bool(plan.manifest and plan.manifest.options.get("weight_streaming"))
    if streams and weight_streaming_budget is None:
        notes.append(
            "The plan was built with weight streaming, but all of its weights stay on the device because no "
            "weight_streaming_budget is given."
        )
    with opened_plugins(plugins) as libraries:
        plugin_libraries(plan, libraries)
        native.load_tensorrt()
        opened = time.perf_counter()
        with native.translated():
            engine = native.require("Engine")(
                plan.data,
                allow_host_code=allow_host_code,
                device=device,
                plugins=[library.descriptor_path for library in libraries],
                weight_streaming_budget=weight_streaming_budget,
            )
    done = time.perf_counter()
    return LoadedEngine(engine, plan.let_go(), target, tuple(notes), open_s=opened - began, deserialise_s=done - opened)


def plugin_libraries(plan: CheckedPlan, given: Sequence[PluginLibrary]) -> tuple[PluginLibrary, ...]:
    """Return the plugin libraries to load with a plan: those that the user names, and no others.

    Args:
        plan: from `read_plan`.
        given: libraries that the user names, open.

    Raises:
        UsageProblem: the manifest names a library that the user does not, or one of other content.
    """
    made = plan.manifest
    named = {library.sha256 for library in given}
    needed = () if made is None or made.options.get("serialize_plugins") else made.plugins
    for plugin in needed:
        if plugin.sha256 in named:
            continue
        for library in given:
            if library.path.name == Path(plugin.path).name:
                raise UsageProblem(
                    "The plugin library differs from the one that the plan was built with (SHA-256 "
                    f"{library.sha256[:16]}… instead of {plugin.sha256[:16]}…): {library.path}. Build the plan "
                    f"again, or name the right library: {plan.path}"
                )
        raise UsageProblem(
            f"The plan needs the plugin library {plugin.path} (SHA-256 {plugin.sha256[:16]}…). Plugin libraries are "
            "code, so only libraries that you name are loaded. Name it with --plugin (`--option plugins=…` where a "
            f"backend loads the plan): {plan.path}"
        )
    return tuple(given)
