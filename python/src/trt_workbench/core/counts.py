"""Counts with their nouns, as every message, table and page shows them; and items in groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


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


def plural(noun: str) -> str:
    """Return "shapes" or "batches"."""
    return f"{noun}{'es' if noun.endswith('ch') else 's'}"
