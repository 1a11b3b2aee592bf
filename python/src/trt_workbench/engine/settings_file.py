"""Build settings from a YAML file and the command line; an error names the line and the nearest known key."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trt_workbench.engine.options import BuildSettings
from trt_workbench.errors import UsageProblem

Location = tuple[int | str, ...]


def load_settings(file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> BuildSettings:
    """Return the settings of `file`, with `overrides` (of the command line) in place of what the file says.

    Relative paths in the file are relative to the file.

    Raises:
        UsageProblem: the file is absent or no YAML mapping, or a setting is unknown or wrong.
    """
    document, lines = _read(file) if file else ({}, {})
    given = dict(overrides or {})
    try:
        settings = BuildSettings.model_validate({**document, **given})
    except ValidationError as error:
        raise _explain(error, file, lines, given) from error
    return _rebased(settings, file, given) if file else settings


def _read(file: Path) -> tuple[dict[str, Any], dict[Location, int]]:
    try:
        text = file.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except OSError as error:
        msg = f"The settings file cannot be read ({error.strerror}): {file}"
        raise UsageProblem(msg) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        msg = f"The settings file is not YAML ({getattr(error, 'problem', None) or error}): {file}{where}"
        raise UsageProblem(msg) from error
    if document is None:
        return {}, {}
    if not isinstance(document, dict):
        msg = f"The settings file must hold `key: value` lines: {file}"
        raise UsageProblem(msg)
    lines: dict[Location, int] = {}
    for location, line in _walk(node, ()):
        if location in lines:
            msg = f"The setting {'.'.join(map(str, location))} occurs twice: {file}:{line}"
            raise UsageProblem(msg)
        lines[location] = line
    return document, lines


def _walk(node: yaml.Node | None, location: Location) -> Iterator[tuple[Location, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*location, str(key.value))
            yield below, key.start_mark.line + 1
            yield from _walk(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*location, index), value.start_mark.line + 1
            yield from _walk(value, (*location, index))


def _explain(
    error: ValidationError, file: Path | None, lines: Mapping[Location, int], overrides: Mapping[str, Any]
) -> UsageProblem:
    details = error.errors(include_url=False)[0]
    location: Location = details["loc"]
    if not location:
        return UsageProblem(
            f"The build settings contradict each other: {_reason(details)}{f': {file}' if file else ''}"
        )
    name = ".".join(map(str, location))
    if str(location[0]) in overrides:
        return UsageProblem(f"Option --{str(location[0]).replace('_', '-')}: {_reason(details)}.")
    line = next((lines[location[:end]] for end in range(len(location), 0, -1) if location[:end] in lines), None)
    where = f": {file}{f':{line}' if line else ''}" if file else ""
    if details["type"] != "extra_forbidden":
        return UsageProblem(f"The setting {name} is wrong: {_reason(details)}{where}")
    near = difflib.get_close_matches(str(location[-1]), _known_keys(location[:-1]), n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(_known_keys(location[:-1]))}"
    return UsageProblem(f"There is no setting {name}; {hint}{where}")


def _reason(details: ErrorDetails) -> str:
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    return details["msg"][0].lower() + details["msg"][1:]


def _known_keys(location: Location) -> list[str]:
    model: type[BaseModel] = BuildSettings
    for part in location:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part)
        kinds = [field.annotation, *get_args(field.annotation)] if field else []
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)


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
