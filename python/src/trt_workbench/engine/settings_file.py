"""Build settings from a YAML file and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trt_workbench.core.yaml_settings import load_yaml_settings
from trt_workbench.engine.options import BuildSettings


def load_settings(
    file: Path | None = None, overrides: Mapping[str, Any] | None = None, spell: Callable[[str], str] = str
) -> BuildSettings:
    """Return the settings of `file`, with `overrides` (of the command line) in place of what the file says.

    Relative paths in the file are relative to the file; `spell` returns how the user writes the option behind a key.

    Raises:
        UsageProblem: the file is absent or no YAML mapping, or a setting is unknown or wrong.
    """
    given = dict(overrides or {})
    settings = load_yaml_settings(BuildSettings, file, given, noun="build settings", spell=spell)
    return _rebased(settings, file, given) if file else settings


def _rebased(settings: BuildSettings, file: Path, overrides: Mapping[str, Any]) -> BuildSettings:
    """Return `settings` with the file's relative paths made relative to its folder."""
    folder = file.absolute().parent
    changes: dict[str, Any] = {}
    if settings.timing_cache and not settings.timing_cache_off and "timing_cache" not in overrides:
        changes["timing_cache"] = folder / settings.timing_cache
    if settings.calibration and "calibration" not in overrides:
        changes["calibration"] = settings.calibration.model_copy(update={"data": folder / settings.calibration.data})
    if settings.plugins and "plugins" not in overrides:
        changes["plugins"] = tuple(folder / path for path in settings.plugins)
    return settings.model_copy(update=changes)
