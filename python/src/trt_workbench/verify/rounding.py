"""Whether rounding alone breaks a property: then every call of it agrees with the model, each within its own limit.

The limits of a property are those of the call that it starts from. Another call, such as a row alone, may be at a step
of a cast or at a tie where that one is not: the model itself, which is hardly rounded, takes one side in both, and a
right engine may take the other side in one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.verify.properties import OTHER_INPUTS, Arrays, CallTrial, Check, PropertyResult, Run, worst
from trt_workbench.verify.yardstick import Limit, Yardstick


class Calls:
    """Runs a target and keeps what it answered, in order."""

    def __init__(self, run: Run) -> None:
        """Take the target's `run`."""
        self._run = run
        self.answers: list[Mapping[str, NDArray[Any]]] = []

    def __call__(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Run it."""
        self.answers.append(self._run(inputs))
        return self.answers[-1]


def without_rounding(
    check: Check, calls: Calls, trial: CallTrial, findings: list[PropertyResult], yardstick: Yardstick, precision: str
) -> list[PropertyResult]:
    """Return the findings, of which those hold that only rounding breaks.

    Args:
        check: that gave the findings.
        calls: that it made.
        trial: that it started from.
        findings: of the check, one an output.
        yardstick: of the model.
        precision: that the target computes in.
    """
    if check not in OTHER_INPUTS or all(one.holds for one in findings):
        return findings

    def settled(inputs: Mapping[str, NDArray[Any]], answer: Mapping[str, NDArray[Any]]) -> Arrays:
        """Return the model's own outputs where the target's are right, else the target's."""
        right = yardstick.exact(inputs)
        limits = yardstick.limits(precision, inputs, right, trial.rows, closely=True)
        return {
            name: right[name] if _explains(limits[name], array, right[name], rows=trial.rows[name]) else array
            for name, array in answer.items()
        }

    answers = iter(calls.answers)  # the calls themselves: a fault that comes and goes may not come again
    try:
        own = replace(trial, outputs=settled(trial.inputs, trial.outputs))
        still = {
            one.output for one in worst(check(lambda inputs: settled(inputs, next(answers)), own)) if not one.holds
        }
    except UsageProblem:  # ONNX Runtime does not take a shape that the target takes
        return findings
    return [one if one.output in still else replace(one, holds=True, detail="") for one in findings]


def _explains(limit: Limit, found: NDArray[Any], right: NDArray[Any], *, rows: bool) -> bool:
    apart = limit.apart(found, right, rows=rows)
    broken = apart.shape_differs or apart.nonfinite > 0
    return limit.allows(apart) or limit.is_overflow(apart) or not (limit.decides or broken)
