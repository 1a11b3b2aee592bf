"""What was typed, read without pydantic where that is simple.

Typer imports pydantic, and builds a validator for each option of a command, given or not, to read its value. That takes
as long as all else until a command begins. What is not read here, each error too, is left to typer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer import BadParameter

_MOST_DIGITS = 15  # of a number that is read here


def read_sparingly(parameters: list[Any]) -> None:
    """Have the parameters of a command read so. Versions of typer without `type_descriptor` need no pydantic."""
    for one in parameters:
        if hasattr(one, "type_descriptor"):
            one.process_value = _Reader(one)


class _Reader:
    """Takes the place of `process_value` of a parameter."""

    def __init__(self, parameter: Any) -> None:
        """Read for `parameter`."""
        self._parameter, kind = parameter, parameter.type_descriptor.annotation
        self._several = parameter.multiple or parameter.nargs == -1
        self._kind = get_args(kind)[0] if get_origin(kind) is list else kind

    def __call__(self, context: Any, value: Any) -> Any:
        """Return what a value that was typed, or the default, stands for."""
        one, found = self._parameter, self._found(value)
        # Path("") is the current folder
        if value != one.default and "" in (value if self._several and value else [value]):
            raise BadParameter("it is empty. Is a shell variable unset?", context, one)
        if found in (None, [], ()) and (one.required or value is not None):
            return type(one).process_value(one, context, value)
        return one.callback(context, one, found) if one.callback else found

    def _found(self, value: Any) -> Any:
        """Return what the value stands for; None or nothing where that is not simple, or there is none."""
        if not self._several:
            return self._simple(value)
        found = [self._simple(part) for part in value or ()]
        return None if None in found else found

    def _simple(self, value: Any) -> Any:
        kind = self._kind
        if not isinstance(value, str):
            return value if isinstance(kind, type) and isinstance(value, kind) else None
        if kind is str or kind is Path:
            return kind(value) if value.isprintable() else None
        if kind is int or kind is float:
            return self._number(value)
        return value if get_origin(kind) is Literal and value in get_args(kind) else None

    def _number(self, text: str) -> float | None:
        digits, least, most = text.replace(".", "", self._kind is float), self._parameter.min, self._parameter.max
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
            return None
        number: float = self._kind(text)
        return number if (least is None or least <= number) and (most is None or number <= most) else None
