"""Numbers with their nouns, as every text, table and page shows them."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return `1 shape` or `3 shapes`.

    Args:
        count: of the things.
        noun: in the singular.
        plural: where it is not the noun with an s.
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
