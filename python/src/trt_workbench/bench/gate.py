"""What a bench asks before it measures a TensorRT engine; `verify/bench_gate.py` answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from trt_workbench.errors import CheckFailed

Shapes = Mapping[str, Sequence[int]]
Check = Callable[[Mapping[str, Any], Path, Shapes | None, int], dict[str, Any] | None]
"""From provenance, model, input shapes (None for a language model) and device to a mark; raises CheckFailed."""
ALLOW = "--allow-unverified"


class Unverified(CheckFailed):
    """An engine may be right, and nobody has looked."""


def let_through(marks: Iterable[Mapping[str, Any] | None]) -> list[str]:
    """Return what has to be read before any figure: engines that passed for --allow-unverified alone.

    Args:
        marks: `verification` of records and metrics.
    """
    allowed = {(one["engine"], one["text"]) for one in marks if one and one["allowed"]}
    return [f"Not verified, let through by {ALLOW}: {engine} is {text}." for engine, text in sorted(allowed)]


class Gate(Protocol):
    """Lets engines pass that are verified."""

    @property
    def allows_unverified(self) -> bool:
        """Whether it lets all pass, with a mark."""

    def opened(self, log: Path, timeout_s: float) -> AbstractContextManager[Check]:
        """Return what checks engines, in a process of its own; it is closed before anything is measured.

        Args:
            log: gets what the process prints.
            timeout_s: for the verification of one engine.
        """
