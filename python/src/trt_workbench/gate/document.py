"""What a gate writes: gate.json."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat

from trt_workbench.core.documents import Inside, Strict

CheckName = Literal["verify", "score", "latency"]


class GateCheck(Strict):
    """One check.

    Attributes:
        name: of the part of the file.
        passed: whether it did.
        exit_code: that its failure has on its own; 0 where it passed.
        text: what was found, a sentence or two.
        report: its page, relative to the run directory; None where it has none.
        seconds: how long it took.
    """

    name: CheckName
    passed: bool
    exit_code: int
    text: str
    report: Inside | None
    seconds: NonNegativeFloat


class GateDocument(Strict):
    """gate.json.

    Attributes:
        model: path of the model file.
        passed: whether all checks did.
        checks: in the order of the run.
    """

    schema_version: Literal[1] = 1
    model: str
    passed: bool
    checks: list[GateCheck]

    @property
    def headline(self) -> str:
        """The result in a sentence."""
        failed = [one.name for one in self.checks if not one.passed]
        if failed:
            return f"Failed: {', '.join(failed)} ({len(failed)} of {len(self.checks)})."
        return f"Passed: {', '.join(one.name for one in self.checks)}."
