"""From an ONNX model to a plan in the cache: key, lock, native build, manifest."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from trt_workbench import __version__
from trt_workbench.core.counts import counted
from trt_workbench.core.environment import available_processors
from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem
from trt_workbench.core.files import anything, write_bytes
from trt_workbench.core.hashing import hash_bytes
from trt_workbench.core.interruptible import call_interruptibly
from trt_workbench.core.launcher import task
from trt_workbench.core.precision import names
from trt_workbench.engine import cache, native, timing_cache
from trt_workbench.engine.build_phases import BuildPhases, Progress
from trt_workbench.engine.calibration import (
    FEW_SAMPLES,
    CalibrationImages,
    calibration_batches,
    count_samples,
    fit_calibration,
    hash_calibration,
)
from trt_workbench.engine.inspection import inspect_plan
from trt_workbench.engine.layer_choices import has_choices, keep_choices
from trt_workbench.engine.loading import CheckedPlan, check_target, read_plan
from trt_workbench.engine.manifest import EngineFile, GpuIdentity, Manifest, ModelFile, Plugin, Tensor, write_manifest
from trt_workbench.engine.options import MIB, BuildSettings, declared
from trt_workbench.engine.plugins import PluginLibrary, opened_plugins
from trt_workbench.engine.profiles import Profile, ShapeRange
from trt_workbench.engine.request import check_formats, check_request
from trt_workbench.engine.several_builds import keep_builder
from trt_workbench.engine.target import Target, examine_target
from trt_workbench.model.opened import Model


def native_values(settings: BuildSettings, timing_cache: bytes | None) -> dict[str, Any]:
    """Return the attributes of the native `BuildOptions` for `settings`, without profiles, calibration and plugins.

    Args:
        settings: what is asked for.
        timing_cache: bytes of an earlier timing cache, empty to start one, None for none.
    """
    values: dict[str, Any] = {name: getattr(settings, name) for name, said in declared().items() if said.native}
    values |= {flag: flag in settings.precision for flag in names(lambda one: one.is_flag)}
    # TensorRT's own default is one thread, and building keeps that one busy while the GPU waits.
    values["max_threads"] = settings.max_threads or available_processors()
    pools = {pool.value: mib for pool, mib in settings.memory_pools.items()}
    if settings.workspace_mib is not None:
        pools["workspace"] = settings.workspace_mib
    values["memory_pools"] = {pool: round(mib * MIB) for pool, mib in pools.items()}
    values["tactic_sources"] = {source[1:]: source.startswith("+") for source in settings.tactic_sources}
    values["io_formats"] = {name: list(formats) for name, formats in settings.io_formats.items()}
    values["disable_timing_cache"] = settings.timing_cache_off
    values["error_on_timing_cache_miss"] = settings.timing_cache_strict
    values["timing_cache"] = None if settings.timing_cache_off else timing_cache
    return values


def to_native(settings: BuildSettings, timing_cache: bytes | None = b"") -> Any:
    """Return the native `BuildOptions` for `settings`; calibration and plugins are the builder's part.

    Raises:
        ComponentMissing: the native core is absent or was built without TensorRT headers.
    """
    options = native.require("BuildOptions")()
    for name, value in native_values(settings, timing_cache).items():
        setattr(options, name, value)
    options.profiles = [_native_profile(profile) for profile in settings.profiles]
    return options


def name_plugins(options: Any, libraries: Sequence[PluginLibrary], *, serialize: bool) -> None:
    """Have a build load plugin libraries, and put them into the plan; they have to stay open until it ends."""
    options.plugins = [library.descriptor_path for library in libraries]
    options.plugins_to_serialize = options.plugins if serialize else []


def _native_profile(profile: Profile) -> Any:
    made = native.require("Profile")()
    made.shapes = {name: _native_range(shape) for name, shape in profile.shapes.items()}
    made.values = {name: _native_range(values) for name, values in profile.values.items()}
    return made


def _native_range(value: ShapeRange) -> Any:
    return tuple(list(dims) for dims in (value.min, value.opt, value.max))


_SHARING = "profile_sharing"

Note = Callable[[str], None]


@dataclass(frozen=True)
class PreparedBuild:
    """What a build would do, determined without TensorRT or a GPU as far as possible.

    Attributes:
        model: what is built.
        settings: the resolved settings.
        target: TensorRT and GPU of this machine.
        key: the cache key; without TensorRT or GPU it is not the one of a real build (`key.is_complete`).
        cached: the engine that the cache holds already; None where it must be built.
        images: of the calibration; None of arrays.
    """

    model: Model
    settings: BuildSettings
    target: Target
    key: cache.CacheKey
    cached: Path | None
    images: CalibrationImages | None = None


@dataclass(frozen=True)
class BuiltEngine:
    """An engine in the cache, with its bytes and manifest: whether it was built now, and notes for the user."""

    plan: CheckedPlan
    built: bool
    notes: tuple[str, ...] = field(default=())

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.plan.path

    @property
    def manifest(self) -> Manifest:
        """What describes it."""
        assert self.plan.manifest
        return self.plan.manifest


def prepare_build(model: Model, settings: BuildSettings, images: CalibrationImages | None = None) -> PreparedBuild:
    """Examine the model, the settings and this machine.

    Args:
        model: what to build.
        settings: what is asked for.
        images: of the calibration; None of arrays.

    Raises:
        UsageProblem: the settings or the calibration data do not fit the model, or it has changed on disk.
    """
    check_request(model, settings)
    target = examine_target(settings.device)
    check_formats(model, settings, target)
    if settings.calibration and not model.facts.is_quantized:
        fitting = fit_calibration(settings.calibration, model.facts.inputs, images)
        settings = settings.model_copy(update={"calibration": fitting})
    settings = _for_version(settings, target)
    with opened_plugins(settings.plugins) as libraries:
        plugins = tuple(library.sha256 for library in libraries)
    key = cache.CacheKey(
        model_sha256=model.sha256,
        options=settings.key_fields(),
        tensorrt_version=target.tensorrt_version,
        driver_version=target.driver_version,
        gpu_name=target.gpu_name,
        compute_capability=target.compute_capability,
        native_version=target.native_version,
        calibration_sha256=hash_calibration(settings.calibration.data, images) if settings.calibration else None,
        plugins_sha256=plugins,
    )
    cached = cache.cached_plan(key.digest()) if key.is_complete else None
    return PreparedBuild(model, settings, target, key, cached, images)


def build(
    prepared: PreparedBuild,
    *,
    force: bool = False,
    progress: Progress | None = None,
    note: Note = lambda _: None,
    time_limit_s: float | None = None,
) -> BuiltEngine:
    """Return the engine of `prepared`, from the cache or built now.

    Args:
        prepared: from `prepare_build`.
        force: build even if the cache holds the engine.
        progress: called while TensorRT builds; version 8 reports little.
        note: called with messages for the waiting user.
        time_limit_s: seconds that TensorRT may take at most; None for as long as it takes. Version 8 cannot be ended:
            what it does goes on until the process ends, which then does not wait for it.

    Raises:
        UsageProblem: TensorRT cannot build this model as asked.
        ComponentMissing: the native core, TensorRT or the GPU is absent.
        DeviceFailure: the device is out of memory or failed.
        CheckFailed: the build took longer than `time_limit_s`.
    """
    if prepared.target.missing:
        raise ComponentMissing(" ".join(map(str, prepared.target.missing)))
    digest = prepared.key.digest()
    with cache.build_lock(digest, lambda: note("Another process builds this engine; waiting for it.")):
        found = None if force else _from_cache(digest, prepared.target, note)
        if found:
            prepared.model.remember()
        else:
            found = _build(prepared, digest, progress, note, time_limit_s)
        # a build that was interrupted between the two left its engine alone in the cache
        if prepared.settings.build_number is not None and not has_choices(found.path):
            keep_choices(found.path, _layers(found.plan, prepared.settings))
        return found


def export(plan: CheckedPlan, destination: Path) -> None:
    """Write a plan and its manifest to `destination`, the manifest last. Raises OSError."""
    assert plan.manifest
    write_bytes(destination, plan.data, over=anything)
    write_manifest(destination, plan.manifest)


def _for_version(settings: BuildSettings, target: Target) -> BuildSettings:
    """Let contexts share a profile, as every version but 8 does; 8.6 calls it a preview feature (NvInfer.h)."""
    if not _is_8(target) or not settings.profiles or _SHARING in settings.preview_features:
        return settings
    return settings.model_copy(update={"preview_features": {**settings.preview_features, _SHARING: True}})


def _is_8(target: Target) -> bool:
    return target.tensorrt_version is not None and target.tensorrt_version.startswith("8.")


def _from_cache(digest: str, target: Target, note: Note) -> BuiltEngine | None:
    path = cache.cached_plan(digest)
    if path is None:
        return None
    try:
        checked = read_plan(path)
        check_target(checked, target)
    except UsageProblem as error:
        note(f"The cached engine cannot be used; it is built again. {error}")
        return None
    return BuiltEngine(checked, built=False)


def _build(
    prepared: PreparedBuild, digest: str, progress: Progress | None, note: Note, time_limit_s: float | None
) -> BuiltEngine:
    settings, target = prepared.settings, prepared.target
    native.load_tensorrt()
    native.require("set_log_level")(settings.verbosity)
    keep_builder(settings.device)
    timings, earlier = _timing_cache(settings, target)
    options = to_native(settings, earlier)
    notes = _add_calibration(options, prepared)
    native.require("drain_log")()  # of earlier work
    note(
        f"Building a TensorRT engine ({settings.precision_text}) for {prepared.model.path.name}; this can take minutes."
    )
    with opened_plugins(settings.plugins, prepared.key.plugins_sha256) as libraries:
        name_plugins(options, libraries, serialize=settings.serialize_plugins)
        result = _run_build(prepared, options, progress, time_limit_s)
    prepared.model.require_unchanged()  # TensorRT reads the file itself, and the manifest names what was hashed
    manifest = _manifest(prepared, digest, result, libraries)
    if result.skipped_tactics:
        notes.append(f"{counted(result.skipped_tactics, 'kernel')} skipped: out of GPU memory; the engine may be slow.")
    if settings.verbosity in ("info", "verbose"):
        notes += [f"TensorRT ({severity}): {text}" for severity, text in native.require("drain_log")()]
    # at once, before anything else can fail
    path = cache.store(digest, result.plan, manifest)
    plan = CheckedPlan(path, result.plan, manifest.engine.sha256, manifest.engine.size_bytes, manifest)
    if timings and result.timing_cache:
        merge = partial(_merge_timings, result)
        unmerged = timing_cache.save_timing_cache(timings, earlier or b"", result.timing_cache, merge)
        notes += [unmerged] if unmerged else []
    for text in notes:
        note(text)
    return BuiltEngine(plan, built=True, notes=tuple(notes))


def _layers(plan: CheckedPlan, settings: BuildSettings) -> Sequence[Mapping[str, Any]]:
    allowed = settings.version_compatible
    return inspect_plan(plan, allow_host_code=allowed, device=settings.device, plugins=settings.plugins).layers


# Of TensorRT's builder, which names no node then.
_LOST = "_Map_base::at"


def _run_build(prepared: PreparedBuild, options: Any, progress: Progress | None, time_limit_s: float | None) -> Any:
    calibration = prepared.settings.calibration
    batches = count_samples(calibration, prepared.images) // (calibration.batch or 1) if calibration else 0
    phases = BuildPhases(progress, time_limit_s, batches)
    work = partial(native.require("build_engine"), str(prepared.model.path), options, phases)
    try:
        with native.translated():
            # version 8 reports no progress, at which the core serves Ctrl-C and a limit
            return call_interruptibly(work, time_limit_s) if _is_8(prepared.target) else work()
    except Exception as error:
        if isinstance(error, UsageProblem) and _LOST in str(error):
            before, _, path = str(error).rpartition(" Model: ")
            fix = task("sanitize-onnx", shlex.quote(path), "--also", "conv-2d", "-o", "FILE.onnx")
            raise UsageProblem(
                f"{before} This is a fault in TensorRT's optimiser, seen in 8.6 where a convolution over one dimension "
                "reads a cache joined with a chunk, and the end of both is an output. Write such convolutions over "
                f"two: {fix}. Or use a newer TensorRT, or another backend. Model: {path}"
            ) from error
        if not phases.is_over:
            raise
        raise CheckFailed(
            f"The build was stopped at its limit of {time_limit_s:g} s, in the phase {phases.text}. Allow it more "
            "time (--time-limit), reduce the search (--optimization-level 0 to 2, fewer types in --precision, "
            f"--tactic-source -JIT_CONVOLUTIONS), or stop other work on the machine: {prepared.model.path}"
        ) from error


def _timing_cache(settings: BuildSettings, target: Target) -> tuple[Path | None, bytes | None]:
    if settings.timing_cache_off:
        return None, None
    if settings.build_number is not None:
        return None, b""
    assert target.tensorrt_version
    assert target.compute_capability
    assert target.gpu_name
    shared = timing_cache.shared_timing_cache(target.tensorrt_version, target.compute_capability, target.gpu_name)
    path = settings.timing_cache or shared
    return path, timing_cache.load_timing_cache(path, strict=settings.timing_cache_strict)


def _merge_timings(result: Any, first: bytes, second: bytes) -> bytes:
    with native.translated():
        merged: bytes = result.merge_timing_caches([first, second])
    return merged


def _add_calibration(options: Any, prepared: PreparedBuild) -> list[str]:
    calibration = prepared.settings.calibration
    if calibration is None or prepared.model.facts.is_quantized:
        return ["The model has its own scales; the calibration data is ignored."] if calibration else []
    inputs = [tensor.name for tensor in prepared.model.facts.inputs]
    options.calibration = native.require("Calibration")(
        algorithm=calibration.algorithm,
        batches=lambda: calibration_batches(calibration, inputs, prepared.images),
    )
    samples = count_samples(calibration, prepared.images)
    if samples < FEW_SAMPLES:
        return [
            f"INT8 ranges come from only {counted(samples, 'sample')}; use {FEW_SAMPLES} or more for better accuracy."
        ]
    return []


def _manifest(prepared: PreparedBuild, digest: str, result: Any, libraries: Sequence[PluginLibrary]) -> Manifest:
    target, model = prepared.target, prepared.model
    assert target.tensorrt_version
    assert target.gpu_name
    assert target.compute_capability
    return Manifest(
        created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        cache_key=digest,
        engine=EngineFile(sha256=hash_bytes(result.plan), size_bytes=len(result.plan)),
        model=ModelFile(
            file=model.path.name,
            sha256=prepared.key.model_sha256,
            size_bytes=model.size_bytes,
            external_files=model.facts.external_locations,
            metadata=model.facts.metadata,
        ),
        tensorrt_version=target.tensorrt_version,
        tensorrt_headers=target.tensorrt_headers,
        cuda_version=target.cuda_version,
        driver_version=target.driver_version,
        workbench_version=__version__,
        native_version=target.native_version or "",
        gpu=GpuIdentity(name=target.gpu_name, uuid=target.gpu_uuid, compute_capability=target.compute_capability),
        options=prepared.settings.model_dump(mode="json"),
        inputs=tuple(_tensor(tensor) for tensor in result.inputs),
        outputs=tuple(_tensor(tensor) for tensor in result.outputs),
        profiles=tuple(str(profile) for profile in prepared.settings.profiles),
        plugins=tuple(Plugin(path=str(library.path), sha256=library.sha256) for library in libraries),
        calibration_sha256=prepared.key.calibration_sha256,
        layer_count=result.layer_count,
        build_s=result.build_s,
        skipped_tactics=result.skipped_tactics,
        warnings=tuple(dict.fromkeys(result.warnings)),
    )


def _tensor(tensor: Any) -> Tensor:
    return Tensor(name=tensor.name, dtype=tensor.dtype, shape=tuple(tensor.shape))
