"""Every model in both stacks: verified, scored, timed in turns, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from trt_workbench.bench import changes
from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.percent import share
from trt_workbench.core.verification import UNDECIDED, WRONG
from trt_workbench.model.opened import Model
from trt_workbench.quantize import coco_scores
from trt_workbench.upgrade.document import (
    FAILED,
    Checked,
    Outcome,
    Reduced,
    ScoredPair,
    Timed,
    Upgrade,
    Upgraded,
)
from trt_workbench.upgrade.settings import UpgradeSettings
from trt_workbench.upgrade.side import RunningSide, names_of, recorded_side
from trt_workbench.vision import CocoMetrics, task_in

BEFORE, AFTER = "before", "after"
Step = Callable[[str], None]


def upgrade(settings: UpgradeSettings, models: Sequence[Path], folder: Path, step: Step = lambda _: None) -> Upgrade:
    """Compare two stacks on models, or record one.

    Args:
        settings: what is asked for.
        models: ONNX files.
        folder: an existing one, that gets `before` and `after` with a folder for each model.
        step: called with what is done next.

    Raises:
        UsageProblem: a file or a stack does not exist, or a record is of other models or settings.
        ComponentMissing: a stack does not start.
    """
    named = names_of(models)
    if settings.record == (settings.after is not None):
        raise UsageProblem("Name the stack to compare with by --to, or keep the side of --from by --record.")
    kept = recorded_side(settings.before)
    if kept and settings.record:
        raise UsageProblem(f"--from is a record already: {settings.before}")
    step("starting the stacks")
    if kept:
        before = RunningSide.recorded(settings, kept, folder / BEFORE)
    else:
        before = RunningSide.start(settings, settings.before, folder / BEFORE)
    after = RunningSide.start(settings, settings.after, folder / AFTER) if settings.after else None
    if after and before.side.gpus != after.side.gpus:
        raise UsageProblem(
            f"The stacks run on different GPUs ({', '.join(before.side.gpus) or 'none'}; "
            f"{', '.join(after.side.gpus) or 'none'}); what differs could be due to either."
        )
    pair = _Pair(settings, before, after, step)
    found = tuple(pair.model(name, model) for name, model in named.items())
    return Upgrade(
        before=before.side,
        after=after.side if after else None,
        same=after is not None and before.side.versions == after.side.versions,
        passed=not any(one.outcome in FAILED for one in found),
        tolerance=settings.tolerance,
        max_loss=settings.max_loss,
        models=found,
    )


class _Pair:
    def __init__(self, settings: UpgradeSettings, before: RunningSide, after: RunningSide | None, step: Step) -> None:
        self._settings, self._before, self._after, self._step = settings, before, after, step

    def model(self, name: str, model: Path) -> Upgraded:
        """Return what became of one model."""
        sha256 = Model.open(model).sha256
        first = self._first(name, model, sha256)
        second, reduced = self._second(name, model) if self._after else (None, None)
        works = first.verdict is not None and (second is None or second.verdict not in (None, WRONG))
        timed = self._timed(name, model) if works and self._settings.repetitions else None
        scored = self._scored(name, model) if works and self._settings.data else None
        outcome, reasons = _outcome(self._settings, first, second, reduced, timed, scored)
        return Upgraded(
            name=name,
            model=str(model),
            model_sha256=sha256,
            outcome=outcome,
            reasons=tuple(reasons),
            before=first,
            after=second,
            reduced=reduced,
            timed=timed,
            scored=scored,
        )

    def _first(self, name: str, model: Path, sha256: str) -> Checked:
        if self._before.stack is None:
            record = self._before.record_of(name)
            if record is None:
                raise UsageProblem(f"The record of --from lacks the model; record it, too: {model}")
            kept = self._before.call_record(record).model_sha256
            if kept != sha256:
                raise UsageProblem(
                    f"The record of --from is of another model of this name ({kept[:12]}); record this one, too: "
                    f"{model}"
                )
            return self._before.checked(name)
        self._step(f"{name}: verifying in {self._before.side.stack}")
        return self._before.checked(name, self._before.verify(name, model))

    def _second(self, name: str, model: Path) -> tuple[Checked, Reduced | None]:
        after, record = self._after, self._before.record_of(name)
        assert after is not None
        assert after.stack is not None
        self._step(f"{name}: verifying in {after.side.stack}")
        if record is None:  # the old stack does not take the model
            return after.checked(name, after.verify(name, model)), None
        if self._before.stack is None or after.stack.kind == "command":  # its own ort-cpu reduces what is wrong
            ended = after.verify(name, model, record)
        else:  # what the old stack computes is the truth, in parts of the model too
            ended = after.verify(name, model, record, by=self._before.stack)
        return after.checked(name, ended), after.reduced(name)

    def _timed(self, name: str, model: Path) -> Timed:
        sizes = self._before.sizes(name, Model.open(model))
        sides = [side for side in (self._before, self._after) if side and side.stack]
        for turn in range(self._settings.repetitions):
            for side in sides if turn % 2 == 0 else sides[::-1]:
                self._step(f"{name}: timing in {side.side.stack}, {turn + 1} of {self._settings.repetitions}")
                ended = side.time(name, model, turn, sizes)
                if not ended.ran:
                    return Timed(outcome="not measured", reason=f"{side.side.stack}: {ended.error}")
        if self._after is None:
            return Timed(outcome="recorded")
        before, after = self._before.records(name), self._after.records(name)
        if not before:
            return Timed(outcome="not measured", reason="the record has no latencies")
        try:
            one = changes(before, after, self._settings.tolerance)[0]
        except WorkbenchError as error:
            return Timed(outcome="not measured", reason=str(error))
        made = one.comparison
        unstable = [f"{side}: {texts[0]}" for side, texts in one.unstable.items()]
        return Timed(
            before_ms=one.a_ms,
            after_ms=one.b_ms,
            ratio=made.ratio if made else None,
            ratio_low=made.ratio_low if made else None,
            ratio_high=made.ratio_high if made else None,
            outcome=one.outcome,
            reason="; ".join(unstable),
        )

    def _scored(self, name: str, model: Path) -> ScoredPair:
        for side in (self._before, self._after):
            if side is None or (side.stack is None and (side.score_folder(name) / "metrics.json").is_file()):
                continue
            if side.stack is None:
                return ScoredPair(reason="the record has no score")
            self._step(f"{name}: scoring in {side.side.stack}")
            ended = side.score(name, model)
            if not (side.score_folder(name) / "metrics.json").is_file():
                return ScoredPair(reason=f"{side.side.stack}: {ended.error}")
        folder = self._before.score_folder(name)
        figure = task_in(read_document(folder / "metrics.json", CocoMetrics)).decided_by
        first = coco_scores(folder, self._settings.seed)
        if self._after is None:
            return ScoredPair(name=figure, before=first.against(None))
        second = coco_scores(self._after.score_folder(name), self._settings.seed)
        return ScoredPair(name=figure, before=first.against(None), after=second.against(first))


def _outcome(
    settings: UpgradeSettings,
    first: Checked,
    second: Checked | None,
    reduced: Reduced | None,
    timed: Timed | None,
    scored: ScoredPair | None,
) -> tuple[Outcome, list[str]]:
    """Return the worst of what was found, and all of it in sentences."""
    if second is None:
        refused = first.verdict is None
        return ("refused" if refused else "recorded"), [f"Not taken: {first.reason}"] if refused else []
    if second.verdict is None:
        if first.verdict is None:
            return "refused by both", [f"Neither stack takes it: {first.reason}", f"The new one: {second.reason}"]
        return "refused", [f"Only the old stack takes it: {second.reason}"]
    found: list[tuple[Outcome, str]] = []
    if second.verdict == WRONG:
        also = " (the old stack is wrong, too)" if first.verdict == WRONG else ""
        found.append(("wrong", f"Wrong{also}: {second.reason}"))
        if reduced and reduced.nodes:
            parts = ", ".join(f"{kind} {name}" for kind, name in zip(reduced.operators, reduced.nodes, strict=True))
            found.append(("wrong", f"Smallest wrong part: {parts}; a case that shows it: {reduced.folder}"))
        elif reduced:
            found.append(("wrong", f"No smaller part shows it: {reduced.reason}"))
    elif second.verdict == UNDECIDED and second.relative_l2 != 0:  # equal to the last bit needs no proof
        also = " (nor in the old stack)" if first.verdict == UNDECIDED else ""
        found.append(("not proven", f"Not proven{also}: {second.reason}"))
    found += _of_score(settings, scored) + _of_time(settings, timed)
    if first.verdict is None:
        found.append(("safe", f"Only the new stack takes it; the old one: {first.reason}"))
    elif first.verdict == WRONG and second.verdict != WRONG:
        found.append(("safe", f"The new stack corrects it; the old one: {first.reason}"))
    worst: Outcome = next((outcome for outcome, _ in found if outcome in FAILED), "safe")
    return worst, [text for _, text in found]


def _of_score(settings: UpgradeSettings, scored: ScoredPair | None) -> list[tuple[Outcome, str]]:
    if scored is None:
        return []
    if scored.before is None or scored.after is None:
        return [("not proven", f"Not scored: {scored.reason}")]
    loss, ends = scored.after.loss, scored.after.loss_ci95
    within = f", 95 % interval {ends[0]:.4f} to {ends[1]:.4f}" if ends else ""
    text = f"{scored.name} {scored.before.value:.4f} before, {scored.after.value:.4f} after: loss {loss:.4f}{within}."
    if (ends[1] if ends else loss) <= settings.max_loss:
        return [("safe", text)]
    proven = (ends[0] if ends else loss) > 0
    return [("lower score" if proven else "not proven", text + ("" if proven else " More images may decide it."))]


def _of_time(settings: UpgradeSettings, timed: Timed | None) -> list[tuple[Outcome, str]]:
    if timed is None or timed.ratio is None:
        return [("safe", f"Not timed: {timed.reason}.")] if timed and timed.reason else []
    within = "" if timed.ratio_low is None else f", interval {timed.ratio_low:.3f} to {timed.ratio_high:.3f}"
    text = f"{timed.before_ms:.3f} ms before, {timed.after_ms:.3f} ms after: {timed.ratio:.3f} times{within}"
    tail = f"; {timed.reason}" if timed.reason else ""
    if timed.outcome == "regression":
        return [("slower", f"Slower by more than {share(settings.tolerance)}%: {text}{tail}.")]
    if timed.outcome == "wrong in B":
        return [("wrong", f"Its outputs were wrong while it was timed: {text}.")]
    words = {"improvement": "Faster", "cannot tell": "No difference in latency could be shown"}
    return [("safe", f"{words.get(timed.outcome, 'As fast')}: {text}{tail}.")]
