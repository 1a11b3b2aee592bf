"""Options of one backend only: a table of names, kinds and defaults, against which what was given is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trt_workbench.core.errors import UsageProblem, did_you_mean

_WORDS = {"true": True, "false": False}
# The largest values of the types of C++ that runtimes read numbers into.
INT16, INT32, SIZE = 2**15 - 1, 2**31 - 1, 2**64 - 1


@dataclass(frozen=True)
class Option:
    """One option of a backend.

    Attributes:
        kind: bool, int, float, str, Path, dict for names by name, or the tuple of words that it may be.
        default: its value where none is given; None leaves it to the runtime.
        minimum: the smallest number allowed.
        maximum: the largest one.
        help: what it does, in one sentence.
    """

    kind: type | tuple[str, ...]
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    help: str = ""


def checked_extra(backend: str, table: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every option in `table`: the given one, else the default.

    Text is converted to the option's kind, so that values may come from a command line ("true", "2048").

    Raises:
        UsageProblem: an option is unknown (the message names near matches) or its value is not of its kind.
    """
    for name in given:
        if name not in table:
            raise UsageProblem(f"Backend {backend} has no option {name!r}; {did_you_mean(name, table)}")
    return {
        name: _checked(backend, name, option, given[name]) if name in given else option.default
        for name, option in table.items()
    }


def _checked(backend: str, name: str, option: Option, value: Any) -> Any:
    if value is None and option.default is None:
        return None
    converted = _converted(option.kind, value)
    low, high = option.minimum, option.maximum
    if converted is None or (low is not None and converted < low) or (high is not None and converted > high):
        floor = "" if low is None else f", at least {low:g}"
        ceiling = "" if high is None else f", at most {high}"
        allowed = f"{_wording(option.kind)}{floor}{ceiling}"
        raise UsageProblem(f"Option {name} of backend {backend} must be {allowed}, not {value!r}.")
    return converted


def _converted(kind: type | tuple[str, ...], value: Any) -> Any:
    """Return `value` as `kind`; None if it cannot be one."""
    if isinstance(kind, tuple):
        return value if value in kind else None
    if kind is bool:
        return value if isinstance(value, bool) else _WORDS.get(str(value).lower())
    if kind in (int, float):
        return _as_number(kind, value)
    if kind is Path:
        return Path(value) if isinstance(value, str | Path) else None
    if kind is dict:
        return _as_names(value)
    return value if isinstance(value, kind) else None


def _as_number(kind: type, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = kind(value)
    except ValueError:
        return None
    return number if isinstance(value, str) or number == value else None


def _as_names(value: Any) -> dict[str, str] | None:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for pair in value.items() for name in pair):
        return None
    return dict(value)


def _wording(kind: type | tuple[str, ...]) -> str:
    if isinstance(kind, tuple):
        return f"one of {', '.join(kind)}"
    words = {bool: "true or false", int: "a whole number", float: "a number", Path: "a path", dict: "names by name"}
    return words.get(kind, "a text")
