"""What a target is compared with: a session of its model, or the record that an earlier run has kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.base import Session, TensorSpec
from trt_workbench.backends.kept_reference import KeptFile, KeptRecord, RecordIndex, ReferenceWriter
from trt_workbench.backends.measure.inputs import Arrays
from trt_workbench.core.counts import grouped
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.verify.properties import EVERY_CALL, CallTrial, Check, PropertyResult, worst
from trt_workbench.verify.settings import Range
from trt_workbench.verify.space import Case
from trt_workbench.verify.yardstick import typed_for


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

        Where floats break it, integers and booleans count as well: they change only where two values swap.
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


class Recorded(KeptFile):
    """A call of the record: its case and inputs, which properties the model lacks or fails, and its arrays' file."""

    values: dict[str, int]
    shapes: dict[str, tuple[int, ...]]
    inputs: str
    lacks: dict[str, list[str]]
    fails: list[str]


class CallRecordIndex(RecordIndex):
    """record.json."""

    kind: str = "calls"
    ranges: dict[str, tuple[int, int, int]]
    seed: int
    calls: list[Recorded]

    @property
    def files(self) -> Iterable[KeptFile]:
        """The files of the calls."""
        return self.calls


class CallRecorder:
    """Writes the record of a run while it goes on."""

    def __init__(self, folder: Path, **facts: Any) -> None:
        """Begin a record.

        Args:
            folder: the run's folder, in which `reference` is made.
            facts: `model_sha256`, `reference`, `provenance`, `ranges` and `seed`, as JSON values.
        """
        self._writer, self._facts = ReferenceWriter(folder), facts
        self._calls: list[Recorded] = []

    def add(self, case: Case, label: str, inputs: Arrays, expected: Arrays) -> None:
        """Keep one call."""
        kept = self._writer.keep(f"{len(self._calls) + 1:04d}.npz", {"inputs": inputs, "expected": expected})
        shapes = {name: array.shape for name, array in inputs.items()}
        entry: dict[str, Any] = {"values": dict(case.values), "shapes": shapes, "inputs": label}
        self._calls.append(Recorded(**entry, lacks={}, fails=[], **kept.model_dump()))

    def add_properties(self, reference: Reference, trial: CallTrial) -> None:
        """Keep which properties the model itself lacks, for the call that was added last."""
        for check in EVERY_CALL:
            if reference.fails(check, trial):
                self._calls[-1].fails.append(check.__name__)
            elif lacking := reference.lacks(check, trial):
                self._calls[-1].lacks[check.__name__] = sorted(lacking)

    def finish(self) -> None:
        """Write what names the calls."""
        self._writer.write(CallRecordIndex(**self._facts, calls=self._calls))


class KeptReference(KeptRecord[CallRecordIndex]):
    """A record that is read back, as the reference of another run.

    Attributes:
        ranges: sizes by symbol that its cases had.
        outputs: that the reference had.
    """

    def __init__(self, directory: Path) -> None:
        """Check the record. Raises UsageProblem as of KeptRecord."""
        super().__init__(directory, CallRecordIndex)
        if not self.index.calls:
            raise UsageProblem(f"The record is empty, as the first call of its run failed; record again: {directory}")
        self.ranges = {name: Range(*sizes) for name, sizes in self.index.ranges.items()}
        self.outputs = [name for call in self.index.calls[:1] for name in self.arrays(call, "expected")]

    def provenance(self) -> dict[str, Any]:
        """Return what executed the model, as JSON values."""
        return self.index.provenance

    def cases(self) -> list[RecordedCase]:
        """Return the cases, in the order of recording."""
        found = grouped(self.index.calls, lambda call: repr((call.values, call.shapes)))
        return [RecordedCase(self, calls) for calls in found.values()]


class RecordedCase:
    """The calls of one case of a record: a reference only for them."""

    def __init__(self, record: KeptReference, calls: Sequence[Recorded]) -> None:
        """Take the calls, which differ in their inputs' label."""
        self.name = record.name
        self._record = record
        self._calls = {call.inputs: call for call in calls}
        self._first = calls[0]
        self.labels = list(self._calls)
        self.shapes = self._first.shapes

    def inputs(self, label: str, specs: Sequence[TensorSpec]) -> Arrays:
        """Return the inputs of a label in the target's types, which may be narrower than the model's.

        Raises:
            UsageProblem: the record lacks one.
        """
        call = self._calls[label]
        arrays = self._record.arrays(call, "inputs", [spec.name for spec in specs], "input")
        for spec in specs:
            self._record.require_tensor(call, spec.name, arrays[spec.name], spec.dtype, call.shapes[spec.name])
        return {spec.name: arrays[spec.name].astype(spec.dtype) for spec in specs}

    def expected(self, label: str, inputs: Arrays) -> Arrays:  # noqa: ARG002 - of a session
        """Return what was recorded for a label."""
        return self._record.arrays(self._calls[label], "expected", self._record.outputs)

    def require_like(self, label: str, found: Arrays) -> None:
        """Raise UsageProblem where what was recorded cannot be compared with what the target returns."""
        call, expected = self._calls[label], self.expected(label, {})
        for name, array in found.items():
            if name in expected:
                self._record.require_tensor(call, name, expected[name], array.dtype.name, [None] * array.ndim)

    def lacks(self, check: Check, trial: CallTrial) -> set[str]:  # noqa: ARG002 - of a session
        """Return the outputs for which the model did not have a property."""
        return set(self._first.lacks.get(check.__name__, ()))

    def fails(self, check: Check, trial: CallTrial) -> bool:  # noqa: ARG002 - of a session
        """Whether the model itself did not run at a shape that a check makes."""
        return check.__name__ in self._first.fails


Reference = LiveReference | RecordedCase
"""Outputs to expect for the inputs of a label, and properties that the model itself lacks."""
