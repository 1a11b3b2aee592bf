"""The fewest groups to leave alone so that the score stays within a bound: ranked by noise, found by bisection.

It begins at what `quantize` makes without a search, and leaves less in the format only where that loses more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trt_workbench.backends.registry import REFERENCE, gpu_in_use
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.kept import Note, keep, recalled
from trt_workbench.core.percent import share
from trt_workbench.core.precision import read
from trt_workbench.core.work import identity
from trt_workbench.model.low_precision.evidence import SearchEvidence, SearchPoint
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import Progress, calibrate, named
from trt_workbench.quantize.candidates import Candidate, check_output
from trt_workbench.quantize.data import data_hash
from trt_workbench.quantize.document import GroupLoss, SearchDocument, Sensitivity
from trt_workbench.quantize.held_out import HELD_OUT, RANGES, scorer_of
from trt_workbench.quantize.scores import ResampledScore
from trt_workbench.quantize.sensitivity import Maker, choices, measure_sensitivity
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings, SearchSettings
from trt_workbench.quantize.task import Task

# Bump to invalidate earlier trials when candidates are made or scored differently.
_RECIPE = 8
# Of the arithmetic: a search does not go on for less.
_LEAST = 0.01
# Of the time that is left, the share in which groups may be measured.
_MEASURING = 0.5


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        document: for `search.json`.
        candidate: the model; None where none keeps the bound.
    """

    document: SearchDocument
    candidate: Candidate | None


