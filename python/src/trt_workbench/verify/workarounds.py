"""Fixing a wrong engine: workarounds are built, verified at all shapes and timed until one is correct."""

from __future__ import annotations

import glob
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from trt_workbench.backends.measure.inputs import random_inputs
from trt_workbench.backends.registry import REFERENCE, load_reference
from trt_workbench.core.documents import json_values
from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.kept import Note
from trt_workbench.core.verification import WRONG
from trt_workbench.engine import native
from trt_workbench.engine.builder import export
from trt_workbench.engine.loading import read_plan
from trt_workbench.engine.manifest import WorkaroundRecord
from trt_workbench.engine.written_models import write_model
from trt_workbench.model.attention_pattern import AttentionIndex
from trt_workbench.model.fences import fences
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.model.sanitize.attention import candidates
from trt_workbench.model.sanitize.check import Arrays, compare
from trt_workbench.model.weights import MOST_WEIGHTS, save_model, weight_bytes
from trt_workbench.verify.data import Data, at
from trt_workbench.verify.isolation import Isolated, document_of
from trt_workbench.verify.opening import Opened, VerifyRequest, of_model
from trt_workbench.verify.outcome import Verified, failed_shapes
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import MODEL_SUFFIX


def result_name(request: VerifyRequest) -> str:
    """Return what the result is called in a run directory."""
    return f"{request.target.stem}-fixed{'.plan' if request.runs_plans else MODEL_SUFFIX}"


def write_fixed(found: Fixed, request: VerifyRequest, output: Path) -> Path:
    """Write what the way that is taken made: of the backend `trt` the plan with its manifest, else the model.

    Args:
        found: with a way that is taken.
        request: that was wrong.
        output: the plan or model to write.

    Raises:
        OSError: it cannot be written.
    """
    taken = found.chosen
    assert taken is not None
    if taken.plan is None:
        write_model(Model.open(taken.request.target).load(), output)
        return output
    plan = read_plan(taken.plan)
    assert plan.manifest is not None
    assert taken.milliseconds is not None
    record = WorkaroundRecord(
        name=taken.name,
        model_sha256=sha256_of(request.model or request.target),
        verdict=taken.verdict,
        latency_ms=taken.milliseconds,
        plain_latency_ms=found.plain_milliseconds,
        rows=taken.request.options.get("rows"),
    )
    export(replace(plan, manifest=plan.manifest.model_copy(update={"way_around": record})), output)
    return output


_LEVELS = (0, 3, 5)
_TYPED = ("Add", "Div", "MatMul", "Mul", "Softmax")  # of which the parser makes a layer with the node's name


@dataclass(frozen=True)
class Workaround:
    """One thing to try.

    Attributes:
        name: for people and records.
        model: to build instead; None for the model itself.
        rewritten: whether that model computes the same in other nodes, which is checked before it is built.
        options: of the backend, in addition to the requested ones.
    """

    name: str
    model: onnx.ModelProto | None = None
    rewritten: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def ways(
    request: VerifyRequest, model: onnx.ModelProto, nodes: Sequence[str], rows: Sequence[int]
) -> Iterator[Workaround]:
    """Yield the workarounds that apply, the cheapest first; for backends other than `trt` only those in the model.

    The graph of a model with more than 2 GB of weights, whose shapes protobuf cannot hold, is unchanged.

    Args:
        request: that is wrong.
        model: of the request.
        nodes: names of nodes of the place where it is wrong; none where that is not known.
        rows: sizes of batches to split larger ones into.
    """
    is_large = weight_bytes(model) > MOST_WEIGHTS
    if not is_large:
        for name, rewritten in candidates(model):
            yield Workaround(name, rewritten, rewritten=True)
    if not request.runs_plans:
        return
    if not is_large:
        for name, fenced in fences(model, nodes):
            yield Workaround(name, fenced)
        yield from _layer_types(request, model, nodes)
    off = [f"-{name}" for name in sorted(native.require("option_names")()["tactic_sources"])]
    yield Workaround("tactic-sources-off", options={"tactic_sources": off})
    for level in _LEVELS:
        if request.options.get("optimization_level", 3) != level:  # 3 is TensorRT's own
            yield Workaround(f"optimization-level-{level}", options={"optimization_level": level})
    for size in rows:
        yield Workaround(f"rows-{size}", options={"rows": size})


def _layer_types(request: VerifyRequest, model: onnx.ModelProto, nodes: Sequence[str]) -> Iterator[Workaround]:
    """Yield the layers of the place, else of every attention, in fp32, where another precision is asked for."""
    if request.precision == "fp32":
        return
    attentions = [node for place in AttentionIndex(model).found for node in place.nodes]
    chosen = [node for node in model.graph.node if node.name in nodes] or attentions
    names = [node.name for node in chosen if node.name and node.op_type in _TYPED]
    if names:
        types = dict.fromkeys(map(glob.escape, names), "fp32")
        yield Workaround("layers-in-fp32", options={"precision_constraints": "obey", "layer_precisions": types})


