"""Verifying a target: every case, every kind of inputs, properties and reference, and the verdict over all."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.bench.engine_arrays import file_name
from trt_workbench.engine.hashing import hash_arrays
from trt_workbench.engine.verification import UNDECIDED, UNVERIFIED, WRONG
from trt_workbench.errors import DeviceFailure, UsageProblem, WorkbenchError
from trt_workbench.onnxtools.precision import told
from trt_workbench.verify.data import Data, at
from trt_workbench.verify.diagnosis import diagnose
from trt_workbench.verify.draw import Kind, draw
from trt_workbench.verify.opening import Opened, VerifyRequest
from trt_workbench.verify.properties import EVERY_CALL, Check, Finding, Trial, agrees, calls_at_once, worst
from trt_workbench.verify.space import Case, Space, cases
from trt_workbench.verify.yardstick import PRECISIONS, Limit, Yardstick, precision_of, sensitivity

SCHEMA_VERSION = 1
Arrays = dict[str, NDArray[Any]]

RIGHT, CONSISTENT = "right", "consistent"
_MOST_BYTES = 4 << 30  # of one call's inputs
_MOST_FAILURES = 16  # whose arrays are saved
# Inputs by label: what is drawn, and what is added to the seed. Two calls with other values show stale results.
_DRAWN: Mapping[str, tuple[Kind, int]] = {
    "random": ("random", 0),
    "other random": ("random", 1_000_003),
    "zeros": ("zeros", 0),
    "large": ("large", 0),
}
_QUICK = 2


@dataclass(frozen=True)
class Verified:
    """What was found.

    Attributes:
        document: JSON values for `verify.json`.
        failures: one sentence for each wrong output, the first ones first.
        failed_shapes: one sentence for each shape at which the device failed, such as for want of memory.
    """

    document: dict[str, Any]
    failures: tuple[str, ...]
    failed_shapes: tuple[str, ...]


@dataclass(frozen=True)
class _Call:
    """What a case is called with: inputs by label, made when they are needed."""

    space: Space
    case: Case
    inputs: Mapping[str, Callable[[], Arrays]]


def verify(
    request: VerifyRequest,
    folder: Path,
    note: Callable[[str], None] = lambda _: None,
    step: Callable[[str], None] = lambda _: None,
) -> Verified:
    """Try a target at its shapes and write the inputs of failures to `folder`/failures.

    Args:
        request: what is asked for.
        folder: an existing folder.
        note: called with what a person should know.
        step: called with the label of every case before it runs.

    Raises:
        UsageProblem: a file or option cannot be used, the model is random by design, or no case could be run.
        ComponentMissing: a backend cannot serve here.
        DeviceFailure: the device failed at every shape.
    """
    budget = request.budget
    with tempfile.TemporaryDirectory(prefix="trtw-verify-") as scratch, Opened(request, note) as opened:
        graph = opened.graph
        yardstick = Yardstick(graph, Path(scratch), request.seed) if graph and opened.reference else None
        try:
            run = _Run(request, opened, yardstick, folder)
            rows, left = [], 0
            for call in _calls(request, opened):
                if budget and (run.failures or not budget.begin(call.case)):
                    left += 1
                    continue
                step(call.case.label)
                rows.append(run.case(call))
                if budget:
                    budget.end()
            step("other ways to run it")
            ways = [] if request.quick else list(run.ways())
        finally:
            if yardstick:
                yardstick.close()
        provenance = opened.session.record()
    tried = [row for row in rows if row["verdict"] != UNVERIFIED]
    if not tried:
        reason = rows[0]["reason"] if rows else "there are no shapes"
        msg = f"No shape could be run; the first answer was: {reason}"
        raise DeviceFailure(msg) if any(row.get("device_failed") for row in rows) else UsageProblem(msg)
    document = {
        "schema_version": SCHEMA_VERSION,
        "target": str(request.target),
        "model": str(graph) if graph else None,
        "backend": request.backend,
        "precision": run.precision,
        "reference": request.reference if opened.reference else None,
        "inputs": list(request.inputs) or None,
        "seed": request.seed,
        "quick": request.quick,
        "verdict": WRONG if run.failures else loosest(row["verdict"] for row in tried),
        "cases_tried": len(tried),
        "cases_unverified": len(rows) - len(tried),
        "cases_left": left,
        "cases": rows,
        "ways": ways,
        "failures": run.failures,
        "provenance": provenance,
    }
    failed = tuple(f"{row['label']}: {row['reason']}" for row in rows if row.get("device_failed"))
    return Verified(document, tuple(run.failures), failed)


def _calls(request: VerifyRequest, opened: Opened) -> Iterator[_Call]:
    specs = opened.session.inputs
    data = Data(request.inputs, specs) if request.inputs else None
    for space in opened.spaces:
        if data:
            for fixed, samples in data.spaces(space):
                for case in cases(fixed, request.seed, quick=request.quick):
                    given = {
                        "given": lambda c=case, f=fixed, s=samples: at(s, f, c, 0),
                        "given, the next rows": lambda c=case, f=fixed, s=samples: at(s, f, c, 1),
                    }
                    yield _Call(fixed, case, given)
            continue
        labels = list(_DRAWN)[: _QUICK if request.quick else None]
        needed = request.budget.needed if request.budget else ()
        for case in cases(space, request.seed, quick=request.quick, needed=needed):
            drawn = {
                label: lambda c=case, k=_DRAWN[label]: draw(specs, c.shapes, k[0], request.seed + k[1])
                for label in labels
            }
            yield _Call(space, case, drawn)


class _Run:
    """The cases of one request, in turn."""

    def __init__(self, request: VerifyRequest, opened: Opened, yardstick: Yardstick | None, folder: Path) -> None:
        self._request, self._opened, self._yardstick, self._folder = request, opened, yardstick, folder
        ran = told(opened.session.record()) or ""
        self.precision = precision_of(" ".join((ran, request.precision)))
        self.failures: list[str] = []
        self._earlier: dict[str, Arrays] = {}
        self._last: Trial | None = None
        if yardstick and request.budget:
            yardstick.prepare(self.precision)  # not a part of the first case, by which the pace is measured

    def case(self, call: _Call) -> dict[str, Any]:
        """Run one case and return its row; the device's failure at one shape is no end of the others."""
        case = call.case
        row: dict[str, Any] = {"label": case.label, "shapes": {k: list(v) for k, v in case.shapes.items()}}
        row |= {"values": dict(case.values), "batch": case.batch, "profile": case.profile}
        row |= {"device_failed": False, "reason": "", "outputs": []}
        size = sum(
            np.dtype(_numpy_type(spec.dtype)).itemsize * int(np.prod(case.shapes[spec.name], dtype=np.int64))
            for spec in self._opened.session.inputs
        )
        if size > _MOST_BYTES:
            reason = f"its inputs take {size / 2**30:.0f} GiB, at most {_MOST_BYTES / 2**30:.0f} GiB are tried"
            return {**row, "verdict": UNVERIFIED, "reason": reason}
        try:
            for label in call.inputs:
                if row["outputs"] and self._request.budget and self._request.budget.is_spent:
                    break
                row["outputs"] += self._one(call, label)
        except (UsageProblem, DeviceFailure, MemoryError) as error:
            text = str(error) or "out of memory"
            failed = not isinstance(error, UsageProblem)
            row |= {"verdict": UNVERIFIED, "reason": text, "device_failed": failed}
            if any(one["verdict"] == WRONG for one in row["outputs"]):
                row["verdict"] = WRONG
            return row
        return {**row, "verdict": loosest(one["verdict"] for one in row["outputs"])}

    def ways(self) -> Iterator[dict[str, Any]]:
        """Run the last case in other ways and yield a row for each."""
        trial = self._last
        if trial is None:
            return
        for name, make in self._opened.ways().items():
            session = make()
            yield self._way(name, worst(agrees(name, "the same call", session.run, trial)), trial)
            session.close()
        several = self._opened.open(concurrency=2)
        yield self._way("two calls at once", worst(calls_at_once(several.run, trial)), trial)

    def _way(self, name: str, findings: list[Finding], trial: Trial) -> dict[str, Any]:
        for one in findings:
            if not one.holds:
                self._fail(trial.case, one.output, f"{name}: {one.detail}", {"inputs": trial.inputs})
        return {"way": name, "case": trial.case.label, "findings": [_finding(one) for one in findings]}

    def _one(self, call: _Call, label: str) -> Iterator[dict[str, Any]]:
        """Run one set of inputs and yield a row for every output."""
        space, case = call.space, call.case
        session, inputs = self._opened.session, call.inputs[label]()
        digest = hash_arrays(inputs)
        first = label == next(iter(call.inputs))
        expected = self._expected(inputs)
        try:
            found = dict(session.run(inputs))
        except UsageProblem as error:
            if expected is None:
                raise
            reason = f"it fails where the model itself runs: {error}"
            self._fail(case, "all", f"{label} inputs: {reason}", {"inputs": inputs, "expected": expected})
            row = {"inputs": label, "inputs_sha256": digest, "output": "all", "properties": []}
            yield {**row, "verdict": WRONG, "reason": reason}
            return
        rows = _row_flags(session, space, case, found)
        judged: dict[str, dict[str, Any]] = {}
        for closely in (False, True):
            limits = self._limits(session, inputs, expected, rows, closely=closely)
            findings: list[Finding] = []
            if first:
                other = list(call.inputs.values())[1]()
                self._last = Trial(space, case, inputs, found, rows, limits[self.precision], other)
                findings = self._properties(self._last, expected)
            for name, array in found.items():
                of_output = [one for one in findings if one.output == name]
                of_precision = {precision: limits[precision][name] for precision in limits}
                want = expected[name] if expected is not None else None
                judged[name] = self._judged(name, array, want, of_precision, of_output, rows=rows[name])
            if self._yardstick is None or all(row["verdict"] != WRONG for row in judged.values()):
                break
        for name, row in judged.items():
            if row["verdict"] == WRONG:
                self._fail(case, name, f"{label} inputs: {row['reason']}", _arrays(inputs, found, expected))
            shape = list(found[name].shape)
            yield {**row, "inputs": label, "inputs_sha256": digest, "output": name, "shape": shape}
        self._earlier = {f"{label} inputs at {case.label}": found}
        if expected is not None:
            self._earlier[f"{label} inputs at {case.label} as the reference has it"] = expected

    def _judged(
        self,
        name: str,
        found: NDArray[Any],
        expected: NDArray[Any] | None,
        limits: Mapping[str, Limit],
        properties: list[Finding],
        *,
        rows: bool,
    ) -> dict[str, Any]:
        """Return verdict, reason and figures of one output."""
        own = limits[self.precision]
        reasons = [f"{one.name}: {one.detail}" for one in properties if not one.holds]
        row: dict[str, Any] = {"difference": None, "limits": {key: one.document() for key, one in limits.items()}}
        row["properties"] = [_finding(one) for one in properties]
        verdict = CONSISTENT
        if expected is not None:
            apart = own.apart(found, expected, rows=rows)
            row["difference"] = _finite(apart.document())
            passed = next((key for key, one in limits.items() if one.allows(one.apart(found, expected, rows=rows))), "")
            verdict = RIGHT if passed == PRECISIONS[0] else f"{RIGHT} within {passed}"
            broken = apart.shape_differs or apart.nonfinite > 0  # which rounding within range does not do
            if not passed and (own.decides or (broken and np.isfinite(own.noise))):
                earlier = {label: arrays[name] for label, arrays in self._earlier.items() if name in arrays}
                how = diagnose(found, expected, own, rows=rows, earlier=earlier)
                reasons.insert(0, how or own.excess(apart))
        if reasons:
            return {**row, "verdict": WRONG, "reason": "; ".join(reasons)}
        if not own.decides:
            reason = f"rounding to {own.precision} alone changes this output by {own.noise:.2g}; give real inputs"
            return {**row, "verdict": UNDECIDED, "reason": reason}
        left = ", ".join(map(str, own.left_out))
        reason = f"not compared, as rounding alone turns them over: rows {left}" if left else ""
        return {**row, "verdict": verdict, "reason": reason}

    def _expected(self, inputs: Arrays) -> Arrays | None:
        reference = self._opened.reference
        if reference is None:
            return None
        try:
            return dict(self._of_reference(inputs))
        except WorkbenchError as error:
            msg = f"the reference {self._request.reference} does not run it: {error}"
            raise type(error)(msg) from error

    def _of_reference(self, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        """Run the reference, whose inputs may be of a wider type than the target's."""
        reference = self._opened.reference
        assert reference is not None
        return reference.run({spec.name: inputs[spec.name].astype(spec.dtype) for spec in reference.inputs})

    def _limits(
        self, session: Session, inputs: Arrays, expected: Arrays | None, rows: Mapping[str, bool], *, closely: bool
    ) -> dict[str, dict[str, Limit]]:
        """Return limits by precision, the tightest first, up to the one that was asked for."""
        if expected is None or self._yardstick is None:
            return {self.precision: sensitivity(session, inputs, self.precision, rows, self._request.seed)}
        # within a budget an fp16 engine is not asked whether it is as good as fp32
        wanted = {self.precision} if self._request.budget else {PRECISIONS[0], self.precision}
        return {
            name: self._yardstick.limits(name, inputs, expected, rows, closely=closely and name == self.precision)
            for name in sorted(wanted, key=PRECISIONS.index)
        }

    def _properties(self, trial: Trial, expected: Arrays | None) -> list[Finding]:
        """Return what holds of the target, but for what the model itself does not have."""
        session, reference = self._opened.session, self._opened.reference
        kept: list[Finding] = []
        for check in EVERY_CALL:
            try:
                findings = worst(check(session.run, trial))
            except UsageProblem:  # a shape that the check makes, such as a row alone, does not run
                if reference is None or expected is None or self._fails_by_design(check, trial, expected):
                    continue
                raise
            if reference is not None and expected is not None and any(not one.holds for one in findings):
                beside = _beside(trial, expected)
                by_design = {one.output for one in worst(check(self._of_reference, beside)) if not one.holds}
                findings = [one for one in findings if one.output not in by_design]
            kept += findings
        return kept

    def _fails_by_design(self, check: Check, trial: Trial, expected: Arrays) -> bool:
        try:
            worst(check(self._of_reference, _beside(trial, expected)))
        except UsageProblem:
            return True
        return False

    def _fail(self, case: Case, output: str, text: str, arrays: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
        self.failures.append(f"{case.label}, output {output}, {text}")
        if len(self.failures) > _MOST_FAILURES:
            return
        place = self._folder / "failures" / f"{len(self.failures):03d}"
        for name, several in arrays.items():
            (place / name).mkdir(parents=True)
            for key, array in several.items():
                np.save(place / name / f"{file_name(key)}.npy", array, allow_pickle=False)


def _beside(trial: Trial, expected: Arrays) -> Trial:
    """Return the trial of the reference: one that breaks a quarter of the limit lacks the property by design."""
    return dataclasses.replace(trial, outputs=expected, limits={k: one.tighter() for k, one in trial.limits.items()})


def _row_flags(session: Session, space: Space, case: Case, found: Mapping[str, NDArray[Any]]) -> dict[str, bool]:
    """Return by output whether its first dimension is the batch."""
    wanted = None if space.batch is not None else space.fixed_batch
    shapes = {spec.name: spec.shape for spec in session.outputs}
    return {
        name: case.batch is not None and array.shape[:1] == (case.batch,) and shapes[name][:1] == (wanted,)
        for name, array in found.items()
    }


def _arrays(inputs: Arrays, found: Arrays, expected: Arrays | None) -> dict[str, Arrays]:
    return {"inputs": inputs, "found": found, **({"expected": expected} if expected is not None else {})}


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "property": one.name,
        "output": one.output,
        "holds": one.holds,
        "detail": one.detail,
        "difference": _finite(one.difference.document()),
    }


def _finite(document: dict[str, Any]) -> dict[str, Any]:
    """Return the figures with None for what is not finite, which JSON does not have."""
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in document.items()}


def loosest(verdicts: Iterable[str]) -> str:
    """Return the verdict that holds for all: wrong above undecided above the loosest precision."""
    order = [RIGHT, *(f"{RIGHT} within {name}" for name in PRECISIONS), CONSISTENT, UNVERIFIED, UNDECIDED, WRONG]
    return max(verdicts, key=order.index, default=UNVERIFIED)


def _numpy_type(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype
