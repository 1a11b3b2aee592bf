"""Counts with their nouns, as every message, table and page shows them."""

from __future__ import annotations


def counted(count: int, noun: str, several: str = "") -> str:
    """Return "1 shape" or "1,024 shapes".

    Args:
        count: how many.
        noun: in the singular.
        several: its plural, where that is not the noun with an s.
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"
