"""Counts with their nouns and sizes in bytes, as every message, table and page shows them; and items in groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
MINUS = "\N{MINUS SIGN}"
_UNITS = ("B", "KiB", "MiB", "GiB")


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by their key, in order of appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def counted(count: int, noun: str, several: str = "") -> str:
    """Return "1 shape" or "1,024 shapes".

    Args:
        count: how many.
        noun: in the singular.
        several: its plural, where that is not the noun with an s, or with es as of "batch".
    """
    return f"{count:,} {noun if count == 1 else several or plural(noun)}"


def some(items: Iterable[object], most: int = 12, mark: str = ", ") -> str:
    """Return "a, b and 57 more": at most so many items of a list that may be long."""
    words = [*map(str, items)]
    return mark.join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def decimals(value: float, digits: int = 4, plus: str = "") -> str:
    """Return a figure with its decimals and a minus sign that is no hyphen; without one where it rounds to zero.

    `plus` is "+" for a sign of what is above zero, too.
    """
    return f"{round(value, digits) + 0.0:{plus}.{digits}f}".replace("-", MINUS)  # the sum makes 0 of -0


def digits_of(score: float) -> int:
    """Return with how many decimals scores like this one are shown: four, or four digits of one below 0.001."""
    return min(3 - math.floor(math.log10(abs(score))), 12) if 0 < abs(score) < 0.001 else 4


def plural(noun: str) -> str:
    """Return "shapes" or "batches"."""
    return f"{noun}{'es' if noun.endswith('ch') else 's'}"


def sized(count: float) -> str:
    """Return "512 B", "2.5 KiB", "64 MiB" or "1.2 GiB": with one decimal unless it is whole."""
    power = min((max(int(count), 1).bit_length() - 1) // 10, len(_UNITS) - 1)
    if round(count / 1024**power, 1) >= 1024 and power < len(_UNITS) - 1:  # of the next unit, once it is rounded
        power += 1
    value = count / 1024**power
    return f"{value:,.{0 if value == int(value) else 1}f} {_UNITS[power]}"


def mebibytes(count: float) -> str:
    """Return the figure for a column in MiB: with one decimal, or three below 1 MiB."""
    value = count / 2**20
    if 0 < value < 0.0005:
        return "< 0.001"
    return f"{value:.{1 if value >= 1 or not value else 3}f}"
