"""Build settings in the terms of the native core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trt_workbench.core.environment import available_processors
from trt_workbench.core.precision import names
from trt_workbench.engine import native
from trt_workbench.engine.options import MIB, BuildSettings, declared
from trt_workbench.engine.plugins import PluginLibrary
from trt_workbench.engine.profiles import Profile, ShapeRange


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
