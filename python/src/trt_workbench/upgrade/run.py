"""Every model in both stacks: verified, scored, timed in turns, and the verdict."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trt_workbench.backends.registry import check_builds, gpu_in_use
from trt_workbench.bench import changes
from trt_workbench.core.builds import FILE as BUILDS
from trt_workbench.core.builds import BuildGroups, BuiltGroup, builds_of
from trt_workbench.core.documents import read_document, write_json
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.files import require_there
from trt_workbench.core.hashing import hash_file, hash_folder
from trt_workbench.core.percent import limit
from trt_workbench.core.stack import Stack
from trt_workbench.core.verification import UNDECIDED, WRONG
from trt_workbench.core.work import identity
from trt_workbench.model.opened import Model
from trt_workbench.quantize import ResampledScore, metric_of
from trt_workbench.upgrade.document import (
    FAILED,
    FILE,
    NOT_MEASURED,
    Checked,
    Outcome,
    Reduced,
    ScoredPair,
    Timed,
    Upgrade,
    Upgraded,
    reach,
)
from trt_workbench.upgrade.settings import UpgradeSettings
from trt_workbench.upgrade.side import SCORE, RunningSide, names_of, recorded_side

BEFORE, AFTER, _SCORED = "before", "after", "metrics.json"
Step = Callable[[str], None]


def upgrade(
    settings: UpgradeSettings,
    models: Sequence[Path],
    folder: Path,
    step: Step = lambda _: None,
    run_id: str = "",
    earlier: Callable[[Mapping[str, Any]], Sequence[Path]] = lambda _: (),
) -> None:
    """Compare two stacks on models, or record one; upgrade.json is written after every model.

    Args:
        settings: what is asked for.
        models: ONNX files.
        folder: an existing one, that gets `before` and `after` with a folder for each model.
        step: called with what is done next.
        run_id: of this run.
        earlier: returns the runs whose models are taken, newest first, given what identifies the results.

    Raises:
        UsageProblem: a file or a stack does not exist, or a record is of other models or settings.
        ComponentMissing: a stack does not start; once it has, a model's outcome says so.
    """
    named = names_of(models)
    if settings.record == (settings.after is not None):
        raise UsageProblem("Name the stack to compare with by --to, or keep the side of --from by --record.")
    check_builds(settings.builds, [settings.backend])
    for one in settings.data_files:
        require_there("data set", one)
    if settings.score and not settings.data:
        raise UsageProblem("--score needs --data.")
    if metric_of(settings.score, settings.better, settings.max_loss).elsewhere:
        raise UsageProblem(f"--score {settings.score} is not compared here; leave it out, or pass a function.")
    kept = recorded_side(settings.before)
    if kept and settings.record:
        raise UsageProblem(f"--from is a record already: {settings.before}")
    step("starting the stacks")
    if kept:
        before = RunningSide.recorded(settings, kept, folder / BEFORE, named)
    else:
        before = RunningSide.start(settings, settings.before, folder / BEFORE, settings.before_options, named)
    after = None
    if settings.after:
        after = RunningSide.start(settings, settings.after, folder / AFTER, settings.after_options, named)
    if after and before.side.gpus != after.side.gpus:
        raise UsageProblem(
            f"The stacks run on different GPUs ({', '.join(before.side.gpus) or 'none'}; "
            f"{', '.join(after.side.gpus) or 'none'}); what differs could be due to either."
        )
    try:
        _Pair(settings, before, after, named, step, run_id).run(folder, earlier)
    except UsageProblem as problem:
        if kept is None:
            raise
        # of the copy that this run takes along
        raise UsageProblem(str(problem).replace(str(folder / BEFORE), str(kept))) from problem


def what_decides(settings: UpgradeSettings, models: Mapping[str, Path], sides: Iterable[RunningSide]) -> dict[str, Any]:
    """Return what identifies the result of every model: files, settings, what the stacks are, and the machine."""
    record = recorded_side(settings.before)
    given = [*settings.data_files, *settings.input_files, *([record.with_name(FILE)] if record else [])]
    return identity(
        {
            "models": {name: Model.open(model).sha256 for name, model in models.items()},
            "files": {str(one): hash_folder(one) if one.is_dir() else hash_file(one) for one in given},
            "settings": asdict(settings),
            "score": metric_of(settings.score, settings.better).loaded(),
            "stacks": {side.folder.name: side.side for side in sides},
        },
        [gpu_in_use(settings.backend, settings.options)],
        timed=True,
    )


def take_finished(
    earlier: Sequence[Path], name: str, sides: Collection[RunningSide]
) -> tuple[Upgraded, list[BuiltGroup]] | None:
    """Return what became of a model and of its builds, with its files in this run; None if it is to be done.

    Args:
        earlier: runs that were asked for the same, newest first.
        name: of the model.
        sides: of this run.

    Raises:
        UsageProblem: a document of an earlier run is damaged.
    """
    for left in earlier:
        for one in read_document(left / FILE, Upgrade).models:
            if one.name == name and one.is_final:
                for side in sides:
                    if side.stack:  # the files of a record are there
                        shutil.copytree(left / side.folder.name / name, side.of(name, ""), symlinks=True)
                labels = [side.label(name) for side in sides]
                return one, [group for group in builds_of(left) if group.label in labels]
    return None


class _Pair:
    def __init__(
        self,
        settings: UpgradeSettings,
        before: RunningSide,
        after: RunningSide | None,
        named: Mapping[str, Path],
        step: Step,
        run_id: str,
    ) -> None:
        self._settings, self._before, self._after, self._named = settings, before, after, named
        self._step, self._run_id = step, run_id
        self._sides = [side for side in (before, after) if side]
        self._done: dict[str, Upgraded] = {}
        self._built: dict[str, list[BuiltGroup]] = {}

    def run(self, folder: Path, earlier: Callable[[Mapping[str, Any]], Sequence[Path]]) -> None:
        """Take over the models that earlier runs have finished, and do the others."""
        there = earlier(what_decides(self._settings, self._named, self._sides))
        for name in self._named:
            if found := take_finished(there, name, self._sides):
                self._done[name], self._built[name] = found
        if self._done:
            self._write(folder)
        for name, model in self._named.items():
            if name not in self._done:
                self._done[name] = self._whole(name, model)
                self._write(folder)

    def _write(self, folder: Path) -> None:
        done = tuple(self._done[name] for name in self._named if name in self._done)
        left = tuple(name for name in self._named if name not in self._done)
        after = self._after.side if self._after else None
        same = after is not None and all(
            getattr(self._before.side, name) == getattr(after, name) for name in ("versions", "options")
        )
        found = Upgrade(
            before=self._before.side,
            after=after,
            same=same,
            passed=reach(done, left, same=same).passed,
            tolerance=self._settings.tolerance,
            max_loss=self._settings.max_loss,
            models=done,
            left=left,
        )
        if groups := [group for name in self._named for group in self._built.get(name, ())]:
            write_json(folder / BUILDS, BuildGroups(groups=tuple(groups)))
        write_json(folder / FILE, found)

    def _whole(self, name: str, model: Path) -> Upgraded:
        """Return what became of one model; of one that is interrupted nothing stays."""
        try:
            return self._model(name, model)
        except BaseException:
            for side in self._sides:
                if side.stack:
                    shutil.rmtree(side.of(name, ""), ignore_errors=True)
            raise

    def _model(self, name: str, model: Path) -> Upgraded:
        first = self._first(name, model)
        second, reduced = self._second(name, model) if self._after else (None, None)
        works = first.verdict is not None and (second is None or second.verdict not in (None, WRONG))
        timed = self._timed(name, model) if works and self._settings.repetitions else None
        scored = self._scored(name, model) if works and self._settings.data else None
        every = []
        for side in self._sides:
            scores = {number: one.value for number, one in enumerate(self._scores(side, name), start=1)}
            every.append(side.builds(name, scores))
        self._built[name] = [one for one in every if one]
        outcome, reasons = _outcome(self._settings, first, second, reduced, timed, scored)
        return Upgraded(
            name=name,
            model=str(model),
            model_sha256=Model.open(model).sha256,
            outcome=outcome,
            reasons=tuple(reasons),
            before=first,
            after=second,
            reduced=reduced,
            timed=timed,
            scored=scored,
            run_id=self._run_id,
        )

    def _first(self, name: str, model: Path) -> Checked:
        if self._before.stack is None:
            return self._before.kept[name]
        self._step(f"{name}: verifying in {self._before.side.stack}")
        ended = self._before.verify(name, model, number=self._before.numbers[0])
        return self._worst(self._before, name, model, self._before.checked(name, ended))

    def _worst(self, side: RunningSide, name: str, model: Path, first: Checked, by: Stack | None = None) -> Checked:
        """Return what was found of the worst build: the first, and further ones against the same record."""
        found = [first]
        record = self._before.record_of(name)
        for number in side.numbers[1:] if first.verdict is not None else ():
            self._step(f"{name}: verifying build {number} in {side.side.stack}")
            one = side.checked(name, side.verify(name, model, record, by, number), number)
            found.append(one.model_copy(update={"reason": f"build {number}: {one.reason}" if one.reason else ""}))
        return worst(found)

    def _second(self, name: str, model: Path) -> tuple[Checked, Reduced | None]:
        after, record = self._after, self._before.record_of(name)
        assert after is not None
        assert after.stack is not None
        self._step(f"{name}: verifying in {after.side.stack}")
        # what the old stack computes is the truth, in parts of the model too; else the stack's own ort-cpu reduces it
        old = self._before.stack
        by = old if record is not None and old and after.stack.seen_from(old) else None
        first = after.checked(name, after.verify(name, model, record, by, after.numbers[0]))
        return self._worst(after, name, model, first, by), after.reduced(name) if record else None

    def _timed(self, name: str, model: Path) -> Timed:
        sizes = self._before.sizes(name, Model.open(model))
        sides = [side for side in self._sides if side.stack]
        turns = max(self._settings.repetitions, self._settings.builds or 0)  # each is of another build
        for turn in range(turns):
            for side in sides if turn % 2 == 0 else sides[::-1]:
                self._step(f"{name}: timing in {side.side.stack}, {turn + 1} of {turns}")
                ended = side.time(name, model, turn, sizes)
                if not ended.ran:
                    return Timed(outcome=NOT_MEASURED, reason=f"{side.side.stack}: {ended.error}")
        if self._after is None:
            return Timed(outcome="recorded")
        before, after = self._before.records(name), self._after.records(name)
        if not before:
            return Timed(
                outcome=NOT_MEASURED, reason="the record has no latencies; pass --repetitions 0, or record them"
            )
        try:
            one = changes(before, after, self._settings.tolerance)[0]
        except WorkbenchError as error:
            return Timed(outcome=NOT_MEASURED, reason=str(error))
        made = one.comparison
        return Timed(
            before_ms=one.a_ms,
            after_ms=one.b_ms,
            ratio=made.ratio if made else None,
            ratio_low=made.ratio_low if made else None,
            ratio_high=made.ratio_high if made else None,
            outcome=one.outcome,
            reason=_unstable(one.unstable) if made else next((one.error for one in after if one.error), one.outcome),
        )

    def _scored(self, name: str, model: Path) -> ScoredPair:
        for side in self._sides:
            for number in side.numbers:
                folder = side.of(name, SCORE, number)
                reason = "the record has no score"
                if side.stack:
                    self._step(f"{name}: scoring in {side.side.stack}{f', build {number}' if number else ''}")
                    reason = f"{side.side.stack}: {side.score(name, model, number).error}"
                if not (folder / _SCORED).is_file():
                    return ScoredPair(reason=reason)
        first = self._scores(self._before, name)
        found = ScoredPair(name=first[0].name, before=first[0].against(None), images=first[0].count)
        if self._after is None:
            return found
        pairs = [new.against(old) for new, old in zip(self._scores(self._after, name), first, strict=True)]
        return found.model_copy(update={"after": pairs[0].among(pairs[1:])})

    def _scores(self, side: RunningSide, name: str) -> list[ResampledScore]:
        """Return the score of every build; none where a model was not scored."""
        folders = [side.of(name, SCORE, number) for number in side.numbers]
        metric = metric_of(self._settings.score, self._settings.better)
        return [
            metric.read(folder / metric.files, self._settings.seed)
            for folder in folders
            if (folder / _SCORED).is_file()
        ]


def worst(found: Sequence[Checked]) -> Checked:
    """Return what decides of several builds: one that was refused, else that is wrong, else that is not proven."""
    order = [None, WRONG, UNDECIDED]
    return min(found, key=lambda one: order.index(one.verdict) if one.verdict in order else len(order))


def _unstable(reasons: Mapping[str, Sequence[str]]) -> str:
    """Say why the times of a side are not relied on; `compare` calls the sides A and B."""
    sides = {"A": BEFORE, "B": AFTER}
    return "; ".join(f"{sides[side]}: {texts[0]}" for side, texts in reasons.items())


def _outcome(
    settings: UpgradeSettings,
    first: Checked,
    second: Checked | None,
    reduced: Reduced | None,
    timed: Timed | None,
    scored: ScoredPair | None,
) -> tuple[Outcome, list[str]]:
    """Return the worst of what was found, and all of it in sentences."""
    if lost := next((one for one in (first, second) if one and not one.started), None):
        return "not run", [lost.reason]
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
    found += _of_score(settings, scored, equal=second.relative_l2 == 0) + _of_time(settings, timed)
    if first.verdict is None:
        found.append(("safe", f"Only the new stack takes it; the old one: {first.reason}"))
    elif first.verdict == WRONG and second.verdict != WRONG:
        found.append(("safe", f"The new stack corrects it; the old one: {first.reason}"))
    worst: Outcome = next((outcome for outcome, _ in found if outcome in FAILED), "safe")
    return worst, [text for _, text in found]


def _of_score(settings: UpgradeSettings, scored: ScoredPair | None, *, equal: bool) -> list[tuple[Outcome, str]]:
    if scored is None:
        return []
    if scored.before is None or scored.after is None:
        return [("not proven", f"Not scored: {scored.reason}")]
    if scored.before.as_good_as_guessing and not equal:
        told = f"{scored.name} {scored.before.words(scored.before.value)} before, {scored.before.as_good_as_guessing}."
        return [("not proven", told)]
    after, bound = scored.after, settings.max_loss
    ends = after.loss_ci95
    within = f", 95 % interval {after.words(ends[0])} to {after.words(ends[1])}" if ends else ""
    lost = f"loss {after.words(after.loss)}{within}"
    text = f"{scored.name} {after.words(scored.before.value)} before, {after.words(after.value)} after: {lost}."
    if after.keeps(bound, scored.images) or (equal and after.alike):  # equal to the last bit needs no proof
        return [("safe", text)]
    proven = (ends[0] if ends else after.loss) > 0
    return [("lower score" if proven else "not proven", text + ("" if proven else " More samples may decide it."))]


def _of_time(settings: UpgradeSettings, timed: Timed | None) -> list[tuple[Outcome, str]]:
    if timed is None or timed.outcome == "recorded":
        return []
    if timed.ratio is None:
        wrong = timed.outcome == "wrong in B"
        return [
            ("wrong" if wrong else "not proven", f"{'Wrong when it was' if wrong else 'Not'} timed: {timed.reason}.")
        ]
    within = "" if timed.ratio_low is None else f", interval {timed.ratio_low:.3f} to {timed.ratio_high:.3f}"
    text = f"{timed.before_ms:.3f} ms before, {timed.after_ms:.3f} ms after: {timed.ratio:.3f} times{within}"
    tail = f"; {timed.reason}" if timed.reason else ""
    if timed.outcome == "regression":
        return [("slower", f"Slower by more than {limit(settings.tolerance)}: {text}{tail}.")]
    if timed.outcome == "wrong in B":
        return [("wrong", f"Its outputs were wrong while it was timed: {text}.")]
    if timed.outcome == "cannot tell":
        return [("not proven", f"Whether it is slower could not be shown: {text}{tail}.")]
    return [("safe", f"{'Faster' if timed.outcome == 'improvement' else 'As fast'}: {text}{tail}.")]
