"""Parts of documents that are dataclasses, read without pydantic where nothing is wrong with them.

A plan is loaded by its manifest: pydantic and its validators take as long as all that is imported for the engine.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from trt_workbench.core.input_files import parse_json, read_text

T = TypeVar("T")


@dataclass(frozen=True)
class Plain:
    """A part of a document that holds its fields and no others, as `Strict` does."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}


def read_plain(path: Path, kind: type[T], advice: str = "") -> T:
    """Return what a JSON file holds, as `read_document` does, which says what is wrong. Raises UsageProblem."""
    with contextlib.suppress(OSError, LookupError, OverflowError, TypeError, ValueError):
        return plain(kind, parse_json(read_text(path)))
    from trt_workbench.core.documents import read_document

    return read_document(path, kind, advice)


def plain(kind: type[T], document: Any) -> T:
    """Return a value of JSON as a dataclass.

    Raises:
        LookupError, OverflowError, TypeError, ValueError: it is not exactly that.
    """
    found: T = _read(kind, document)
    return found


def _read(kind: Any, value: Any) -> Any:
    form, parts = get_origin(kind), get_args(kind)
    if NoneType in parts:
        return None if value is None else _read(parts[0], value)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _read(hints[name], one) for name, one in _of(dict, value).items()})
    if form is tuple:
        return tuple(_read(parts[0], one) for one in _of(list, value))
    if form is dict:
        return {name: _read(parts[1], one) for name, one in _of(dict, value).items()}
    if form is Literal:
        return parts[parts.index(value)]  # not the value: True equals 1
    if kind is float and not math.isfinite(value):
        raise ValueError(value)
    if kind is float and type(value) is int:
        return float(value)
    return value if kind is Any else _of(kind, value)


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(value)
    return value


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)  # what has bounds is left to pydantic
