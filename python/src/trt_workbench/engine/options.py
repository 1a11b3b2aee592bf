"""Build settings: all options of an engine, as one checked, serialisable value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, field_validator, model_validator

from trt_workbench.core.yaml_settings import load_yaml_settings
from trt_workbench.engine.build_options import BUILT, BuildOptions, BuildSetting, CalibrationOptions, MemoryPool
from trt_workbench.engine.profiles import Profile

MIB = 1 << 20
_TACTIC_SOURCE = re.compile(r"[+-][A-Za-z_]+")


class Calibration(CalibrationOptions, BaseModel):
    """What an INT8 calibrator is fed with."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BuildSettings(BuildOptions, BaseModel):
    """All options of a build: `BuildOptions`, checked.

    A request that the installed TensorRT cannot honour is an error when building, never silently replaced.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    precision: Annotated[
        tuple[str, ...],
        BeforeValidator(lambda said: tuple(map(str.strip, said.split("+"))) if isinstance(said, str) else said),
    ] = ("fp32",)
    profiles: tuple[Profile, ...] = ()
    calibration: Calibration | None = None

    @field_validator("precision")
    @classmethod
    def _known_precisions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or (unknown := sorted(set(value) - set(BUILT))):
            named = f"unknown type {', '.join(unknown)}; choose from" if value else "choose at least one of"
            raise ValueError(f"{named} {', '.join(BUILT)}; join several with +, such as int8+fp16")
        # one spelling for one meaning, so that one engine has one cache key
        return tuple(name for name in BUILT if name in value and name != "fp32") or ("fp32",)

    @field_validator("tactic_sources")
    @classmethod
    def _signed_sources(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [source for source in value if not _TACTIC_SOURCE.fullmatch(source)]:
            raise ValueError(f"{wrong[0]!r} needs a sign, such as +CUDNN or -CUBLAS")
        asked = {source.lower() for source in value}
        if both := sorted(source[1:] for source in asked if source[0] == "+" and f"-{source[1:]}" in asked):
            raise ValueError(f"{both[0].upper()} has both signs; pass it once")
        return tuple(sorted(asked))

    @model_validator(mode="after")
    def _together(self) -> BuildSettings:
        rules = (
            (
                self.exclude_lean_runtime and not self.version_compatible,
                "exclude_lean_runtime: set version_compatible",
            ),
            (
                bool(self.layer_precisions or self.layer_output_types) and self.precision_constraints == "none",
                "layer_precisions and layer_output_types need precision_constraints prefer or obey",
            ),
            (self.calibration is not None and "int8" not in self.precision, "calibration needs precision int8"),
            (self.serialize_plugins and not self.plugins, "serialize_plugins needs plugins"),
            (self.gpu_fallback and self.dla_core is None, "gpu_fallback needs dla_core"),
            (self.workspace_mib is not None and MemoryPool.workspace in self.memory_pools, "workspace is set twice"),
            (self.timing_cache_strict and self.timing_cache_off, "timing_cache_strict needs a timing cache"),
            (
                self.build_number is not None and self.timing_cache is not None,
                "build_number starts from an empty timing cache; leave out timing_cache",
            ),
        )
        for broken, problem in rules:
            if broken:
                raise ValueError(problem)
        return self

    @property
    def timing_cache_off(self) -> bool:
        """Whether no timing cache is used at all."""
        return self.timing_cache is not None and str(self.timing_cache) == "off"

    @property
    def precision_text(self) -> str:
        """The precision as it is written, such as `int8+fp16`."""
        return "+".join(self.precision)

    def key_fields(self) -> dict[str, Any]:
        """Return the settings that can change the engine, as JSON values; files count by their hash, elsewhere."""
        elsewhere = {name for name, said in declared().items() if not said.in_key}
        document = self.model_dump(mode="json", exclude=elsewhere | {"calibration", "plugins"})
        if self.build_number is None:
            del document["build_number"]  # keys from before there were several builds stay the same
        if self.calibration:
            document["calibration"] = self.calibration.model_dump(mode="json", exclude={"data", "split"})
        return document


def declared() -> dict[str, BuildSetting]:
    """Return the description of every setting, by name."""
    parts = ((name, part) for name, field in BuildSettings.model_fields.items() for part in field.metadata)
    return {name: part for name, part in parts if isinstance(part, BuildSetting)}


def load_settings(
    file: Path | None = None, overrides: Mapping[str, Any] | None = None, spell: Callable[[str], str] = str
) -> BuildSettings:
    """Return the settings of `file`, with `overrides` (of the command line) in place of the file's.

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
