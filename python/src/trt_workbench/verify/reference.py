"""What a target is compared with: a session of its model, or the record that an earlier run has kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.verify.properties import CallTrial, Check, PropertyResult, worst
from trt_workbench.verify.yardstick import typed_for

Arrays = dict[str, NDArray[Any]]


class Reference(Protocol):
    """Outputs to expect, and properties that the model itself lacks.

    Attributes:
        name: for a person, such as `ort-cpu`.
    """

    name: str

    def expected(self, label: str, inputs: Arrays) -> Arrays:
        """Return what the model gives for the inputs called `label` of the case that is verified now."""

    def lacks(self, check: Check, trial: CallTrial) -> set[str]:
        """Return the outputs for which the model itself does not have a property."""

    def fails(self, check: Check, trial: CallTrial) -> bool:
        """Whether the model itself does not run at a shape that a check makes."""


class LiveReference:
    """The model on a backend.

    Attributes:
        outputs: that it has.
    """

    def __init__(self, name: str, session: Session) -> None:
        """Take a session, whose inputs may be of a wider type than the target's."""
        self.name, self._session = name, session
        self.outputs = [spec.name for spec in session.outputs]

    def provenance(self) -> dict[str, Any]:
        """Return what executes the model, as JSON values."""
        return self._session.record()

    def expected(self, label: str, inputs: Arrays) -> Arrays:  # noqa: ARG002 - a record needs it
        """Run the model.

        Raises:
            UsageProblem: it does not take these inputs.
            DeviceFailure: its device failed.
        """
        try:
            return self._run(inputs)
        except WorkbenchError as error:
            raise type(error)(f"the reference {self.name} does not run it: {error}") from error

    def lacks(self, check: Check, trial: CallTrial) -> set[str]:
        """Return the outputs for which the model breaks a property by a quarter of the limit or more.

        Where floats break it, integers and booleans count as well: they change only where two values change places.
        """
        findings = self._findings(check, trial)
        broken = {one.output for one in findings if not one.holds}
        if any(trial.outputs[name].dtype.kind == "f" for name in broken):
            broken |= {one.output for one in findings if trial.outputs[one.output].dtype.kind in "biu"}
        return broken

    def fails(self, check: Check, trial: CallTrial) -> bool:
        """Whether the model itself does not run at a shape that a check makes."""
        try:
            self._findings(check, trial)
        except UsageProblem:
            return True
        return False

    def _findings(self, check: Check, trial: CallTrial) -> list[PropertyResult]:
        own = dataclasses.replace(
            trial, outputs=self._run(trial.inputs), limits={k: one.tighter() for k, one in trial.limits.items()}
        )
        return worst(check(self._run, own))

    def _run(self, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        return self._session.run(typed_for(self._session, inputs))
