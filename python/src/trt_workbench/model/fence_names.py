"""What marks a tensor as a fence (`fences.py`), for those who load engines and read no model."""

from __future__ import annotations

PREFIX = "trtw_fence_"


def is_fence(name: str) -> bool:
    """Whether an output exists only for the compiler."""
    return name.startswith(PREFIX)
