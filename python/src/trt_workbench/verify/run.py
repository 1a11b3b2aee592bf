"""Verifying a target: every case, every kind of inputs, properties and reference, and the verdict over all."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.backends.measure.inputs import Arrays
from trt_workbench.backends.registry import REFERENCE
from trt_workbench.backends.samples import file_name
from trt_workbench.core.array_files import save_array
from trt_workbench.core.compare import compare_rows
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import append_lines, json_values, read_lines
from trt_workbench.core.elements import is_finite
from trt_workbench.core.errors import (
    BackendFailure,
    DeviceFailure,
    DeviceLost,
    Unsupported,
    UsageProblem,
    WorkbenchError,
)
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.hashing import hash_arrays
from trt_workbench.core.precision import get
from trt_workbench.core.verification import UNDECIDED, UNVERIFIED, WRONG
from trt_workbench.core.work import taking, why_not
from trt_workbench.model.precision import rounding_of
from trt_workbench.verify.calls import Call, calls
from trt_workbench.verify.diagnosis import diagnose
from trt_workbench.verify.opening import Opened, VerifyRequest
from trt_workbench.verify.other_ways import OtherWay, ways
from trt_workbench.verify.outcome import Tried, TriedCase, TriedRow, Verified, judged
from trt_workbench.verify.properties import (
    EVERY_CALL,
    OF_A_SHAPE,
    Calls,
    CallTrial,
    Check,
    PropertyResult,
    without_rounding,
    worst,
)
from trt_workbench.verify.reference import LiveReference, RecordedCase, Reference
from trt_workbench.verify.space import Budget, Case, Space
from trt_workbench.verify.verdict import (
    CONSISTENT,
    FINEST,
    RIGHT,
    WrongOutput,
    of_case,
)
from trt_workbench.verify.yardstick import Limit, Yardstick, sensitivity

MOST_FAILURES = 16  # whose arrays are saved
_ADVICE = "; pass real inputs"
# How closely a call is looked at, until nothing about it is in doubt: one copy on a few rows come first.
_BRIEFLY, _PLAINLY, _CLOSELY = range(3)
_FEW = 2
_BEYOND = "makes this output NaN or infinite, or changes its shape"


# Shapes that are tried with one sequence of noise: of a run, and of shards, whose blocks begin at a multiple of it.
BLOCK = 4
RECORDS: Final = "records.jsonl"
_RAN: Final = ("tensorrt", "plan_sha256", "onnxruntime", "torch")


def going_on(request: VerifyRequest, earlier: Sequence[Path]) -> VerifyRequest:
    """Return a request with the drawn sizes of the unfinished run that it goes on with, the first of several.

    Raises:
        UsageProblem: its records are damaged.
    """
    with taking(earlier):
        return next((replace(request, sizes_seed=line.ran["sizes_seed"]) for line in _cases_of(earlier)), request)


def _cases_of(earlier: Sequence[Path]) -> list[TriedCase]:
    """Return the cases that an unfinished run, the first of several, has of whole blocks."""
    lines = read_lines(earlier[0] / RECORDS, TriedCase, growing=True) if earlier else []
    return lines[: len(lines) // BLOCK * BLOCK]


def verify(
    request: VerifyRequest,
    folder: Path,
    note: Callable[[str], None] = lambda _: None,
    step: Callable[[str], None] = lambda _: None,
    earlier: Sequence[Path] = (),
) -> Verified:
    """Try a target at its shapes and write the inputs of failures to `folder`/failures.

    Until it returns, `folder`/records.jsonl holds the cases so far, unless there is a time limit or a record is kept.

    Args:
        request: what is requested.
        folder: an existing folder.
        note: called with what the user should know.
        step: called with the label of every case before it runs.
        earlier: folders of unfinished runs of the same request, newest first, whose cases are taken over.

    Raises:
        UsageProblem: a file or option cannot be used, the model is nondeterministic, or no case could be run.
        ComponentMissing: a backend cannot serve here.
        DeviceFailure: the device failed at every shape.
    """
    request = going_on(request, earlier)
    if request.seconds is not None:
        request = replace(request, budget=Budget(request.seconds))
    with Opened(request, note) as opened:
        todo = list(calls(request, opened))
        if request.seconds is not None:  # what several rows show, one alone cannot
            todo.sort(key=lambda call: (call.case.batch or 1) == 1)
        tried = try_cases(request, opened, todo, folder, note, step, earlier)
    (folder / RECORDS).unlink(missing_ok=True)
    return judged(tried)


def try_cases(
    request: VerifyRequest,
    opened: Opened,
    todo: Sequence[Call],
    folder: Path,
    note: Callable[[str], None],
    step: Callable[[str], None],
    earlier: Sequence[Path],
    block: range | None = None,
) -> Tried:
    """Try an opened target at cases, or at a block of them, without those that an earlier run has.

    The cases are written to `folder`/records.jsonl, a block at a time, and the inputs of failures to `folder`/failures.
    """
    graph, budget = opened.graph, request.budget
    compared = opened.reference or opened.record
    with scratch_folder("trtw-verify-") as scratch:
        yardstick = Yardstick(graph, Path(scratch), request.seed) if graph and compared else None
        try:
            run = _Run(request, opened, yardstick, folder)
            own = range(len(todo)) if block is None else block
            brief = _brief(todo) if request.quick and not (request.inputs or opened.record) else ()
            taken = run.take(earlier, todo[own.start :], note)
            skipped, first = 0, own.start + len(taken)
            sizes, began = [call.case.size for call in todo], time.monotonic()
            run.lead_in(todo[:first] if own else (), brief)
            for place in range(first, own.stop):
                call = todo[place]
                if run.crashed or (budget and (run.failures or not budget.begin(call.case))):
                    skipped += 1
                    continue
                pace = (time.monotonic() - began) / max(1, sum(sizes[first:place]))
                rest = f", about {pace * sum(sizes[place : own.stop]):.0f} s left" if place > first else ""
                step(f"{call.case.label} ({place + 1 - own.start} of {counted(len(own), 'shape')}{rest})")
                run.case(call, place, brief=place in brief)
                if budget:
                    budget.end()
            run.write()
            step("other ways to run it")
            most, best = max(((line.decided, own.start + number) for number, line in enumerate(taken)), default=(-1, 0))
            if most > run.decided and not run.crashed:
                again = _Run(request, opened, yardstick, Path(scratch))
                for place in range(best - best % BLOCK, best + 1):
                    again.case(todo[place], place, brief=place in brief)
                run.last = again.last
            ways = [] if run.crashed else run.ways()
            run.finish()
        finally:
            if yardstick:
                yardstick.close()
        provenance = run.record if run.crashed else opened.session.record()
    drawn = not (request.inputs or opened.record)
    facts = {
        "target": str(request.target),
        "model": str(graph) if graph else None,
        "backend": request.backend,
        "precision": run.precision,
        "reference": compared.name if compared else None,
        "reference_provenance": compared.provenance() if compared else None,
        "compared_with_itself": run.is_itself,
        "inputs": list(request.inputs) or None,
        "preparation": {**vars(request.preparation), "split": request.split} if request.inputs else None,
        "seed": request.seed,
        "sizes_seed": request.sizes_seed if drawn and not request.quick else None,
        "quick": request.quick,
        "brief": [todo[place].case.label for place in brief if not todo[place].left_out],
        "provenance": provenance,
    }
    return Tried(facts, drawn, run.cases, ways, skipped, tuple(run.faults))


def _brief(todo: Sequence[Call]) -> list[int]:
    """Return the places of calls that come after one of the same profile with as few or as many rows.

    Of these only the shape is new: they get one set of inputs, and no repetition for its own sake.
    """
    seen, found = set[tuple[int | None, bool]](), list[int]()
    for place, call in enumerate(todo):
        key = call.case.profile, (call.case.batch or 1) > 1
        if key in seen:
            found.append(place)
        elif not call.left_out:
            seen.add(key)
    return found


def failure_folder(folder: Path, number: int) -> Path:
    """Return where the arrays of a failure are, of a run's first ones; the first is 1."""
    return folder / "failures" / f"{number:03d}"


