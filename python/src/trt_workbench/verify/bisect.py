"""The first wrong part of a wrong engine: its fewest nodes that are wrong by themselves, found by delta debugging.

Marking inner tensors as outputs hides some faults, as it breaks the fusion in which they lie (TensorRT 8.6 does so; see
docs/reference/verify.md). So parts are cut out of the model instead and fed with true values: the shortest beginning
that is wrong, in halves; of it what lies a few steps before its last node, as a fault of a fusion is local; without
chunks of what is left, as in A. Zeller and R. Hildebrandt, Simplifying and Isolating Failure-Inducing Input (IEEE TSE
28(2), 2002). A build takes a second or more, so what counts is the number of parts that are tried.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.inputs import Arrays, random_inputs
from trt_workbench.backends.samples import file_name
from trt_workbench.core.array_files import load_arrays
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench.core.files import scratch_folder
from trt_workbench.model.opened import Model
from trt_workbench.verify.cut import CutSource, Form, read_source
from trt_workbench.verify.isolation import Isolated
from trt_workbench.verify.opening import NO_REFERENCE, VerifyRequest, of_model
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.trials import Outcome, OutOfTime, Trials, Verdict
from trt_workbench.verify.verdict import WrongOutput

FOLDER, STATE = "bisect", "state.jsonl"
_MOST_FAULTS = 3  # tried again if the first ones do not occur in a new session


@dataclass(frozen=True)
class Bisected:
    """The smallest wrong part that was found.

    Attributes:
        nodes: names of the model's own nodes in it, in the order of the file; a node without a name is called
            `Operator_N` after its place there. Empty where the fault did not recur.
        operators: of these nodes.
        first_wrong: the first tensor that is wrong: of the whole model where its inner tensors can be marked as
            outputs, else of the part; "" where the fault did not recur.
        case: label of the shapes.
        output: of the whole model that was found wrong.
        crash: how the part crashes; empty where it is wrong. The whole model crashed then; only the crash was sought.
        form: "folded", "fixed" or "dynamic": whether shapes are constants, fixed, or still dynamic in it.
        marking_hides: whether the fault vanishes where all inner tensors are outputs; None where that is not known.
        trials: parts that were requested.
        repeated: of these, parts that were known from an earlier call.
        seconds: that the search took.
        complete: no single node can be left out; False where time ran out first.
        reason: why there are no nodes.
        outcome: the part as it ran last; None where there are no nodes.
    """

    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    first_wrong: str = ""
    case: str = ""
    output: str = ""
    crash: str = ""
    form: str = ""
    marking_hides: bool | None = None
    trials: int = 0
    repeated: int = 0
    seconds: float = 0.0
    complete: bool = True
    reason: str = ""
    outcome: Outcome | None = field(default=None, repr=False, compare=False)


def check_bisectable(request: VerifyRequest) -> None:
    """Raise UsageProblem where a request names nothing that can be taken apart."""
    of_model(request)
    if request.reference == NO_REFERENCE:
        raise UsageProblem("--bisect needs a reference to compare with; remove --reference none.")


def carry_state(earlier: Path, folder: Path) -> None:
    """Copy the verdicts of an earlier run directory, if it has any, into one that replaces it."""
    state = earlier / FOLDER / STATE
    if state.is_file():
        (folder / FOLDER).mkdir(exist_ok=True)
        shutil.copyfile(state, folder / FOLDER / STATE)


def bisect(
    request: VerifyRequest,
    verified: Verified,
    folder: Path,
    seconds: float = 600.0,
    step: Callable[[str], None] = lambda _: None,
) -> Bisected:
    """Find the first wrong part of a model that `verify` found wrong.

    Args:
        request: as `verify` had it; that of a plan is taken apart as its model.
        verified: what it found.
        folder: where its `failures` lie; `bisect/state.jsonl` in it is read, and every verdict is added.
        seconds: after which no trial begins; the smallest part so far is returned then.
        step: called before every trial with what is known so far.

    Returns:
        What was found; without nodes, and with a reason, where no wrong part was.

    Raises:
        UsageProblem: the target is a plan without its model, there is no reference, or ort-cpu does not run the model.
        OSError: a file cannot be written.
    """
    check_bisectable(request)
    request = of_model(request)
    faults = sorted((one for one in verified.faults if one.number), key=lambda one: one.case.size)[:_MOST_FAULTS]
    if not faults:
        return Bisected(reason="no single call gave a wrong output, so the fault is not in the graph")
    state = folder / FOLDER / STATE
    state.parent.mkdir(exist_ok=True)
    for fault in faults:
        with scratch_folder("trtw-bisect-") as scratch, Isolated(Path(scratch) / "log", request.stack) as worker:
            found = _Search(request, verified, fault, folder, worker, Path(scratch), state, seconds, step).bisected()
        seconds = max(0.0, seconds - found.seconds)
        if found.nodes or not found.complete:
            break
    return found


class _Search:
    """The search for one fault."""

    def __init__(
        self,
        request: VerifyRequest,
        verified: Verified,
        fault: WrongOutput,
        folder: Path,
        worker: Isolated,
        scratch: Path,
        state: Path,
        seconds: float,
        step: Callable[[str], None],
    ) -> None:
        self._request, self._fault = request, fault
        step("bisecting: computing every tensor on ort-cpu")
        model = Model.open(request.target)
        inputs = _read(folder / "failures" / f"{fault.number:03d}" / "inputs", model)
        self._source: CutSource = read_source(model, inputs)
        self._trials = Trials(
            request,
            self._source,
            inputs,
            precision=verified.document["precision"],
            batch=fault.case.batch,
            worker=worker,
            scratch=scratch,
            state=state,
            seconds=seconds,
            step=step,
        )
        self._specs = [TensorSpec(one.name, one.dtype, (), one.below) for one in model.facts.inputs]
        self._form, self._wrong = Form.FOLDED, Verdict("right")
        self._best: frozenset[int] = frozenset()
        self._hides: bool | None = None
        self._first_wrong = ""

    def bisected(self) -> Bisected:
        complete = True
        try:
            if self._reproduced():
                self._narrow()
        except OutOfTime:
            complete = False
        return self._result(complete=complete)

    def _reproduced(self) -> bool:
        """Find the simplest form in which the whole model is wrong, or crashes: then the search is for the crash."""
        source = self._source
        for form in self._forms():
            verdict = self._trials.verdict(source.candidates, form)
            if verdict.state in ("wrong", "crashed"):
                self._trials.settle(verdict)
                self._form, self._wrong = form, verdict
                self._keep(source.candidates)
                return True
        return False

    def _forms(self) -> Iterator[Form]:
        yield Form.FOLDED
        if self._source.folded:
            yield Form.FIXED
        if self._fault.space.ranges:
            self._source.with_ranges(*(self._at(size) for size in ("low", "best", "high")))
            yield Form.DYNAMIC

    def _at(self, size: str) -> Arrays:
        """Return inputs of the shapes at one end of the ranges, or of the best-tuned ones."""
        space = self._fault.space
        case = space.case({name: getattr(around, size) for name, around in space.ranges.items()})
        return random_inputs(self._specs, case.shapes, self._request.seed)

    def _narrow(self) -> None:
        self._try(self._source.ancestors(self._wrong.wrong))  # a crash has none
        if not self._by_marking():
            # leave out nodes at the end, then those far from the last one, or those at the beginning
            order = sorted(self._best)
            self._halve(0, len(order), lambda count: order[:count])
            if not self._near():
                order = sorted(self._best)
                self._halve(0, len(order), lambda count: order[len(order) - count :])
            self._separate()
            self._thin()
            self._separate()
        for form in list(Form)[: list(Form).index(self._form)]:
            if self._trials.shows(self._best, form):
                self._form = form
                return

    def _by_marking(self) -> bool:
        """Find the first wrong tensor of the model with all inner tensors as outputs; return whether that was all."""
        if self._trials.sought == "crashed":
            return False
        verdict = self._trials.verdict(self._best, self._form, self._source.inner(self._best))
        if verdict.state in ("fails", "crashed"):
            return False
        self._hides = not set(self._wrong.wrong) & set(verdict.wrong)
        if not verdict.wrong:
            return False
        self._first_wrong = verdict.wrong[0]
        maker = next(place for place in self._best if self._first_wrong in self._source.made_by(place))
        return self._try(frozenset({maker}))

    def _near(self) -> bool:
        """Keep the nodes within the fewest steps before the last one that are still wrong; return whether any are."""
        nodes, last = self._best, max(self._best)
        steps, before = 1, 0
        while not self._try(near := self._source.near(last, steps, nodes)):
            if near == self._source.near(last, 2 * steps, nodes):
                return False  # that is all there is before it
            steps, before = 2 * steps, steps
        self._halve(before, steps, lambda count: self._source.near(last, count, nodes))
        return True

    def _halve(self, right: int, wrong: int, taken: Callable[[int], Iterable[int]]) -> None:
        """Find the smallest wrong count between a correct and a wrong one."""
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._try(frozenset(taken(middle))):
                wrong = middle
            else:
                right = middle

    def _separate(self) -> None:
        """Keep one of the parts that are not connected, if it is wrong by itself."""
        parts = self._source.parts(self._best)
        if len(parts) > 1:
            any(self._try(part) for part in parts)

    def _thin(self) -> None:
        """Leave out chunks of nodes, in decreasing sizes, until none can be left out."""
        size = max(1, len(self._best) // 2)
        while True:
            order, start, changed = sorted(self._best), 0, False
            while start < len(order):
                if len(order) > 1 and self._try(self._best - frozenset(order[start : start + size])):
                    order, changed = sorted(self._best), True
                else:
                    start += size
            if size == 1 and not changed:
                return
            size = max(1, min(size, len(order)) // 2)

    def _try(self, nodes: frozenset[int]) -> bool:
        """Keep some nodes if they are fewer and wrong by themselves, and return whether they are."""
        if not nodes or len(nodes) >= len(self._best) or not self._trials.shows(nodes, self._form):
            return False
        self._keep(nodes)
        return True

    def _keep(self, nodes: frozenset[int]) -> None:
        self._best = nodes
        self._trials.left = len(nodes)

    def _result(self, *, complete: bool) -> Bisected:
        source, fault, trials = self._source, self._fault, self._trials
        outcome, reason = self._last_run(complete=complete)
        order = sorted(self._best) if outcome else []
        first = self._first_wrong or next(iter(outcome.verdict.wrong if outcome else ()), "")
        return Bisected(
            nodes=tuple(source.names[place] for place in order),
            operators=tuple(source.nodes[place].op_type for place in order),
            first_wrong=first,
            case=fault.case.label,
            output=fault.output,
            crash=outcome.verdict.reason if outcome and outcome.verdict.state == "crashed" else "",
            form=self._form.value,
            marking_hides=self._hides,
            trials=trials.count,
            repeated=trials.repeated,
            seconds=round(trials.elapsed, 1),
            complete=complete,
            reason=reason,
            outcome=outcome,
        )

    def _last_run(self, *, complete: bool) -> tuple[Outcome | None, str]:
        """Run the smallest part again, for its arrays."""
        if not self._best and not complete:
            return None, "the time limit was reached before the fault was reproduced"
        if not self._best:
            return None, "the model is correct when it is loaded again and called once: the fault is not in its graph"
        cut = self._source.cut(self._best, self._form)
        assert cut is not None
        try:
            outcome = self._trials.outcome(cut, last=True)
        except DeviceFailure as error:
            return None, f"the smallest part did not run again: {error}"
        except OutOfTime:
            return None, "the time limit was reached before the smallest part ran again"
        if isinstance(outcome, Verdict) or outcome.verdict.state != self._trials.sought:
            return None, "the smallest part did not show the fault when it ran again: it is intermittent"
        return outcome, ""


def _read(folder: Path, model: Model) -> Arrays:
    """Return the arrays of a failure's inputs."""
    names = [tensor.name for tensor in model.facts.inputs]
    files = {name: folder / f"{file_name(name)}.npy" for name in names}
    return {name: load_arrays(file)[""] for name, file in files.items() if file.is_file()}