FAILED = "failed"
SECONDS = 900.0
_LEAST_S = 120.0  # for one workaround, more where much is left
# Of a rewrite, against the model before: sums run in another order.
_RTOL, _ATOL = 1e-3, 1e-4


@dataclass(frozen=True)
class WorkaroundResult:
    """Result of a workaround.

    Attributes:
        name: of the workaround.
        verdict: of `verify`, or "failed" where nothing could be built or run.
        reason: why it is not correct; empty where it is.
        milliseconds: median of a call at the best shape; None where it is not correct.
        request: that builds and runs it: its target is the model to build, its options are those to build with.
        plan: the engine, of the backend `trt`.
    """

    name: str
    verdict: str
    reason: str
    milliseconds: float | None
    request: VerifyRequest
    plan: Path | None = None

    @property
    def is_right(self) -> bool:
        """Whether it can be taken."""
        return not self.reason


@dataclass(frozen=True)
class Fixed:
    """What was tried.

    Attributes:
        plain_milliseconds: median of a call of the wrong engine at the best shape; None where it does not run there.
        tried: in the order in which it was tried.
        left: workarounds that were not tried, because an earlier one is correct or time ran out.
        time_over: whether time ran out.
        chosen: the first that is correct; None where none is.
    """

    plain_milliseconds: float | None
    tried: tuple[WorkaroundResult, ...]
    left: tuple[str, ...]
    time_over: bool = False

    @property
    def chosen(self) -> WorkaroundResult | None:
        """The first that is correct."""
        return next((one for one in self.tried if one.is_right), None)

    def cost(self, one: WorkaroundResult) -> float | None:
        """Return how many times as long a call takes as one of the wrong engine."""
        known = one.milliseconds is not None and self.plain_milliseconds
        return one.milliseconds / self.plain_milliseconds if known else None  # type: ignore[operator]

    def document(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        rows = [
            {
                "way": one.name,
                "verdict": one.verdict,
                "reason": one.reason,
                "latency_ms": one.milliseconds,
                "relative_latency": self.cost(one),
                "model": str(one.request.target),
                "options": json_values(dict(one.request.options), str),
                "plan": str(one.plan) if one.plan else None,
            }
            for one in self.tried
        ]
        document = {"plain_latency_ms": self.plain_milliseconds, "chosen": self.chosen.name if self.chosen else None}
        return {**document, "tried": rows, "not_tried": list(self.left), "time_over": self.time_over}


def fixed(
    request: VerifyRequest,
    folder: Path,
    *,
    nodes: Sequence[str] = (),
    found: Verified | None = None,
    seconds: float = SECONDS,
    note: Note = lambda _: None,
    step: Note = lambda _: None,
) -> Fixed:
    """Try workarounds for a wrong engine until one is correct, each in a worker process: it may crash too.

    Args:
        request: that is wrong.
        folder: an existing one, for the models that are made: that of the way that is taken stays.
        nodes: names of nodes of the place where it is wrong, where that is known.
        found: what is wrong, where that is known: batches that are correct need not be split further.
        seconds: after which none is started, and a running one is stopped.
        note: called with what the user should know.
        step: called with the name of every workaround before it is tried.

    Raises:
        UsageProblem: the target cannot be read, or it is a plan without its model.
        ComponentMissing: a backend cannot serve here.
    """
    request = of_model(request)
    model = Model.open(request.target).load()
    end = time.monotonic() + seconds
    tried: list[WorkaroundResult] = []
    left: list[str] = []
    time_over = False
    with scratch_folder("trtw-fix-") as scratch, Isolated(Path(scratch) / "log") as worker:
        trial = _Trial(worker, end, note)
        step("timing the wrong engine")
        plain = trial.plain(request)
        for way in ways(request, model, nodes, _right_batches(found)):
            time_over = time_over or time.monotonic() >= end
            if left or time_over or (tried and tried[-1].is_right):
                left.append(way.name)
                continue
            step(f"{way.name}, {len(tried)} tried, {max(0.0, end - time.monotonic()):.0f} s left")
            tried.append(_tried(request, way, folder, trial, keep=all(not one.is_right for one in tried)))
    return Fixed(plain, tuple(tried), tuple(left), time_over)


def require_chosen(found: Fixed, target: Path) -> WorkaroundResult:
    """Return the chosen workaround.

    Raises:
        CheckFailed: none of them is correct.
    """
    if found.chosen is None:
        names = ", ".join(one.name for one in found.tried) or "none fits the model"
        raise CheckFailed(f"No workaround fixes it; tried: {names}. {target}")
    return found.chosen


class _Trial:
    """Asks a worker, as long as there is time."""

    def __init__(self, worker: Isolated, end: float, note: Note) -> None:
        self._worker, self._end, self._note = worker, end, note

    def plain(self, request: VerifyRequest) -> float | None:
        """Return the median of a call; None, with a note, where it cannot be timed."""
        try:
            return float(self._ask("time", request)["milliseconds"])
        except Exception as error:  # whatever a wrong engine does
            self._note(f"The wrong engine cannot be timed: {error}")
        return None

    def judged(self, name: str, request: VerifyRequest) -> WorkaroundResult:
        """Return the result of a workaround."""
        answer = self._ask("way", request)
        plan = Path(answer["plan"]) if answer["plan"] else None
        return WorkaroundResult(name, answer["verdict"], answer["reason"], answer["milliseconds"], request, plan)

    def _ask(self, verb: str, request: VerifyRequest) -> dict[str, Any]:
        left = max(0.0, self._end - time.monotonic())
        limit = min(left, max(_LEAST_S, left / 2))  # one that hangs leaves time for others
        answer = self._worker.ask({"verb": verb, "request": document_of(request)}, limit)
        for text in answer["notes"]:
            self._note(text)
        return answer


def _tried(request: VerifyRequest, way: Workaround, folder: Path, trial: _Trial, *, keep: bool) -> WorkaroundResult:
    target = request.target
    if way.model is not None:
        target = folder / f"{request.target.stem}-{way.name}{MODEL_SUFFIX}"
        save_model(way.model, target)
    options = {**request.options, **way.options}
    asked = replace(request, target=target, model=request.model or request.target, options=options)
    try:
        if way.rewritten:
            _check_same(request, target)
        tried = trial.judged(way.name, asked)
    except Exception as error:  # a crash, or whatever a runtime raises: the next one may work
        tried = WorkaroundResult(way.name, FAILED, str(error) or type(error).__name__, None, asked)
    if way.model is not None and not (keep and tried.is_right):
        target.unlink()
        target.with_name(f"{target.name}.data").unlink(missing_ok=True)
    return tried


def _check_same(request: VerifyRequest, rewritten: Path) -> None:
    """Compare a rewritten model with the one before, as `sanitize-onnx` does, in ONNX Runtime on the CPU.

    Raises:
        CheckFailed: they differ.
        UsageProblem: one of them does not run.
    """

    def run(path: Path, arrays: Arrays) -> Mapping[str, Any]:
        with load_reference(path) as session:
            return session.run(arrays)

    plain = replace(request, backend=REFERENCE, precision="fp32", options={}, reference="none", model=None)
    with Opened(plain, lambda _: None) as opened:
        inputs = best_inputs(plain, opened)
    compare(request.target, rewritten, run, [inputs], rtol=_RTOL, atol=_ATOL)


def _right_batches(found: Verified | None) -> list[int]:
    """Return the sizes of calls to split batches into: the largest up to which all are correct, and 1."""
    cases = found.document["cases"] if found else []
    wrong = [case["batch"] for case in cases if case["verdict"] == WRONG and case["batch"]]
    right = [case["batch"] for case in cases if case["batch"] and case["batch"] < min(wrong, default=1)]
    return sorted({1, max(right, default=1)}, reverse=True)


# Of a timed workaround, in calls and seconds.
_WARM_UP, _CALLS, _MOST_S = 5, 50, 2.0


def judged(request: VerifyRequest, note: Note = lambda _: None) -> dict[str, Any]:
    """Return `verdict`, `reason` (why it is not correct), `milliseconds` and `plan` of a `WorkaroundResult`.

    Raises:
        As `verify` and `milliseconds`.
    """
    result = _verified(replace(request, quick=True), note)
    if not request.quick and not _why_wrong(result):
        result = _verified(request, note)
    reason = _why_wrong(result)
    plan = result.document["provenance"].get("plan") if request.runs_plans else None
    took = None if reason else milliseconds(request, note)
    return {"verdict": str(result.document["verdict"]), "reason": reason, "milliseconds": took, "plan": plan}


def milliseconds(request: VerifyRequest, note: Note = lambda _: None) -> float:
    """Return the median of a call at the best shape, from host arrays to host arrays.

    Raises:
        UsageProblem: a file or option cannot be used, or the shape does not run.
        ComponentMissing: the backend cannot serve here.
        DeviceFailure: the device failed.
    """
    with Opened(replace(request, reference="none"), note) as opened:
        inputs = best_inputs(request, opened)
        times: list[float] = []
        end = time.perf_counter() + _MOST_S
        while len(times) < _WARM_UP + 1 or (len(times) < _CALLS and time.perf_counter() < end):
            start = time.perf_counter()
            opened.session.run(inputs)
            times.append(time.perf_counter() - start)
    return statistics.median(times[_WARM_UP:]) * 1e3


def best_inputs(request: VerifyRequest, opened: Opened) -> dict[str, NDArray[Any]]:
    """Return inputs at the best shape: drawn, or the first of the request's own."""
    specs, space = opened.inputs, opened.spaces[0]
    if not request.inputs:
        return random_inputs(specs, space.case({}).shapes, request.seed)
    fitting, samples = Data(request.inputs, specs, opened.graph, request.preparation, request.split).spaces(space)[0]
    return at(samples, fitting, fitting.case({}), 0)


def _verified(request: VerifyRequest, note: Note) -> Verified:
    with scratch_folder("trtw-fix-") as scratch:  # the arrays of failures are not needed
        return verify(request, Path(scratch), note)


def _why_wrong(result: Verified) -> str:
    if result.failures:
        return result.failures[0]
    return "; ".join(failed_shapes(result.document)) or ("" if result.document["verdict"] != WRONG else WRONG)