class _Run:
    """The cases of one request, in turn."""

    def __init__(self, request: VerifyRequest, opened: Opened, yardstick: Yardstick | None, folder: Path) -> None:
        self._session = opened.session
        self._request, self._opened, self._yardstick, self._folder = request, opened, yardstick, folder
        self.record, self.is_itself = opened.session.record(), opened.is_itself
        self._rounding = rounding_of(self.record, request.precision)
        self.precision = self._rounding.split("+")[0]
        # scales that the reference's graph does not have: calibration found them, and clips what random inputs reach
        self._clips = bool(
            yardstick
            and get(self.precision).is_quantised
            and not (request.inputs or opened.record)
            and not yardstick.rounds_itself
        )
        self.crashed = False  # then nothing more runs on the device in this process
        self.cases: list[TriedCase] = []
        self.failures: list[str] = []
        self.faults: list[WrongOutput] = []
        # of the call before: outputs, and what the reference gave
        self._earlier: dict[str, tuple[Arrays, Arrays | None]] = {}
        # the call that the other ways are compared with, and what works out its limits
        self.last: tuple[CallTrial, Callable[[], dict[str, dict[str, Limit]]]] | None = None
        self._recorder = opened.recorder(folder) if request.record else None
        self._ran = {"sizes_seed": request.sizes_seed, **{key: self.record.get(key) for key in _RAN}}
        self._written = 0
        # within a budget an fp16 engine is not asked whether it is as good as fp32
        self._wanted = {**({} if request.budget else {FINEST: FINEST}), self.precision: self._rounding}
        if yardstick and request.budget:
            yardstick.prepare(self._rounding)  # not in the first case, which measures the pace

    @property
    def decided(self) -> int:
        """How many outputs of the call that the other ways are compared with a limit decides; -1 without one."""
        return _decided(self.last[0]) if self.last else -1

    def take(self, earlier: Sequence[Path], todo: Sequence[Call], note: Callable[[str], None]) -> Sequence[TriedCase]:
        """Take over and return the cases of an unfinished run, unless its target was another engine or runtime."""
        lines = _cases_of(earlier)
        if lines and (why := why_not(lines[0].ran, self._ran)):
            note(f"The run in this folder is not continued: {why}.")
            return ()
        with taking(earlier):
            for line, call in zip(lines, todo[: len(lines)], strict=True):
                for number in line.numbers:
                    shutil.copytree(failure_folder(earlier[0], number), failure_folder(self._folder, number))
                self.failures += line.failures
                self.faults += [WrongOutput(call.case, call.space, *fault) for fault in line.faults]
        self.cases += lines
        return lines

    def write(self) -> None:
        """Append the cases that are new to records.jsonl. Raises OSError."""
        if not (self._request.budget or self._request.record):
            append_lines(self._folder / RECORDS, self.cases[self._written :])
            self._written = len(self.cases)

    def lead_in(self, before: Sequence[Call], brief: Collection[int]) -> None:
        """Make the last call of those before a block, so that its first one follows what it follows in one process."""
        for place, call in reversed(list(enumerate(before))):
            if self._earlier:
                return
            with contextlib.suppress(WorkbenchError, MemoryError):
                self._session = self._opened.of_profile(call.case.profile)
                for label, make in list(call.inputs.items())[: 1 if place in brief else None]:
                    inputs = make()
                    expected = self._expected(call.reference, label, inputs)
                    self._remember(call.case, label, dict(self._session.run(inputs)), expected)

    def case(self, call: Call, place: int, *, brief: bool = False) -> None:
        """Run one case, or only what its shape adds; a device failure at one shape does not end the others."""
        if self._yardstick and place % BLOCK == 0 and not self._request.budget:
            self._yardstick.restart()
        faults = len(self.faults)
        tried = self._tried(partial(self._row, call, brief=brief))
        self.cases.append(
            TriedCase(
                **vars(tried),
                faults=tuple((one.output, one.number) for one in self.faults[faults:]),
                decided=self.decided if self.last and self.last[0].case is call.case else -1,
                ran=self._ran,
            )
        )
        if len(self.cases) % BLOCK == 0:
            self.write()

    def _tried(self, run: Callable[[], dict[str, Any]]) -> TriedRow:
        before = len(self.failures)
        row = run()
        numbers = range(before + 1, min(len(self.failures), MOST_FAILURES) + 1)
        return TriedRow(row, self.failures[before:], [*numbers])

    def _row(self, call: Call, *, brief: bool) -> dict[str, Any]:
        case = call.case
        row: dict[str, Any] = {"label": case.label, "shapes": {k: list(v) for k, v in case.shapes.items()}}
        row |= {"values": dict(case.values), "batch": case.batch, "profile": case.profile}
        row |= {"device_failed": False, "refused": False, "outside": call.outside, "reason": call.left_out}
        row["outputs"] = []
        if call.left_out:
            return {**row, "verdict": UNVERIFIED}
        label = next(iter(call.inputs))
        try:
            self._session = self._opened.of_profile(case.profile)
            seen: set[str] = set()
            for label, make in call.inputs.items():
                if row["outputs"] and self._request.budget and self._request.budget.is_spent:
                    break
                if brief and row["outputs"] and of_case(row["outputs"]) != UNDECIDED:
                    break
                inputs = make()
                row["whole_numbers"] = _with_drawn(row.get("whole_numbers", {}), inputs, call.takes)
                digest = hash_arrays(inputs)
                if digest not in seen:  # zeros and large floats leave token ids as they are
                    seen.add(digest)
                    row["outputs"] += self._one(call, label, inputs, digest, brief=brief)
        except _Refused as error:
            if call.narrower and of_case(row["outputs"]) != WRONG:
                return self._row(call.narrower, brief=brief)
            row |= {"reason": str(error), "refused": True}
        except (UsageProblem, DeviceFailure, MemoryError) as error:
            if isinstance(error, DeviceLost):
                row["outputs"].append(self._crash(call, label, str(error)))
                return {**row, "verdict": WRONG}
            row |= {"reason": str(error) or "out of memory", "device_failed": not isinstance(error, UsageProblem)}
        verdict = of_case(row["outputs"])
        return {**row, "verdict": UNVERIFIED if row["reason"] and verdict != WRONG else verdict}

    def ways(self) -> list[TriedRow]:
        """Run one call in other ways."""
        if self.last is None:
            return []
        trial, limits = self.last
        if self._session.shares_batches or not self._request.quick:
            if self._yardstick and not self._request.budget:
                self._yardstick.restart()
            trial = replace(trial, limits=limits()[self.precision])
        found = ways(self._opened, trial, self._request.device, quick=self._request.quick)
        return [self._tried(partial(self._way, way)) for way in found]

    def finish(self) -> None:
        """Complete the record, where one is kept."""
        if self._recorder:
            self._recorder.finish()

    def _way(self, way: OtherWay) -> dict[str, Any]:
        for one in way.findings:
            if not one.holds:
                self._fail(way.trial.case, one.output, f"{way.name}: {one.detail}", {"inputs": way.trial.inputs})
        findings = [_finding(one) for one in way.findings]
        row = {"way": way.name, "case": way.trial.case.label, "findings": findings, "reason": way.reason}
        return {**row, "unproven": way.unproven, "device_failed": way.device_failed}

    def _crash(self, call: Call, label: str, said: str) -> dict[str, Any]:
        """Return the row of a call that ended the device's context: nothing else runs in this process."""
        self.crashed = True
        row = self._without_outputs(call.case, label, f"it crashed: {said}", inputs=call.inputs[label]())
        self.faults.append(WrongOutput(call.case, call.space, "all", self._kept()))
        return row

    def _without_outputs(self, case: Case, label: str, reason: str, **arrays: Arrays) -> dict[str, Any]:
        """Return the row of a call that is wrong as it returns nothing."""
        self._fail(case, "all", f"{label} inputs: {reason}", arrays)
        row = {"inputs": label, "inputs_sha256": hash_arrays(arrays["inputs"]), "output": "all", "properties": []}
        return {**row, "verdict": WRONG, "reason": reason}

    def _one(self, call: Call, label: str, inputs: Arrays, digest: str, *, brief: bool) -> Iterator[dict[str, Any]]:
        """Run one set of inputs and yield a row for every output."""
        space, case, reference, session = call.space, call.case, call.reference, self._session
        first = label == next(iter(call.inputs))
        expected = self._expected(reference, label, inputs, only_ask=call.narrower is not None)
        try:
            found = dict(session.run(inputs))
        except UsageProblem as error:
            if expected is None or isinstance(error, Unsupported):
                raise
            reason = f"it fails, but the model itself runs: {error}"
            yield self._without_outputs(case, label, reason, inputs=inputs, expected=expected)
            return
        if isinstance(reference, RecordedCase):
            reference.require_like(label, found)
        if self._recorder and expected is not None:
            self._recorder.add(case, label, inputs, expected)
        rows = _row_flags(session, space, case, found)
        judged: dict[str, dict[str, Any]] = {}
        undisturbed = self._undisturbed(reference, inputs, expected)
        made: dict[Check, Calls] = {}
        for closeness in (_BRIEFLY, _PLAINLY, _CLOSELY):
            briefly, closely = closeness == _BRIEFLY, closeness == _CLOSELY
            if briefly:
                limits = self._brief_limits(call, label, inputs, rows, found, expected, undisturbed)
            else:
                limits = self._limits(session, inputs, undisturbed, rows, closely=closely)
            if not limits:
                continue
            findings: list[PropertyResult] = []
            if first:
                trial = CallTrial(
                    space,
                    case,
                    inputs,
                    found,
                    rows,
                    limits[self.precision],
                    [*call.inputs.values()][:2][-1](),  # other values than the first ones, where there are any
                    brief=brief,
                )
                findings = self._properties(trial, reference, made, briefly=briefly, closely=closely)
                if self._recorder and reference and not closely:
                    self._recorder.add_properties(reference, trial)
                if _decided(trial) >= self.decided:
                    self.last = trial, partial(self._limits, session, inputs, undisturbed, rows, closely=False)
            for name, array in found.items():
                of_output = [one for one in findings if one.output == name]
                of_precision = {precision: limits[precision][name] for precision in limits}
                want = expected[name] if expected is not None else None
                judged[name] = self._judged(name, array, inputs, want, of_precision, of_output, rows=rows[name])
            doubted = (WRONG, UNDECIDED) if briefly else (WRONG,)
            if self._yardstick is None or all(row["verdict"] not in doubted for row in judged.values()):
                break
        wrong = [name for name, row in judged.items() if row["verdict"] == WRONG]
        tf32 = self._tf32_limits(inputs, undisturbed, rows) if wrong else {}

        def excess(limits: Mapping[str, Limit], name: str) -> str:
            assert expected is not None  # where there are such limits
            return limits[name].excess(limits[name].apart(found[name], expected[name], rows=rows[name]))

        for name, row in judged.items():
            overflows = not is_finite(found[name]).all() or not np.isfinite(limits[self.precision][name].noise)
            if row["verdict"] in (WRONG, UNDECIDED) and overflows:
                why, advice, _ = str(row["reason"]).partition(_ADVICE)
                from trt_workbench.backends.overflow import explained_of

                row["reason"] = f"{why}{explained_of(session, [inputs])}{advice}"
            if name in wrong:
                if tf32 and row["reason"] == excess(limits[self.precision], name) and not excess(tf32, name):
                    row["reason"] = f"TF32 explains it: {row['reason']}"
                self._fail(
                    case,
                    name,
                    f"{label} inputs: {row['reason']}",
                    {"inputs": inputs, "found": found, **({} if expected is None else {"expected": expected})},
                )
                self.faults.append(WrongOutput(case, space, name, self._kept()))
            shape = list(found[name].shape)
            yield {**row, "inputs": label, "inputs_sha256": digest, "output": name, "shape": shape}
        self._remember(case, label, found, expected)

    def _remember(self, case: Case, label: str, found: Arrays, expected: Arrays | None) -> None:
        """Keep a call for the diagnosis of the next one, which may return its results."""
        self._earlier = {f"{label} inputs at {case.label}": (found, expected)}
        if expected is not None:
            self._earlier[f"{label} inputs at {case.label}, as the reference computes it"] = (expected, expected)

    def _judged(
        self,
        name: str,
        found: NDArray[Any],
        inputs: Arrays,
        expected: NDArray[Any] | None,
        limits: Mapping[str, Limit],
        properties: list[PropertyResult],
        *,
        rows: bool,
    ) -> dict[str, Any]:
        """Return verdict, reason and figures of one output."""
        own = limits[self.precision]
        reasons = [f"{one.name}: {one.detail}" for one in properties if not one.holds]
        row: dict[str, Any] = {"difference": None, "limits": {key: one.document() for key, one in limits.items()}}
        row["properties"] = [_finding(one) for one in properties]
        verdict, doubt = CONSISTENT, ""
        if expected is not None:
            apart = own.apart(found, expected, rows=rows)
            row["difference"] = json_values(apart)
            passed = next((key for key, one in limits.items() if one.allows(one.apart(found, expected, rows=rows))), "")
            if self._yardstick and not self.is_itself:
                verdict = RIGHT if passed == FINEST else f"{RIGHT} within {passed}"
            broken = apart.shape_differs or apart.nonfinite > 0  # which rounding within range does not do
            if not passed and own.is_overflow(apart):
                doubt = f"values beyond the range of {own.precision} become NaN inside the model"
            elif not passed and (own.decides or (broken and np.isfinite(own.noise))):
                earlier = {
                    label: (before[name], wanted[name] if wanted else None)
                    for label, (before, wanted) in self._earlier.items()
                    if name in before
                }
                how = diagnose(found, expected, own, rows=rows, earlier=earlier) or own.excess(apart)
                if broken or not self._clips:
                    reasons.insert(0, how + (self._opened.rounded_sizes(inputs) if apart.shape_differs else ""))
                else:
                    doubt = f"{how}, and its ranges are of other data than random inputs"
        if reasons:
            return {**row, "verdict": WRONG, "reason": "; ".join(reasons)}
        if not (doubt or own.decides):
            change = f"changes this output by {own.noise:.2g}" if np.isfinite(own.noise) else _BEYOND
            doubt = f"rounding to {own.precision} alone {change}"
        if doubt:
            return {**row, "verdict": UNDECIDED, "reason": doubt + _ADVICE}
        return {
            **row,
            "verdict": verdict,
            "reason": f"row{'s' * (len(own.left_out) > 1)} {', '.join(map(str, own.left_out))} not compared: rounding "
            "alone can exceed the limit"
            if own.left_out
            else "",
        }

    def _expected(
        self, reference: Reference | None, label: str, inputs: Arrays, *, only_ask: bool = False
    ) -> Arrays | None:
        if reference is None:
            return None
        try:
            return reference.expected(label, inputs)
        except UsageProblem as error:
            if only_ask:
                raise _Refused(str(error)) from error
            try:
                self._session.run(inputs)
            except (UsageProblem, BackendFailure):
                raise _Refused(str(error)) from error
            raise UsageProblem(f"{error}; the target does, so its outputs were not verified") from error

    def _undisturbed(self, reference: Reference | None, inputs: Arrays, expected: Arrays | None) -> Arrays | None:
        """Return what the noisy copies differ from by rounding alone: the model on the very runtime that runs them.

        By how much another runtime, or a recorded version of it, differs from this one is no rounding.
        """
        if expected is None or self._yardstick is None:
            return None
        return expected if reference and reference.name == REFERENCE else self._yardstick.exact(inputs)

    def _limits(
        self, session: Session, inputs: Arrays, clean: Arrays | None, rows: Mapping[str, bool], *, closely: bool
    ) -> dict[str, dict[str, Limit]]:
        """Return limits by precision, the tightest first, up to the one that was requested."""
        if clean is None or self._yardstick is None:
            return {self.precision: sensitivity(session, inputs, self.precision, rows, self._request.seed)}
        return {
            name: self._yardstick.limits(asked, inputs, clean, rows, closely=closely and name == self.precision)
            for name, asked in self._wanted.items()
        }

    def _brief_limits(
        self,
        call: Call,
        label: str,
        inputs: Arrays,
        rows: Mapping[str, bool],
        found: Arrays,
        expected: Arrays | None,
        undisturbed: Arrays | None,
    ) -> dict[str, dict[str, Limit]]:
        """Return limits of one copy and the rows that differ most: what is within them is within those of all rows.

        None where that says nothing: without a model, for a record, or where the model does not take so few rows.
        """
        space, case, reference, yardstick = call.space, call.case, call.reference, self._yardstick
        if yardstick is None or reference is None or expected is None or undisturbed is None or self._recorder:
            return {}
        few, chosen = inputs, list[int]()
        if space.batch and case.batch and case.batch > _FEW >= space.ranges[space.batch].low and all(rows.values()):
            alike = [name for name in found if found[name].shape == expected[name].shape]
            sizes = [compare_rows(found[name], expected[name]).size for name in alike]
            chosen = np.argsort(-np.max(sizes, axis=0, initial=0.0), kind="stable")[:_FEW].tolist() if sizes else [0, 1]
            few = {name: array[chosen] if space.is_batched(name) else array for name, array in inputs.items()}
        try:
            exact = (
                partial(reference.expected, label)
                if isinstance(reference, LiveReference) and reference.name == REFERENCE
                else yardstick.exact
            )
            clean = dict(exact(few)) if chosen else undisturbed
            limits = {name: yardstick.limits(asked, few, clean, rows, copies=1) for name, asked in self._wanted.items()}
        except UsageProblem:
            return {}
        if not chosen:
            return limits
        # rows of the limits are places among the chosen ones
        return {
            precision: {
                name: replace(one, left_out=tuple(chosen[place] for place in one.left_out))
                for name, one in several.items()
            }
            for precision, several in limits.items()
        }

    def _tf32_limits(self, inputs: Arrays, clean: Arrays | None, rows: Mapping[str, bool]) -> dict[str, Limit]:
        """Return the limits of TF32, in which GPUs may multiply fp32; none where that cannot be."""
        if self.precision != FINEST or clean is None or self._yardstick is None or not self._opened.on_gpu:
            return {}
        return self._yardstick.limits("tf32", inputs, clean, rows)

    def _properties(
        self,
        trial: CallTrial,
        reference: Reference | None,
        made: dict[Check, Calls],
        *,
        briefly: bool,
        closely: bool,
    ) -> list[PropertyResult]:
        """Return the target's properties, without those that the model itself lacks; exact up to rounding.

        `made` keeps the calls of the brief look, which the next one judges once more; the model is not asked for them.
        """
        kept: list[PropertyResult] = []
        for check in OF_A_SHAPE if trial.brief else EVERY_CALL:
            try:
                calls = Calls(self._session.run, made.pop(check).answers if check in made else ())
                if briefly:
                    made[check] = calls
                findings = worst(check(calls, trial))
            except (UsageProblem, BackendFailure):  # a shape that the check makes, such as a single row, does not run
                if reference is None or reference.fails(check, trial):
                    continue
                raise
            if reference is not None and not briefly and any(not one.holds for one in findings):
                by_design = reference.lacks(check, trial)
                findings = [one for one in findings if one.output not in by_design]
            if closely and self._yardstick:
                findings = without_rounding(check, calls, trial, findings, self._yardstick, self._rounding)
            kept += findings
        return kept

    def _kept(self) -> int:
        """Return the number of the folder with the arrays of the latest failure; 0 without one."""
        return len(self.failures) if len(self.failures) <= MOST_FAILURES else 0

    def _fail(self, case: Case, output: str, text: str, arrays: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
        self.failures.append(f"{case.label}, output {output}, {text}")
        if len(self.failures) > MOST_FAILURES:
            return
        place = failure_folder(self._folder, len(self.failures))
        for name, several in arrays.items():
            (place / name).mkdir(parents=True)
            for key, array in several.items():
                save_array(place / name / f"{file_name(key)}.npy", array)


class _Refused(UsageProblem):
    """Neither the target nor its reference takes these inputs."""


def _with_drawn(
    before: Mapping[str, Mapping[str, Any]], inputs: Arrays, takes: Mapping[str, tuple[int, int]]
) -> dict[str, dict[str, Any]]:
    """Return by input of whole numbers which were drawn so far, least and greatest, and which it takes."""
    found: dict[str, dict[str, Any]] = {}
    for name, array in inputs.items():
        if array.dtype.kind in "iu" and array.size:
            ends = [int(array.min()), int(array.max()), *before.get(name, {"drawn": []})["drawn"]]
            found[name] = {"drawn": [min(ends), max(ends)], "takes": takes.get(name)}
    return found


def _decided(trial: CallTrial) -> int:
    return sum(one.decides for one in trial.limits.values())


def _row_flags(session: Session, space: Space, case: Case, found: Mapping[str, NDArray[Any]]) -> dict[str, bool]:
    """Return by output whether its first dimension is the batch."""
    wanted = None if space.batch is not None else space.fixed_batch
    shapes = {spec.name: spec.shape for spec in session.outputs}
    return {
        name: case.batch is not None and array.shape[:1] == (case.batch,) and shapes[name][:1] == (wanted,)
        for name, array in found.items()
    }


def _finding(one: PropertyResult) -> dict[str, Any]:
    row = {"property": one.name, "output": one.output, "holds": one.holds, "detail": one.detail}
    return {**row, "difference": json_values(one.difference)}