@dataclass
class Search:
    """A search for the groups of one model to leave alone.

    Attributes:
        model: of floats.
        precision: the format.
        output: the ONNX file to write.
        calibration: the data, of which one half gives ranges and the other the score.
        placement: how ranges are chosen, and what is left alone in any case.
        settings: the bound and the score.
        note: called with progress messages.
        progress: makes what is called with the steps done and their total, by what is done.
    """

    model: Model
    precision: str
    output: Path
    calibration: CalibrationSettings
    placement: PlacementSettings
    settings: SearchSettings
    note: Note
    progress: Callable[[str], Progress]
    _tried: dict[frozenset[str], SearchPoint] = field(default_factory=dict)
    _seconds: list[float] = field(default_factory=list)
    _stopped: bool = False

    @property
    def _bound(self) -> float:
        return self.settings.keep_score or 0.0

    @property
    def trials(self) -> Path:
        """The folder in which finished trials are kept."""
        return self.output.with_suffix(".trials")

    def run(self) -> SearchResult:
        """Rank the groups, find how many are to be left alone, and write the candidate.

        Raises:
            UsageProblem: the model cannot be made so, there is no such score, or the data do not fit.
            CheckFailed: a candidate returns NaN or infinite values.
            OSError: the output cannot be written.
            KeyboardInterrupt: interrupted; its note says what is kept.
        """
        try:
            return self._run()
        except KeyboardInterrupt as error:
            if self.trials.is_dir():
                error.add_note(f"What was tried is kept; the same command goes on from there: {self.trials}")
            raise

    def _run(self) -> SearchResult:
        began = time.monotonic()
        self._ends = began + (math.inf if self.settings.budget is None else self.settings.budget)
        check_output(self.model, self.output)  # before what takes minutes
        with scratch_folder() as name:
            self._folder = Path(name)
            self._scorer, self._seen = (
                scorer_of(self.model, self.calibration, self.settings, self._folder, half)
                for half in (HELD_OUT, RANGES)
            )
            calibrated = None
            if read(self.precision)[0].is_calibrated:
                calibrated = calibrate(self.model, self.calibration, self.progress("Calibrating"), RANGES)
            self._sha256, self._data_sha256 = self.model.sha256, data_hash(self.model.path, self.calibration)
            self._maker = Maker(self.model, self.precision, calibrated, self.placement)
            _, groups, anyway, left_out = choices(self.model, self.precision, calibrated, self.placement)
            self._groups = [group.name for group in groups if group.name not in left_out]
            rest = [name for name in self._groups if name not in anyway] or self._groups
            rule = [name for name in self._groups if name not in rest]
            self._baseline = self._score(self._scorer, self.model.path, "float", None)
            if told := self._baseline.against(None).as_good_as_guessing:
                raise UsageProblem(f"{self._scorer.figure} of the float model is {self._baseline.value:.4f}, {told}.")
            self._seen_baseline = self._score(self._seen, self.model.path, "float-seen", None)
            self.note(
                f"{self._scorer.figure} of the float model: {self._baseline.value:.4f} on {self._baseline.count} "
                f"held-out {self._scorer.metric.unit}"
            )
            sensitivity, kept = self._found(rule, rest)
            evidence = SearchEvidence(
                bound=self._bound,
                figure=self._scorer.figure,
                unit=self._scorer.metric.unit,
                samples=self._baseline.count,
                baseline=self._baseline.value,
                is_error=self._baseline.worse == "grows",
                began=self._tried[frozenset(rule)],
                chosen=None if kept is None else self._tried[frozenset(kept)],
                curve=tuple(sorted(self._tried.values(), key=lambda point: (point.kept, -point.low_macs))),
                seed=self.calibration.seed,
            )
            candidate = None if kept is None else self._maker.make(kept, self.output, search=evidence)
        path = str(candidate.path) if candidate else None
        document = SearchDocument(
            sensitivity=sensitivity,
            order=list(dict.fromkeys([*(kept or ()), *self._groups])),
            evidence=evidence,
            candidate=path,
            stopped=self._stopped,
            wall_s=time.monotonic() - began,
        )
        return SearchResult(document, candidate)

    def _sensitivity(self, names: Sequence[str]) -> Sensitivity:
        """Return the noise of groups, as it was measured before where nothing has changed since."""
        path = self.trials / f"sensitivity-{hash_document({**self._facts(), 'groups': str(names)})[:16]}.json"
        if known := recalled(path, Sensitivity, self.note):
            return known
        began, report = time.monotonic(), self.progress("Measuring groups")
        until = began + _MEASURING * (self._ends - began)

        def progress(done: int, total: int) -> None:
            if done == 1:
                seconds, most = (time.monotonic() - began) * total, counted(total.bit_length(), "trial")
                self.note(f"{total} groups, about {seconds:.0f} s; then at most {most} of {self._trial_s:.0f} s each")
            report(done, total)

        how = (self.model, self.precision, self._maker.calibrated, self.calibration, self.placement)
        found = measure_sensitivity(*how, half=RANGES, on_progress=progress, only=names, until=until)
        if {*names} - {group.name for group in found.groups} - found.left_out.keys():
            self._stopped = True
            return found
        keep(path, found)
        return found

    def _facts(self) -> dict[str, Any]:
        """Return all that the noise and the score of a group depend on."""
        calibrated = self._maker.calibrated
        facts = {
            "recipe": _RECIPE,
            "source": self._sha256,
            "to": self.precision,
            "placement": asdict(self._maker.placement),
            "data": calibrated.evidence if calibrated else None,
            "seed": self.calibration.seed,
        }
        return identity({name: str(value) for name, value in facts.items()}, [gpu_in_use(REFERENCE, {})])

    def _found(self, rule: list[str], rest: list[str]) -> tuple[Sensitivity, list[str] | None]:
        """Return the noise of the groups that had to be ranked, and those that are left alone; None of too few."""
        began = self._trial(rule)
        keeps = began.keeps(self._bound)
        if began.mean_loss <= self._bound and not (keeps and rule):
            return self._sensitivity(()), rule
        if keeps and not self._is_late() and self._trial(()).keeps(self._bound):
            return self._sensitivity(()), []
        side = rule if keeps else rest
        sensitivity = self._sensitivity(side)
        names = [group.name for group in ranked(sensitivity.groups)]
        names += [name for name in side if name not in names]  # for which there was no time
        shares = {group.name: group.macs_share for group in sensitivity.groups}
        found = self._bisect([] if keeps else rule, names, [shares.get(name, 0.0) for name in names])
        self._groups = list(dict.fromkeys([*found, *names, *self._groups]))
        if keeps:
            return sensitivity, found
        if found == [*rule, *names]:
            return sensitivity, None
        if rule and not self._is_late() and self._trial(found[len(rule) :]).keeps(self._bound):
            found = found[len(rule) :]
        chosen = self._tried[frozenset(found)]
        gained = began.mean_loss - chosen.mean_loss
        return sensitivity, found if chosen.low_macs >= began.low_macs or gained > (began.loss_sd or 0.0) else None

    def _bisect(self, first: list[str], names: list[str], shares: list[float]) -> list[str]:
        """Return the fewest groups that are left alone, `first` and some of `names`; a small rest is not tried."""
        fewest, enough, report = 1, len(names), self.progress("Searching")
        while fewest < enough and not self._is_late():
            kept = [*first, *names[:enough]]
            if frozenset(kept) in self._tried and 0 < sum(shares[fewest:enough]) < _LEAST:
                break
            middle, steps = (fewest + enough) // 2, (enough - fewest).bit_length() - 1
            point = self._trial([*first, *names[:middle]], steps)
            report(len(self._tried), len(self._tried) + steps)
            fewest, enough = (fewest, middle) if point.keeps(self._bound) else (middle + 1, enough)
        return [*first, *names[:enough]]

    def _is_late(self) -> bool:
        """Whether there is no time for a further trial."""
        self._stopped = self._stopped or time.monotonic() + self._trial_s > self._ends
        return self._stopped

    @property
    def _trial_s(self) -> float:
        """How long a trial takes, by those that were made; 0 where all were known."""
        return sum(self._seconds) / len(self._seconds) if self._seconds else 0.0

    def _trial(self, kept: Sequence[str], left: int = 0) -> SearchPoint:
        """Return the score with groups left alone, an earlier one where nothing has changed since."""
        names, first, number = sorted(kept), not self._tried, len(self._tried)
        scored = [self._data_sha256, self._baseline.samples, self._seen_baseline.samples]
        facts = {**self._facts(), "kept": str(names), "scored": str(scored), "figure": self._scorer.figure}
        facts["bound"] = str(self._bound)
        path = self.trials / f"{hash_document(facts)}.json"
        if known := recalled(path, SearchPoint, self.note):
            return self._tried.setdefault(frozenset(kept), known)
        began = time.monotonic()
        made = self._maker.make(names, self._folder / f"{number}" / self.model.path.name, check=False)
        seen_loss = deviation = None
        with named(
            made.path, f"{self.model.path} in {self.precision} with {counted(len(names), 'group')} kept in fp32"
        ):
            score = self._score(self._scorer, made.path, f"score-{number}", "float").against(self._baseline)
            if first or score.loss <= self._bound:
                seen = self._score(self._seen, made.path, f"seen-{number}", "float-seen").against(self._seen_baseline)
                seen_loss, deviation = seen.loss, math.hypot(score.loss_sd or 0.0, seen.loss_sd or 0.0) / 2
        point = SearchPoint(
            kept=len(names),
            low_macs=made.evidence.low_macs,
            value=score.value,
            loss=score.loss,
            loss_ci95=score.loss_ci95,
            seen_loss=seen_loss,
            loss_sd=deviation,
        )
        self.trials.mkdir(parents=True, exist_ok=True)
        keep(path, point)
        self._tried[frozenset(kept)] = point
        self._seconds.append(time.monotonic() - began)
        self.note(
            f"{len(names)} of {len(self._groups)} groups kept in fp32, {share(point.low_macs, 1)} of the arithmetic in "
            f"{self.precision}: {self._scorer.figure} {point.words(self._bound)}; "
            f"about {left * self._trial_s:.0f} s left"
        )
        return point

    def _score(self, scorer: Task, model: Path, name: str, baseline: str | None) -> ResampledScore:
        before = None if baseline is None else self._folder / baseline
        return scorer.score(model, self._folder / name, before, self.calibration.seed)


def ranked(groups: Sequence[GroupLoss]) -> list[GroupLoss]:
    """Return groups by the noise that leaving one alone takes away for its share of the arithmetic, the best first."""
    # of a group without a shape; where no shape is known all cost the same
    least = min((group.macs_share for group in groups if group.macs_share), default=1.0)
    return sorted(groups, key=lambda group: (-group.noise / (group.macs_share or least), group.name))
