"""Trying parts of a model on the suspect backend: each part once, every verdict kept in a file to resume from."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from trt_workbench.backends.registry import gpu_in_use, require_backend
from trt_workbench.core.array_files import load_arrays, save_arrays
from trt_workbench.core.compare import Difference
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import append_lines, json_values
from trt_workbench.core.elements import Kind, kind
from trt_workbench.core.errors import BackendFailure, DeviceFailure
from trt_workbench.core.files import write_text
from trt_workbench.core.hashing import hash_arrays, hash_document
from trt_workbench.core.work import identity
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.model.weights import save_model
from trt_workbench.verify.cut import Cut, CutSource, Form
from trt_workbench.verify.isolation import Crashed, Isolated, document_of
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.settings import MODEL_SUFFIX
from trt_workbench.verify.yardstick import Arrays, Limit, Yardstick

State = Literal["wrong", "right", "fails", "crashed"]
# Part of the key of a trial: bump when verdicts may change.
_VERSION = 2
# How far beyond its limit a part must be. A part has fewer operations than the model, each with roundings of its own,
# so that a little beyond is no fault; the fault itself stands out more where less of the model is around it.
_CLEAR = 4.0
# A trial may take this long, and longer where those before did.
_LEAST_S, _PACE = 120.0, 4.0


class OutOfTime(Exception):
    """Out of time."""


@dataclass(frozen=True)
class Verdict:
    """Result of a part.

    Attributes:
        state: "fails" where the backend does not take or run it, "crashed" where it ended its process or the device's
            context, or did not end in time.
        wrong: its wrong outputs, in the order in which they are computed.
        share: how many times beyond its limit the worst output is.
        reason: why it fails, or how it crashed.
        seconds: that the trial took.
    """

    state: State
    wrong: tuple[str, ...] = ()
    share: Annotated[float, BeforeValidator(lambda one: math.inf if one is None else one)] = 0.0
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """A part that was run, with its arrays in the types of the backend.

    Attributes:
        cut: the part.
        verdict: about it.
        inputs: what it was given.
        expected: true values of its outputs.
        found: its outputs.
        differences: by output.
        limits: by output.
        provenance: what executed it.
    """

    cut: Cut
    verdict: Verdict
    inputs: Arrays
    expected: Arrays
    found: Arrays
    differences: Mapping[str, Difference]
    limits: Mapping[str, Limit]
    provenance: Mapping[str, Any]


class Trials:
    """Trials of one fault. Verdicts of earlier calls are read from a file and not tried again."""

    def __init__(
        self,
        request: VerifyRequest,
        source: CutSource,
        inputs: Arrays,
        *,
        precision: str,
        batch: int | None,
        worker: Isolated,
        scratch: Path,
        state: Path,
        seconds: float,
        step: Callable[[str], None],
    ) -> None:
        """Load the verdicts in `state` about the same fault.

        Args:
            request: with the suspect backend, its precision and options.
            source: the model.
            inputs: of the model, which are part of a verdict's key.
            precision: whose error is allowed.
            batch: first dimension of tensors whose rows are judged one by one.
            worker: that runs the parts.
            scratch: an existing folder.
            state: JSON lines, one a verdict; it need not exist.
            seconds: after which no trial begins.
            step: called before every trial with what is known so far.
        """
        self._request, self._source, self._precision, self._batch = request, source, precision, batch
        self._worker, self._scratch, self._state, self._step = worker, scratch, state, step
        self._began, self._seconds = time.monotonic(), seconds
        self._context = _context(request, precision, inputs)
        self._known = _kept(state)
        self._tried: set[str] = set()
        self._longest: float | None = None
        self.sought: State = "wrong"
        self.margin = 1.0
        self.repeated = 0
        self.left = len(source.nodes)

    @property
    def count(self) -> int:
        """Return the number of trials that this search has asked for, those of an earlier call included."""
        return len(self._tried)

    @property
    def elapsed(self) -> float:
        """Return the seconds since the search began."""
        return time.monotonic() - self._began

    def verdict(self, nodes: Collection[int], form: Form, marked: Collection[str] = ()) -> Verdict:
        """Return the verdict about some nodes of the model, tried now unless it is known.

        Raises:
            OutOfTime: it would have to be tried, and time ran out.
        """
        key = self._key(nodes, form, marked)
        if key in self._known:
            self.repeated += key not in self._tried
            self._tried.add(key)
            return self._known[key]
        if self.elapsed > self._seconds:
            raise OutOfTime
        self._step(
            f"bisecting: {counted(self.left, 'node')} left, {counted(self.count, 'trial')}, {self.elapsed:.0f} s"
        )
        began = time.monotonic()
        cut = self._source.cut(nodes, form, marked)
        lasting = True
        try:
            outcome = self.outcome(cut) if cut else Verdict("fails", reason="a value at its border is not known")
        except DeviceFailure as error:  # perhaps transient: not kept for a later call
            outcome, lasting = Verdict("fails", reason=str(error)), False
        found = outcome.verdict if isinstance(outcome, Outcome) else outcome
        found = replace(found, seconds=round(time.monotonic() - began, 3))
        self._known[key] = found
        self._tried.add(key)
        if lasting:
            append_lines(self._state, [json_values(_Line(**vars(found), key=key, nodes=len(nodes)))])
        return found

    def shows(self, nodes: Collection[int], form: Form) -> bool:
        """Whether nodes of the model show the fault by themselves: wrong, or crashing where the fault is a crash."""
        return bool(nodes) and self.verdict(nodes, form).state == self.sought

    def outcome(self, cut: Cut, *, last: bool = False) -> Outcome | Verdict:
        """Run a part and judge it; only a verdict where it does not run. What crashed has no outputs.

        Args:
            cut: the part.
            last: run it although time ran out.

        Raises:
            DeviceFailure: the device is out of memory, or had another transient failure.
            OutOfTime: time ran out before it ended.
        """
        folder = self._scratch / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = folder / f"part{MODEL_SUFFIX}"
        save_model(cut.model, path)
        try:
            given, found, provenance = self._run(path, folder, cut, last=last)
            limits = self._limits(path, folder, cut)
        except Crashed as error:
            verdict = Verdict("crashed", reason=str(error))
            return Outcome(cut, verdict, cut.inputs, cut.expected, {}, {}, {}, {})
        except (DeviceFailure, OutOfTime) as error:
            if not isinstance(error, BackendFailure):
                raise
            return Verdict("fails", reason=str(error))
        except Exception as error:  # runtimes fail in many ways on graphs that no exporter would write
            return Verdict("fails", reason=str(error) or type(error).__name__)
        wrong, differences, worst = [], {}, 0.0
        for name, expected in cut.expected.items():
            own = limits[name]
            differences[name] = own.apart(found[name], expected, rows=self._rows(expected))
            share = times_beyond(own, differences[name])
            worst = max(worst, share)
            if share > self.margin:
                wrong.append(name)
        verdict = Verdict("wrong" if wrong else "right", tuple(wrong), worst)
        of_type = {name: _of_type(cut.expected[name], array) for name, array in found.items()}
        return Outcome(cut, verdict, given, of_type, found, differences, limits, provenance)

    def settle(self, whole: Verdict) -> None:
        """Determine from the whole model which fault to find, and how far beyond their limits wrong parts must be."""
        self.sought = whole.state
        self.margin = min(_CLEAR, max(1.0, whole.share / 2))

    def _run(self, path: Path, folder: Path, cut: Cut, *, last: bool) -> tuple[Arrays, Arrays, Mapping[str, Any]]:
        """Let the worker run a part, and return its inputs, outputs, and what executed it."""
        save_arrays(folder / "inputs.npz", cut.inputs)
        request = {"verb": "trial", "request": document_of(self._request), "folder": folder, "part": path}
        request["profile"] = str(cut.profile) if cut.profile else ""
        began = time.monotonic()
        left = max(0.0, self._seconds - (began - self._began))
        most = self._most(left)
        try:
            answer = self._worker.ask(request, most if last else min(left, most))
        except Crashed as error:
            if error.timed_out and left < most:
                raise OutOfTime from error
            raise
        self._longest = max(self._longest or 0.0, time.monotonic() - began)
        return load_arrays(folder / "given.npz"), load_arrays(folder / "found.npz"), answer["provenance"]

    def _most(self, left: float) -> float:
        """Return how many seconds a trial may take: one that hangs leaves time for others."""
        return max(_LEAST_S, left / 2 if self._longest is None else _PACE * self._longest)

    def _limits(self, path: Path, folder: Path, cut: Cut) -> dict[str, Limit]:
        yardstick = Yardstick(Model.open(path), folder, self._request.seed)
        try:
            rows = {name: self._rows(array) for name, array in cut.expected.items()}
            return yardstick.limits(self._precision, dict(cut.inputs), dict(cut.expected), rows)
        finally:
            yardstick.close()

    def _rows(self, array: NDArray[Any]) -> bool:
        return self._batch is not None and array.ndim > 1 and array.shape[0] == self._batch

    def _key(self, nodes: Collection[int], form: Form, marked: Collection[str]) -> str:
        text = json.dumps([self._context, form.value, sorted(nodes), sorted(marked), self.margin])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def times_beyond(limit: Limit, apart: Difference) -> float:
    """Return the largest share of a limit that a difference takes: above 1 it is beyond it."""
    if apart.shape_differs or (apart.nonfinite and math.isfinite(limit.noise)):
        return math.inf
    return limit.share(apart) if limit.decides else 0.0


def _context(request: VerifyRequest, precision: str, inputs: Arrays) -> str:
    """Return what verdicts hold for: model, inputs, backend, and what it is asked for, on which machine."""
    backend = require_backend(request.backend, request.target.suffix)
    job = {
        "version": _VERSION,
        "model_sha256": sha256_of(request.target),
        "inputs_sha256": hash_arrays(dict(inputs)),
        "asked": [backend.name, request.precision, precision, request.seed],
        "versions": sorted(request.versions.items()),
        "options": sorted((name, str(value)) for name, value in request.options.items()),
    }
    return hash_document(identity(job, [gpu_in_use(backend.name, {"device": request.device, **request.options})]))


@dataclass(frozen=True)
class _Line(Verdict):
    """A line of the state: a verdict, and its key. `share` is None there where it is infinite."""

    key: str = field(kw_only=True)
    nodes: int = field(kw_only=True)


def _kept(path: Path) -> dict[str, Verdict]:
    """Return the verdicts in a file by key; a line that was cut short or changed is left out."""
    found: dict[str, Verdict] = {}
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if text and not text.endswith("\n"):
        write_text(path, f"{text}\n")  # the next verdict begins a line of its own
    for one in text.splitlines():
        with contextlib.suppress(ValidationError):
            line = TypeAdapter(_Line).validate_json(one, strict=True)
            found[line.key] = line
    return found


def _of_type(expected: NDArray[Any], found: NDArray[Any]) -> NDArray[Any]:
    """Return the reference in the type of what was found; a complex one stays what it is, with both parts."""
    return expected if kind(expected) is Kind.COMPLEX else expected.astype(found.dtype)
