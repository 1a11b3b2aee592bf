"""Version numbers compared the way conda's simple specifications mean them."""

from __future__ import annotations

import operator
import re

from taskrunner.errors import UsageProblem

_CLAUSE = re.compile(r"(>=|<=|==|!=|>|<|=)?\s*(\d+(?:\.\d+)*)(\.\*)?")
_ORDER = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def version_tuple(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `13.0.1` gives `(13, 0, 1)`."""
    return tuple(int(part) for part in re.findall(r"\d+", text))


def fits(version: tuple[int, ...], spec: str) -> bool:
    """Tell whether a version meets a specification such as `>=3.11,<3.14`, `3.12.*` or `*`.

    Raises:
        UsageProblem: the specification has a form beyond comparisons joined by commas.
    """
    return all(_fits_clause(version, clause.strip()) for clause in spec.split(","))


def _fits_clause(version: tuple[int, ...], clause: str) -> bool:
    if clause == "*":
        return True
    match = _CLAUSE.fullmatch(clause)
    if not match:
        msg = f"tasks/run cannot read the version specification {clause!r}"
        raise UsageProblem(msg)
    sign, number, wildcard = match.groups()
    wanted = version_tuple(number)
    if sign in _ORDER:
        return bool(_ORDER[sign](_padded(version, len(wanted)), _padded(wanted, len(version))))
    same = version[: len(wanted)] == wanted if wildcard or sign == "=" else _same(version, wanted)
    return not same if sign == "!=" else same


def _padded(version: tuple[int, ...], length: int) -> tuple[int, ...]:
    return version + (0,) * (length - len(version))


def _same(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return _padded(left, len(right)) == _padded(right, len(left))
