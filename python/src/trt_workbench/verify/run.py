"""Verifying a target: every case, every kind of inputs, properties and reference, and the verdict over all."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session
from trt_workbench.errors import DeviceFailure, UsageProblem
from trt_workbench.verify.diagnosis import diagnose
from trt_workbench.verify.draw import KINDS, Kind, draw
from trt_workbench.verify.opening import Opened, VerifyRequest
from trt_workbench.verify.properties import EVERY_CALL, Finding, Trial, agrees, calls_at_once, worst
from trt_workbench.verify.space import Case, Space, cases
from trt_workbench.verify.yardstick import PRECISIONS, Limit, Yardstick, precision_of, sensitivity

SCHEMA_VERSION = 1
Arrays = dict[str, NDArray[Any]]

RIGHT, WRONG, UNDECIDED, UNVERIFIED = "right", "wrong", "undecided", "unverified"
_MOST_BYTES = 4 << 30  # of one call's inputs
_OTHER_SEED = 1_000_003


@dataclass(frozen=True)
class Verified:
    """What was found.

    Attributes:
        document: JSON values for `verify.json`.
        failures: one sentence for each wrong output, the first ones first.
    """

    document: dict[str, Any]
    failures: tuple[str, ...]


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
    with tempfile.TemporaryDirectory(prefix="trtw-verify-") as scratch, Opened(request, note) as opened:
        graph = request.graph
        yardstick = Yardstick(graph, Path(scratch), request.seed) if graph and opened.reference else None
        try:
            run = _Run(request, opened, yardstick, folder, note)
            rows = [
                run.case(space, case, step)
                for space in opened.spaces
                for case in cases(space, request.seed, quick=request.quick)
            ]
            ways = [] if request.quick else list(run.ways())
        finally:
            if yardstick:
                yardstick.close()
        provenance = dict(opened.session.provenance)
    tried = [row for row in rows if row["verdict"] != UNVERIFIED]
    if not tried:
        msg = f"No shape could be run; the first answer was: {rows[0]['reason'] if rows else 'there are no shapes'}"
        raise UsageProblem(msg)
    verdict = WRONG if run.failures else _loosest(row["verdict"] for row in tried)
    document = {
        "schema_version": SCHEMA_VERSION,
        "target": str(request.target),
        "model": str(graph) if graph else None,
        "backend": request.backend,
        "precision": run.precision,
        "reference": request.reference if opened.reference else None,
        "seed": request.seed,
        "quick": request.quick,
        "verdict": verdict,
        "cases_tried": len(tried),
        "cases_unverified": len(rows) - len(tried),
        "cases": rows,
        "ways": ways,
        "failures": run.failures,
        "provenance": provenance,
    }
    return Verified(document, tuple(run.failures))


class _Run:
    """The cases of one request, in turn."""

    def __init__(
        self,
        request: VerifyRequest,
        opened: Opened,
        yardstick: Yardstick | None,
        folder: Path,
        note: Callable[[str], None],
    ) -> None:
        self._request, self._opened, self._yardstick = request, opened, yardstick
        self._folder, self._note = folder, note
        told = opened.session.provenance.get("precision", request.precision)
        self.precision = precision_of(str(told) if any(p in str(told) for p in PRECISIONS) else request.precision)
        self.failures: list[str] = []
        self._earlier: dict[str, Arrays] = {}
        self._last: Trial | None = None

    def case(self, space: Space, case: Case, step: Callable[[str], None]) -> dict[str, Any]:
        """Run one case and return its row."""
        step(case.label)
        row: dict[str, Any] = {"label": case.label, "shapes": {k: list(v) for k, v in case.shapes.items()}}
        row |= {"values": dict(case.values), "batch": case.batch, "profile": case.profile}
        size = sum(4 * int(np.prod(shape, dtype=np.int64)) for shape in case.shapes.values())
        if size > _MOST_BYTES:
            return {**row, "verdict": UNVERIFIED, "reason": f"its inputs take {size / 2**30:.0f} GiB", "outputs": []}
        outputs: list[dict[str, Any]] = []
        kinds: Sequence[Kind] = KINDS[:1] if self._request.quick else KINDS
        for kind in kinds:
            try:
                outputs += self._kind(space, case, kind)
            except (UsageProblem, DeviceFailure, MemoryError) as error:
                if kind == KINDS[0]:
                    return {**row, "verdict": UNVERIFIED, "reason": str(error) or type(error).__name__, "outputs": []}
                outputs.append({"inputs": kind, "verdict": UNVERIFIED, "reason": str(error)})
        judged = [one["verdict"] for one in outputs if one["verdict"] not in (UNVERIFIED, UNDECIDED)]
        return {**row, "verdict": WRONG if WRONG in judged else _loosest(judged), "reason": "", "outputs": outputs}

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

    def _kind(self, space: Space, case: Case, kind: Kind) -> Iterator[dict[str, Any]]:
        request, session = self._request, self._opened.session
        inputs: Arrays = draw(session.inputs, case.shapes, kind, request.seed)
        other: Arrays = draw(session.inputs, case.shapes, "random", request.seed + _OTHER_SEED)
        expected = self._expected(inputs)
        found = dict(session.run(inputs))
        rows = _row_flags(session, space, case, found)
        limits = self._limits(session, inputs, expected, rows)
        trial = Trial(space, case, inputs, found, rows, limits[self.precision], other)
        findings = self._properties(trial, expected) if kind == KINDS[0] else []
        if kind == KINDS[0]:
            self._last = trial
        for name, array in found.items():
            of_output = [one for one in findings if one.output == name]
            row: dict[str, Any] = {"inputs": kind, "output": name, "shape": list(array.shape)}
            row |= {"reason": "", "properties": [_finding(one) for one in of_output]}
            texts = [f"{one.name}: {one.detail}" for one in of_output if not one.holds]
            if expected is None:
                row["verdict"] = WRONG if texts else RIGHT
            else:
                apart = limits[self.precision][name].apart(array, expected[name], rows=rows[name])
                passed = next((p for p in limits if limits[p][name].allows(apart)), None)
                undecided = passed is not None and not limits[self.precision][name].decides
                row |= {"difference": _finite(apart.document()), "limits": {p: _limit(limits[p][name]) for p in limits}}
                if passed is None:
                    limit = limits[self.precision][name]
                    earlier = {label: before[name] for label, before in self._earlier.items() if name in before}
                    how = diagnose(array, expected[name], limit, rows=rows[name], earlier=earlier)
                    texts.insert(
                        0, how or f"differs by {apart.size:.3g}, {limit.precision} explains {limit.rel_l2:.3g}"
                    )
                row["verdict"] = WRONG if texts else RIGHT if passed == PRECISIONS[0] else f"{RIGHT} within {passed}"
                if undecided and not texts:
                    row["verdict"] = UNDECIDED
                    texts_of = limits[self.precision][name]
                    row["reason"] = f"rounding alone changes this output by {texts_of.noise:.2g}: give real inputs"
            if texts:
                row["reason"] = "; ".join(texts)
                self._fail(case, name, f"{kind} inputs: {row['reason']}", _arrays(inputs, found, expected))
            yield row
        self._earlier = {case.label: found}

    def _expected(self, inputs: Arrays) -> Arrays | None:
        reference = self._opened.reference
        if reference is None:
            return None
        taken = {spec.name: inputs[spec.name].astype(spec.dtype) for spec in reference.inputs}
        return dict(reference.run(taken))

    def _limits(
        self, session: Session, inputs: Arrays, expected: Arrays | None, rows: Mapping[str, bool]
    ) -> dict[str, dict[str, Limit]]:
        """Return limits by precision, the tightest first, up to the one that was asked for."""
        if expected is None or self._yardstick is None:
            return {self.precision: sensitivity(session, inputs, self.precision, rows, self._request.seed)}
        wanted = dict.fromkeys((PRECISIONS[0], self.precision))
        return {name: self._yardstick.limits(name, inputs, expected, rows) for name in wanted}

    def _properties(self, trial: Trial, expected: Arrays | None) -> list[Finding]:
        """Return what holds of the target, but for what the model itself does not have."""
        session, reference = self._opened.session, self._opened.reference
        kept: list[Finding] = []
        for check in EVERY_CALL:
            findings = worst(check(session.run, trial))
            if any(not one.holds for one in findings) and reference is not None and expected is not None:
                beside = dataclasses.replace(trial, outputs=expected)
                by_design = {one.output for one in worst(check(reference.run, beside)) if not one.holds}
                findings = [one for one in findings if one.output not in by_design]
            kept += findings
        return kept

    def _fail(self, case: Case, output: str, text: str, arrays: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
        place = self._folder / "failures" / f"{len(self.failures):03d}"
        self.failures.append(f"{case.label}, output {output}, {text}")
        place.mkdir(parents=True, exist_ok=True)
        for name, several in arrays.items():
            np.savez(place / f"{name}.npz", **{quote(key, safe=""): array for key, array in several.items()})  # type: ignore[arg-type]


def _row_flags(session: Session, space: Space, case: Case, found: Mapping[str, NDArray[Any]]) -> dict[str, bool]:
    """Return by output whether its first dimension is the batch."""
    shapes = {spec.name: spec.shape for spec in session.outputs}
    return {
        name: case.batch is not None
        and array.shape[:1] == (case.batch,)
        and shapes[name][:1] in ((None,), (case.batch,))
        and (space.batch is not None or space.fixed_batch is not None)
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


def _limit(limit: Limit) -> dict[str, Any]:
    return {"rel_l2": limit.rel_l2, "changed": limit.changed, "noise_rel_l2": limit.noise}


def _finite(document: dict[str, Any]) -> dict[str, Any]:
    """Return the figures with None for what is not finite, which JSON does not have."""
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in document.items()}


def _loosest(verdicts: Iterator[str] | Sequence[str]) -> str:
    order = {RIGHT: 0, **{f"{RIGHT} within {name}": place for place, name in enumerate(PRECISIONS, 1)}}
    return max(verdicts, key=lambda text: order.get(text, len(order)), default=UNVERIFIED)
