"""The fewest groups to leave alone so that the score stays within a bound: ranked by noise, found by bisection."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trt_workbench.backends.profiling import Operation
from trt_workbench.backends.registry import REFERENCE, get_backend
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.kept import keep, recalled
from trt_workbench.core.percent import share
from trt_workbench.core.precision import read
from trt_workbench.core.work import identity
from trt_workbench.model.low_precision.evidence import SearchEvidence, SearchPoint, digits_for
from trt_workbench.model.opened import Model
from trt_workbench.profile import read_records
from trt_workbench.quantize.calibrate import Calibrated, Progress, calibrate, named
from trt_workbench.quantize.candidates import Candidate, check_output
from trt_workbench.quantize.data import data_hash
from trt_workbench.quantize.document import GroupLoss, SearchDocument, SearchTrial, Sensitivity
from trt_workbench.quantize.held_out import HELD_OUT, RANGES, scorer_of
from trt_workbench.quantize.scores import ResampledScore
from trt_workbench.quantize.sensitivity import Maker, measure_sensitivity
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings, SearchSettings
from trt_workbench.quantize.task import Task

Note = Callable[[str], None]
# Bump to invalidate earlier trials when candidates are made or scored differently.
_RECIPE = 7


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
    _tried: dict[int, SearchPoint] = field(default_factory=dict)
    _seconds: list[float] = field(default_factory=list)

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
        check_output(self.model, self.output)  # before what takes minutes
        with scratch_folder() as name:
            self._folder = Path(name)
            self._scorer, self._seen = (
                scorer_of(self.model, self.calibration, self.settings, self._folder, half)
                for half in (HELD_OUT, RANGES)
            )
            calibrated = self._calibrated()
            self._sha256, self._data_sha256 = self.model.sha256, data_hash(self.model.path, self.calibration)
            self._maker = Maker(self.model, self.precision, calibrated, self.placement)
            sensitivity = self._sensitivity(calibrated)
            names = {group.name for group in sensitivity.groups}
            times = layer_times(self.settings.profile, names) if self.settings.profile else None
            self._order = [group.name for group in ranked(sensitivity.groups, times)]
            self._baseline = self._score(self._scorer, self.model.path, "float", None)
            if told := self._baseline.against(None).as_good_as_guessing:
                raise UsageProblem(f"{self._scorer.figure} of the float model is {self._baseline.value:.4f}, {told}.")
            self._seen_baseline = self._score(self._seen, self.model.path, "float-seen", None)
            self.note(
                f"{self._scorer.figure} of the float model: {self._baseline.value:.4f} on {self._baseline.count} "
                f"held-out {self._scorer.unit}"
            )
            kept = self._bisect()
            evidence = SearchEvidence(
                bound=self._bound,
                figure=self._scorer.figure,
                unit=self._scorer.unit,
                samples=self._baseline.count,
                baseline=self._baseline.value,
                is_error=self._baseline.worse == "grows",
                weighed_by="arithmetic" if times is None else "time",
                chosen=None if kept is None else self._tried[kept],
                curve=tuple(self._tried[place] for place in sorted(self._tried)),
                seed=self.calibration.seed,
            )
            candidate = None
            if kept is not None:
                candidate = self._maker.make(self._order[:kept], self.output, search=evidence)
        path = str(candidate.path) if candidate else None
        document = SearchDocument(
            sensitivity=sensitivity,
            order=self._order,
            evidence=evidence,
            candidate=path,
            wall_s=time.monotonic() - began,
        )
        return SearchResult(document, candidate)

    def _calibrated(self) -> Calibrated | None:
        if not read(self.precision)[0].is_calibrated:
            return None
        return calibrate(self.model, self.calibration, self.progress("Calibrating"), RANGES)

    def _sensitivity(self, calibrated: Calibrated | None) -> Sensitivity:
        """Return the noise of every group, as it was measured before where nothing has changed since."""
        path = self.trials / f"sensitivity-{hash_document(self._facts())[:16]}.json"
        if known := recalled(path, Sensitivity, self.note):
            return known
        found = measure_sensitivity(
            self.model,
            self.precision,
            calibrated,
            self.calibration,
            self.placement,
            half=RANGES,
            on_progress=self.progress("Measuring groups"),
        )
        self.trials.mkdir(parents=True, exist_ok=True)
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
        return identity({name: str(value) for name, value in facts.items()}, [get_backend(REFERENCE).devices])

    def _bisect(self) -> int | None:
        """Return how many of the groups, in order, are left alone at least; None where all but one are too few."""
        fewest, enough = 0, len(self._order)
        steps = enough.bit_length()
        report = self.progress("Searching")
        while fewest < enough:
            middle = (fewest + enough) // 2 if self._tried else 0
            point = self._trial(middle, steps - len(self._tried))
            report(len(self._tried), max(steps, len(self._tried)))
            if point.keeps(self._bound):
                enough = middle
            else:
                fewest = middle + 1
        return enough if enough < len(self._order) else None

    def _trial(self, kept: int, left: int) -> SearchPoint:
        """Return the score with the first `kept` groups left alone, an earlier one where nothing has changed since."""
        names = sorted(self._order[:kept])
        scored = [self._data_sha256, self._baseline.samples, self._seen_baseline.samples]
        facts = {**self._facts(), "kept": str(names), "scored": str(scored), "figure": self._scorer.figure}
        facts["bound"] = str(self._bound)
        key = hash_document(facts)
        path = self.trials / f"{key[:16]}.json"
        if (trial := recalled(path, SearchTrial, self.note)) and trial.key == key:
            self._tried[kept] = trial.point
            return trial.point
        began = time.monotonic()
        made = self._maker.make(names, self._folder / f"{kept}" / self.model.path.name, check=False)
        seen_loss = None
        with named(made.path, f"{self.model.path} in {self.precision} with {counted(kept, 'group')} kept in fp32"):
            score = self._score(self._scorer, made.path, f"score-{kept}", "float").against(self._baseline)
            if score.loss <= self._bound:
                seen_score = self._score(self._seen, made.path, f"seen-{kept}", "float-seen")
                seen_loss = seen_score.against(self._seen_baseline).loss
        point = SearchPoint(
            kept=kept,
            low_macs=made.evidence.low_macs,
            value=score.value,
            loss=score.loss,
            loss_ci95=score.loss_ci95,
            seen_loss=seen_loss,
        )
        keep(path, SearchTrial(key=key, point=point))
        self._tried[kept] = point
        self._seconds.append(time.monotonic() - began)
        seconds = max(left - 1, 0) * sum(self._seconds) / len(self._seconds)
        digits = digits_for(self._bound)
        ends = f" ({point.loss_ci95[0]:.{digits}f} to {point.loss_ci95[1]:.{digits}f})" if point.loss_ci95 else ""
        seen = f", {point.seen_loss:.{digits}f} on the other half" if point.seen_loss is not None else ""
        self.note(
            f"{kept} of {len(self._order)} groups kept in fp32, {share(point.low_macs, 1)} of the arithmetic in "
            f"{self.precision}: {self._scorer.figure} {point.value:.{digits}f}, loss "
            f"{point.loss:.{digits}f}{ends}{seen}; about {seconds:.0f} s left"
        )
        return point

    def _score(self, scorer: Task, model: Path, name: str, baseline: str | None) -> ResampledScore:
        before = None if baseline is None else self._folder / baseline
        return scorer.score(model, self._folder / name, before, self.calibration.seed)


def ranked(groups: Sequence[GroupLoss], weights: Mapping[str, float] | None) -> list[GroupLoss]:
    """Return groups by the noise that leaving one alone takes away for what it costs, the best first.

    Args:
        groups: with their noise.
        weights: what each costs; by default its share of the arithmetic.
    """
    costs = {group.name: group.macs_share for group in groups} if weights is None else weights
    # of a group without a shape or a time; where no shape is known all cost the same
    least = min((cost for cost in costs.values() if cost), default=1.0)
    return sorted(groups, key=lambda group: (-group.noise / (costs.get(group.name) or least), group.name))


def layer_times(directory: Path, names: Collection[str]) -> dict[str, float]:
    """Return the milliseconds of each group in a profile; an operation that computes several shares its time evenly.

    Args:
        directory: run directory of `profile` of the model, or of an engine of it.
        names: of groups.

    Raises:
        UsageProblem: it is no such run, or has a time for none of them.
    """
    times: dict[str, float] = {}
    for line in read_records(directory / "records.jsonl"):
        if isinstance(line, Operation) and line.side == "target" and line.mean_ms is not None:
            computed = [name for name in line.onnx_nodes if name in names]
            for name in computed:
                times[name] = times.get(name, 0.0) + line.mean_ms / len(computed)
    if not times:
        raise UsageProblem(f"The profile has no times for groups of this model; is it of another model? {directory}")
    return times
