"""What a gate of a streaming evaluation found."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt

from trt_workbench.core.documents import Strict

Verdict = Literal["passed", "warning", "failed"]


class GateResult(Strict):
    """One gate.

    Attributes:
        gate: its name.
        value: the worst that was found, None where it is not finite or there was none.
        limit: what it is compared with; None for a gate without a number.
        chunk: the first one that fails, else the one of the worst value; None of the whole stream.
        tensor: the same.
        text: what was found, in words.
    """

    gate: str
    verdict: Verdict
    value: float | None = None
    limit: float | None = None
    chunk: NonNegativeInt | None = None
    tensor: str | None = None
    text: str
