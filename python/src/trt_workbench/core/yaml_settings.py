"""Settings of a pydantic model from a YAML file; an error names the line and the nearest known key."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import LARGEST_NUMBER, UsageProblem
from trt_workbench.core.input_files import read_text

Location = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)
# No file of settings comes near them; the parser takes a second for each megabyte.
_MOST_BYTES = 2**20
_MOST_VALUES = 100_000
_WHOLE, _MOST_DIGITS = "tag:yaml.org,2002:int", 300
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
    document, lines = read_yaml(file, noun) if file else ({}, {})
    given = dict(overrides or {})
    try:
        settings = model.model_validate({**document, **given})
    except ValidationError as error:
        options = {key: spell(key) for key in given}
        raise _explain(error, model, file, lines, options, noun) from error
    for location, value in _numbers(document, settings.model_dump(), ()):
        if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:  # as of a command's options
            where = f":{lines[location]}" if location in lines else ""  # a merged key has no line of its own
            raise UsageProblem(
                f"The setting {'.'.join(map(str, location))} is wrong: {value!r:.40} is not a number from "
                f"{-LARGEST_NUMBER} to {LARGEST_NUMBER}: {file}{where}"
            )
    return settings


def read_yaml(file: Path, noun: str) -> tuple[dict[str, Any], dict[Location, int]]:
    """Return what a YAML file holds, and the line of each of its values by the keys that lead there.

    Args:
        file: of `key: value` lines.
        noun: what it holds, for messages.

    Raises:
        UsageProblem: it is absent, no YAML mapping, has tags other than YAML's own, or a key twice.
    """
    try:
        text = read_text(file, limit=_MOST_BYTES)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _require_small(node)
        document = yaml.safe_load(text)
    except OSError as error:
        raise UsageProblem(f"The file of {noun} cannot be read ({error.strerror}): {file}") from error
    # ValueError: a date or a number that cannot be, or no UTF-8; AttributeError: a tag on what is no value of its type
    except (yaml.YAMLError, ValueError, OverflowError, AttributeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise UsageProblem(
            f"The file of {noun} is not YAML ({getattr(error, 'problem', None) or error}): {file}{where}"
        ) from error
    except RecursionError as error:
        raise UsageProblem(f"The file of {noun} is nested too deeply or contains itself: {file}") from error
    if document is None:
        return {}, {}
    if not isinstance(document, dict):
        raise UsageProblem(f"The file of {noun} must contain `key: value` lines: {file}")
    return document, _lines(node, file)


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


def _require_small(root: yaml.Node | None) -> None:
    """Raise ValueError if the aliases of a document multiply it: ten lists of ten of the list before are 10^10 values.

    Raises RecursionError for a part that holds itself.
    """
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            if node.tag == _WHOLE and len(node.value) > _MOST_DIGITS:  # of what has more, Python makes no text
                raise ValueError(f"a number has {len(node.value)} digits")
            inner = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
            sizes[id(node)] = 1 + (sum(map(size, inner)) if isinstance(inner, list) else 0)
        return sizes[id(node)]

    if root is not None and size(root) > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES} values after its aliases are expanded")


def _lines(node: yaml.Node | None, file: Path) -> dict[Location, int]:
    """Return the line of every setting. Raises UsageProblem for one that occurs twice."""
    lines: dict[Location, int] = {}
    for location, line in _walk(node, ()):
        if location in lines:
            raise UsageProblem(f"The setting {'.'.join(map(str, location))} occurs twice: {file}:{line}")
        lines[location] = line
    return lines


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
        return UsageProblem(f"The {noun} contradict each other: {_reason(details)}{f': {file}' if file else ''}")
    name = ".".join(map(str, location))
    if option := options.get(str(location[0])):
        return UsageProblem(f"Option {option}: {_reason(details)}.")
    line = next((lines[location[:end]] for end in range(len(location), 0, -1) if location[:end] in lines), None)
    where = f": {file}{f':{line}' if line else ''}" if file else ""
    if details["type"] != "extra_forbidden":
        return UsageProblem(f"The setting {name} is wrong: {_reason(details)}{where}")
    known = _known_keys(model, location[:-1])
    near = difflib.get_close_matches(str(location[-1]), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
    return UsageProblem(f"There is no setting {name}; {hint}{where}")


def _deepest(found: Sequence[ErrorDetails]) -> ErrorDetails:
    """Of the errors at the first one's setting, return that of the branch of a union that the value came nearest to.

    That is the one that looked deepest into it, or else the one whose type it has.
    """
    setting = found[0]["loc"][:-1]
    return max((one for one in found if one["loc"][: len(setting)] == setting), key=_nearness)


def _nearness(details: ErrorDetails) -> tuple[int, bool]:
    return len(details["loc"]), not details["type"].endswith("_type")


def _reason(details: ErrorDetails) -> str:
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    if details["type"] == "too_short":
        return f"it needs at least {counted(details['ctx']['min_length'], 'entry', 'entries')}"
    return details["msg"][0].lower() + details["msg"][1:]


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
