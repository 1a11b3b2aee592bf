"""Settings of a pydantic model from a YAML file; an error names the line and the nearest known key."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trt_workbench.core.documents import reason_in, refusal
from trt_workbench.core.errors import UsageProblem, allowed

Location = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)
# how pydantic names the branches of a union
_BRANCHES = ("constrained-", "tuple[", "list[", "dict[", "function-")


def load_yaml_settings(
    model: type[M],
    file: Path | None,
    overrides: Mapping[str, Any] | None = None,
    *,
    noun: str = "settings",
    spell: Callable[[str], str] = str,
) -> M:
    """Return `model` filled from `file`, with `overrides` (of the command line) in place of what the file says.

    Args:
        model: the pydantic model; it should forbid extra keys, so that an unknown one is an error.
        file: the YAML file; None for defaults and overrides alone.
        overrides: values by top-level key.
        noun: what the file holds, for messages, such as "build settings".
        spell: returns how the user writes the option behind a key of `overrides`, such as "--workspace".

    Raises:
        UsageProblem: the file is absent or no YAML mapping, or a setting is unknown, doubled or wrong.
    """
    document, lines = _read(file, noun) if file else ({}, {})
    given = dict(overrides or {})
    try:
        settings = model.model_validate({**document, **given})
    except ValidationError as error:
        options = {key: spell(key) for key in given}
        raise _explain(error, model, file, lines, options, noun) from error
    for location, value in _numbers(document, settings.model_dump(), ()):
        if form := allowed(value):  # as of a command's options
            where = f":{lines[location]}" if location in lines else ""  # a merged key has no line of its own
            raise UsageProblem(
                f"The setting {'.'.join(map(str, location))} must be {form}, not {value!r:.40}: {file}{where}"
            )
    return settings


def _read(file: Path, noun: str) -> tuple[dict[str, Any], dict[Location, int]]:
    from trt_workbench.core.yaml_files import read_yaml

    return read_yaml(file, noun)


def _numbers(value: Any, made: Any, location: Location) -> Iterator[tuple[Location, float]]:
    """Yield the numbers of a document with their locations; `made` is what the settings have there.

    A text is one if a number was made of it: YAML takes what stands in quotes as text, and pydantic reads it.
    """
    if isinstance(value, str) and isinstance(made, int | float):
        value = made
    if isinstance(value, int | float):
        yield location, value
    elif isinstance(value, dict | list):
        parts = made if isinstance(made, dict) else dict(enumerate(made if isinstance(made, list | tuple) else ()))
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(one, parts.get(key), (*location, str(key) if isinstance(value, dict) else key))


def _explain(
    error: ValidationError,
    model: type[BaseModel],
    file: Path | None,
    lines: Mapping[Location, int],
    options: Mapping[str, str],
    noun: str,
) -> UsageProblem:
    found = error.errors(include_url=False)
    # A misspelt key comes first: that another one is missing follows from it.
    details = next((one for one in found if one["type"] == "extra_forbidden"), _deepest(found))
    # pydantic puts the branch of a union into the location, which no line of the file has
    location: Location = tuple(part for part in details["loc"] if not str(part).startswith(_BRANCHES))
    if not location:
        return UsageProblem(f"The {noun} contradict each other: {reason_in(details)}{f': {file}' if file else ''}")
    name = ".".join(map(str, location))
    if option := options.get(str(location[0])):
        return UsageProblem(f"{option} {refusal(details)}.")
    line = next((lines[location[:end]] for end in range(len(location), 0, -1) if location[:end] in lines), None)
    where = f": {file}{f':{line}' if line else ''}" if file else ""
    if details["type"] != "extra_forbidden":
        return UsageProblem(f"The setting {name} {refusal(details)}{where}")
    known = _known_keys(model, location[:-1])
    near = difflib.get_close_matches(str(location[-1]), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
    return UsageProblem(f"There is no setting {name}; {hint}{where}")


def _deepest(found: Sequence[ErrorDetails]) -> ErrorDetails:
    """Of the errors at the first one's setting, return that of the branch of a union that the value came nearest to.

    That is the one that looked deepest into it, or else the one whose type it has.
    """
    setting = found[0]["loc"][:-1]
    near = (one for one in found if one["loc"][: len(setting)] == setting)
    return max(near, key=lambda one: (len(one["loc"]), not one["type"].endswith("_type")))


def _known_keys(model: type[BaseModel], location: Location) -> list[str]:
    for part in location:
        field = model.model_fields.get(str(part))
        # A list's index or a table's own key leads to no field: the model stays what the field above gave.
        if field is None:
            continue
        inner = list(_models_in(field.annotation))
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
