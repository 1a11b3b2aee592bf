"""Engines that nobody has verified: the refusal, and what has to be read where --allow-unverified let one pass."""

from __future__ import annotations

from collections.abc import Iterable

from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.verification import Mark

ALLOW = "--allow-unverified"


class Unverified(CheckFailed):
    """An engine may be right, and nobody has looked."""


def let_through(marks: Iterable[Mark | None]) -> list[str]:
    """Return what has to be read before any figure: engines that passed for --allow-unverified alone.

    Args:
        marks: `verification` of records and metrics.
    """
    allowed = {(one["engine"], one["text"]) for one in marks if one and one["allowed"]}
    return [f"Not verified, let through by {ALLOW}: {engine} is {text}." for engine, text in sorted(allowed)]
