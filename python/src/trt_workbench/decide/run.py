"""One model in every precision on every runtime: candidates made, scored and measured, and the decision written."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from trt_workbench.backends.registry import get_backend, runs_plans
from trt_workbench.bench import (
    BenchConfig,
    BenchRun,
    ModelEntry,
    RuntimeEntry,
    ScenarioEntry,
    built_group,
    expand,
    session_options,
    unavailable_backends,
)
from trt_workbench.core.builds import BUILD, FILE, BuildGroups, BuiltGroup
from trt_workbench.core.counts import counted, grouped
from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import UsageProblem, WorkbenchError
from trt_workbench.core.precision import read
from trt_workbench.core.records import Record, records_in
from trt_workbench.core.workers import WorkerFailure, Workers
from trt_workbench.decide.document import BASELINE, Decision, State
from trt_workbench.decide.judge import judged
from trt_workbench.decide.resume import Earlier
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.subject import Subject, backends_of
from trt_workbench.decide.timing import MEASURE, measuring_s, timing, wanted
from trt_workbench.decide.tried import DraftRow, builds_left_out, left_out, require_a_baseline
from trt_workbench.model.low_precision.evidence import InputStatistics
from trt_workbench.model.low_precision.input_statistics import difference, input_statistics
from trt_workbench.model.low_precision.preparation import DoesNotApply
from trt_workbench.quantize import SHARED, TARGET, Candidate, Candidates, MixedSearch
from trt_workbench.verify import BenchGate
from trt_workbench.vision import INFINITE_INSIDE


def joined(
    tried: Sequence[DraftRow], records: Sequence[Record]
) -> tuple[list[DraftRow], list[Record], list[BuiltGroup]]:
    """Return one row and one series of records for all builds of a row, and what the builds measured.

    In the series every repetition is of another build, in turns: what differs from build to build is within the
    interval of its median, and within that of every ratio.

    Args:
        tried: every row, one for each build.
        records: of the latencies.
    """
    found = grouped(tried, lambda one: (one.precision, one.backend))
    rows, series, groups = [], list[Record](), []
    for builds in found.values():
        mine = {one.build or 0: [each for each in records if each.runtime == one.runtime] for one in builds}
        if len(builds) == 1:
            rows.append(builds[0])
            series += mine[builds[0].build or 0]
            continue
        name = DraftRow(builds[0].precision, builds[0].backend)
        scores = {one.build or 0: one.scores.value for one in builds if one.scores}
        reasons = {one.build or 0: one.reason for one in builds if one.reason and one.state == "failed"}
        group = built_group(name.label, mine, scores, reasons)
        kept = _kept(builds, group)
        scored = tuple(one for one in builds if one.scores)
        missing = group.builds.missing if scored else ""  # else the row itself says why it has none
        rows.append(replace(kept, runtime=name.runtime, build=None, builds=scored, missing=missing))
        series += _in_turns(mine, name.runtime)
        groups.append(group)
    return rows, series, groups


def _kept(builds: Sequence[DraftRow], group: BuiltGroup) -> DraftRow:
    """Return the build that stands for all: of median latency, else of median score, else the first.

    Of the baseline it is the first that has a score, as outputs were compared with those of that build.
    """
    if builds[0].precision == BASELINE:
        return next((one for one in builds if one.scores), builds[0])
    timed = [one for one in builds if one.build == group.builds.kept]
    scored = sorted((one for one in builds if one.scores), key=lambda one: one.scores.value if one.scores else 0.0)
    return next(iter([*timed, *scored[len(scored) // 2 :], *builds]))


def _in_turns(mine: dict[int, list[Record]], runtime: str) -> list[Record]:
    """Return for each repetition the record of another build; failures where nothing was measured."""
    measured = {number: [one for one in each if one.status == "ok"] for number, each in mine.items()}
    numbers = [number for number, each in measured.items() if each]
    if not numbers:
        return [one.model_copy(update={"runtime": runtime}) for each in mine.values() for one in each]
    turns = sorted({one.repetition for each in measured.values() for one in each})
    chosen = []
    for turn in turns:
        here = [one for number in numbers for one in measured[number] if one.repetition == turn]
        chosen.append(here[turn % len(here)].model_copy(update={"runtime": runtime}))
    return chosen


SCENARIO, MODEL = "latency", "model"
Note = Callable[[str], None]
Progress = Callable[[str, int, int, str], None]

_TIMEOUT_S = 3600.0
# Backends that have kernels of their own choosing are asked for fp16 in addition to the low precision of the candidate.
_BESIDE = "fp16"
# A search for int8-mixed begins nothing new after so long: of the budget, or without one.
_SEARCH_SHARE, _SEARCH_S = 1 / 3, 600.0


@dataclass
class DecideRun:
    """One run of `decide`.

    Attributes:
        subject: the model and its data.
        settings: what is tried.
        folder: for all results.
        progress: called with what is done, the number of it, their total and which one comes next.
        note: called with what the user should know.
        earlier: runs in the place of this one, newest first; their rows that are asked for the same are taken.
    """

    subject: Subject
    settings: DecideSettings
    folder: Path
    progress: Progress
    note: Note
    earlier: Sequence[Path] = ()
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    interrupted: bool = False

    def __post_init__(self) -> None:
        """Make the folders."""
        self._began, self._slowest_s = time.monotonic(), 0.0
        self._baseline: Path | None = None
        self._search: MixedSearch | None = None
        self._earlier = Earlier(self.earlier, self.folder, self._said)
        for name in ("scores", "samples", "logs"):
            (self.folder / name).mkdir(exist_ok=True)

    def run(self) -> Decision:
        """Make, score, measure and judge; what fails becomes a row with its reason.

        Raises:
            WorkbenchError: the baseline has no score on any backend; the first one's error.
            UsageProblem: the model has changed on disk meanwhile, so that rows may be of different models.
            KeyboardInterrupt: interrupted before anything was scored.
        """
        self._fit_batch()
        backends = self._backends()
        tried = [
            DraftRow(precision, backend, build=number)
            for precision in self.settings.precisions
            for backend in backends
            for number in self._numbers(backend)
        ]
        own, others = ([one for one in tried if one.is_needed is first] for first in (True, False))
        self._search = self._mixed()
        try:
            for rows in filter(None, (own, others)):  # before others are made, one of the baseline needs a score
                self._make(rows)
                self._score(rows, tried)
            records = self._measure([one for one in tried if one.scores and not one.simulated])
        except KeyboardInterrupt:
            if not any(one.scores for one in tried):
                raise
            self.interrupted = True
            records = records_in(self.folder)
            self.left_out.append("Interrupted: the remaining rows are missing.")
        self.subject.model.require_unchanged()  # other processes have read it
        rows, records, groups = joined(tried, records)
        if self.interrupted or any(one.state == "left out" for one in tried):
            self._earlier.keep_rest()
        failed = [one for one in rows if one.missing]
        self.notes += [f"Of the builds of {one.label} there are {one.missing}." for one in failed]
        decision = judged(
            rows,
            records,
            model=self.subject.model.path,
            model_sha256=self._candidates.sha256,
            task=self.subject.task,
            settings=self.settings,
            notes=self.notes,
            left_out=[*left_out(rows), *builds_left_out(tried), *self.left_out],
            search=self._search.document if self._search else None,
            wall_s=time.monotonic() - self._began,
            root=self.folder,
            command=self.subject.command,
        )
        if groups:
            write_json(self.folder / FILE, BuildGroups(groups=tuple(groups)))
        write_json(self.folder / "decision.json", decision)
        return decision

    def _numbers(self, backend: str) -> Sequence[int | None]:
        """Return the numbers of the builds of a row's engine; None alone where it is built once, or has none."""
        count = self.settings.builds
        return range(1, count + 1) if count and runs_plans(backend) else (None,)

    @cached_property
    def _repetitions(self) -> int:
        """How often each latency is measured: each build at least once in a row's series."""
        asked = self.settings.repetitions
        return max(asked, self.settings.builds or 0) if asked else 0

    def _fit_batch(self) -> None:
        """Time calls of the batch that the model was exported with, where it takes no single items."""
        sizes = {tensor.shape[0] for tensor in self.subject.model.facts.inputs if tensor.shape}
        size = sizes.pop() if len(sizes) == 1 else None
        if self.settings.batch == 1 and isinstance(size, int) and size > 1:
            self.settings = replace(self.settings, batch=size)
            self.notes.append(f"Latencies are of batches of {size}: the model was exported with that batch.")

    def _backends(self) -> Sequence[str]:
        """Return the backends that are tried: those requested, or those that can serve here."""
        names = backends_of(self.settings)
        self._unavailable = unavailable_backends(names, self.folder / "logs" / "availability.log", _TIMEOUT_S)
        if self.settings.backends:
            return names
        if absent := [name for name in names if name in self._unavailable]:
            self.left_out.append(f"Not on this machine: {', '.join(absent)} (`trtw backends` says why).")
        if len(absent) == len(names):
            raise self._unavailable[names[-1]]
        return [name for name in names if name not in absent]

    def _make(self, tried: Sequence[DraftRow]) -> None:
        """Find the file and the requested precision of every row."""
        made: dict[str, Candidate | tuple[State, str]] = {}
        for one in tried:
            if one.backend in self._unavailable:
                reason = self._unavailable[one.backend]
                one.fail("unavailable", str(reason), type(reason).__name__)
                continue
            backend = get_backend(one.backend)
            if one.precision == BASELINE or self._serves(backend, one.precision):
                one.path, one.asked = self.subject.model.path, one.precision
                continue
            if one.precision not in made:
                made[one.precision] = self._made(one.precision)
            found = made[one.precision]
            if isinstance(found, Candidate):
                one.path, one.evidence = found.path, found.evidence
                one.asked = self._asked(backend, one.precision)
            else:
                one.fail(*found)

    @cached_property
    def _candidates(self) -> Candidates:
        return Candidates(
            self.subject.model,
            self.subject.calibration,
            lambda done, total: self.progress("Calibrating", done, total, ""),
            self._search,
            self._said,
            no_search=self.subject.no_search or "--no-search leaves it out.",
        )

    def _mixed(self) -> MixedSearch | None:
        """Return the search that makes int8-mixed; None without one."""
        if self.subject.search is None:
            return None
        left = self._left()
        seconds = _SEARCH_S if left is None else max(left, 0.0) * _SEARCH_SHARE
        return MixedSearch(self.subject.search, seconds, self.note, self.progress)

    def _said(self, text: str) -> None:
        """Give the user a message, now and in the decision."""
        self.note(text)
        self.notes.append(text)

    def _made(self, precision: str) -> Candidate | tuple[State, str]:
        """Return the candidate of a precision, or why there is none."""
        if self._is_late():
            return "left out", "the budget was used up"
        self.note(f"Making {precision}")
        try:
            made = self._candidates.make(precision)
        except DoesNotApply as problem:
            return "does not apply", str(problem)
        except (WorkbenchError, OSError) as error:
            return "failed", f"the model could not be made: {error}"
        data = made.evidence.calibration
        found = difference(data.inputs, self._scored) if data and data.kind == "data" else None
        if found and found.certain:
            return "failed", found.words
        if found and found.words not in self.notes:
            self.notes.append(found.words)
        return made

    @cached_property
    def _scored(self) -> dict[str, InputStatistics]:
        """Statistics of the scored data; empty where it cannot be read, which its rows report."""
        try:
            return input_statistics(self.subject.task.samples_of(self.subject.model))
        except (WorkbenchError, OSError):
            return {}

    @staticmethod
    def _serves(backend: Any, precision: str) -> bool:
        """Whether a backend takes a precision of floats of itself."""
        if read(precision)[0].recipe != "cast":
            return False
        try:
            backend.check_precision(precision)
        except UsageProblem:
            return False
        return True

    @staticmethod
    def _asked(backend: Any, precision: str) -> str:
        """Return what a backend is asked for so that it runs a candidate as its graph says."""
        row, _ = read(precision)
        name = row.flag or row.name
        for asked in (f"{name}+{_BESIDE}", name) if backend.plans else (name,):
            try:
                backend.check_precision(asked)
            except UsageProblem:
                continue
            return asked
        return "fp32"

    def _score(self, rows: Sequence[DraftRow], tried: Sequence[DraftRow]) -> None:
        # Every precision on one runtime after the other: where time is short, what a precision costs is known of all of
        # them, rather than of few everywhere. For the same reason further builds come by number, the baseline's last.
        places = list(dict.fromkeys(one.backend for one in tried))
        turn = {id(one): (places.index(one.backend), one.precision == BASELINE, one.build or 0) for one in rows}
        waiting = sorted((one for one in rows if one.path), key=lambda one: turn[id(one)])
        self._baseline = next((one.folder for one in tried if one.precision == BASELINE and one.scores), None)
        # builds of a runtime share a process
        names = {
            id(one): (f"{one.precision}-{one.backend}", TARGET) if one.build is None else (one.backend, SHARED)
            for one in waiting
        }
        for (name, target), numbered in groupby(enumerate(waiting), lambda each: names[id(each[1])]):
            with Workers(self.folder / "logs" / f"score-{name}.log", target) as workers:
                for number, one in numbered:
                    self.progress("Scoring", number, len(waiting), one.label)
                    self._score_row(one, tried, workers)
        require_a_baseline(tried)
        self.progress("Scoring", len(waiting), len(waiting), "")

    def _score_row(self, one: DraftRow, tried: Sequence[DraftRow], workers: Workers) -> None:
        timed = [one, *(row for row in tried if row.scores and not row.simulated)]
        # a build may take minutes, as the slowest so far; what it leaves has to do for its latency
        reserve = measuring_s(timed, wanted(timed, self._repetitions)) + (self._slowest_s if one.build else 0.0)
        late = not one.is_needed and self._is_late(reserve)
        numbered = "" if one.build is None else f"build-{one.build}"
        one.folder = self.folder / "scores" / one.precision / one.backend / numbered
        try:
            answer = self._answered(one, workers, late=late)
            if answer is None:
                one.fail("left out", "the budget was used up before it was scored")
                return
            one.provenance = answer["provenance"]
            if one.misses:
                one.fail("failed", f"{one.backend} computes it in {one.computes_in}, not {one.precision}")
                return
            one.scores = self.subject.task.scores(one.folder, self.settings.seed)
            if answer["overflow"]:
                self.notes.append(f"{one.label}: {INFINITE_INSIDE}{answer['overflow']}.")
            self._baseline = self._baseline or one.folder  # the first, so that all are compared with one
        except WorkerFailure as failure:
            one.fail("failed", str(failure), failure.kind)
        except WorkbenchError as error:
            one.fail("failed", str(error), type(error).__name__)

    def _answered(self, one: DraftRow, workers: Workers, *, late: bool) -> dict[str, Any] | None:
        """Return what scoring a row gives, from the earlier run where that has it; None where it is too late for it."""
        request = self._request(one, self._baseline)
        if (answer := self._earlier.take(one, request, self._repetitions)) is None and not late:
            self.note(f"Scoring {one.label}")
            assert one.folder is not None
            one.folder.mkdir(parents=True)
            began = time.monotonic()
            try:
                answer = workers.ask(request, _TIMEOUT_S)
            finally:
                self._slowest_s = max(self._slowest_s, time.monotonic() - began)
            self._earlier.keep(one, request, answer)
        return answer

    def _request(self, one: DraftRow, baseline: Path | None) -> dict[str, Any]:
        """Return what the worker is asked for to score a row. Raises UsageProblem where nothing can be.

        The session is asked for what the bench will ask for, so that an engine is scored and timed, not two of a kind.
        """
        assert one.path is not None  # as it waits for its score
        assert one.folder is not None
        asked = session_options(expand(self._config([one], 1))[0], one.path, {}, self.subject.task.contract)
        settings = self.settings
        how = (baseline, one.backend, asked, settings.batch)
        return self.subject.task.request(one.path, one.folder, *how, allow_unverified=settings.allow_unverified)

    def _measure(self, rows: Sequence[DraftRow]) -> list[Record]:
        """Measure latencies of the rows in turns, as many as there is time for, and return the records."""
        chosen = timing(rows, self._repetitions, self._left())
        self.left_out += chosen.words
        if not chosen.rows:
            return records_in(self.folder)
        config = self._config(chosen.rows, chosen.repetitions)
        lost = {row.runtime for row in chosen.rows if row.lost}
        self.note(f"Measuring {counted(len(chosen.rows), 'row')} in turn, {counted(chosen.repetitions, 'time')} each")
        bench = BenchRun(
            config,
            [one for one in expand(config) if one.runtime not in lost],
            self.folder,
            {},
            self._earlier.latencies(chosen.rows),
            progress=lambda done, total, doing: self.progress("Measuring", done, total, doing),
            gate=BenchGate(self.settings.allow_unverified),
        )
        bench.run()
        return records_in(self.folder)

    def _config(self, rows: Sequence[DraftRow], repetitions: int) -> BenchConfig:
        files = {one.precision: one.path for one in rows if one.path and one.path != self.subject.model.path}
        runtimes = tuple(
            RuntimeEntry(
                backend=one.backend,
                precision=one.asked,
                file=one.precision if one.path != self.subject.model.path else None,
                name=one.runtime,
                # one value each, which may be a list: the bench sweeps a list
                options={key: [value] for key, value in self._options(one).items()},
            )
            for one in rows
        )
        return BenchConfig(
            title=self.subject.model.path.name,
            seed=self.settings.seed,
            repetitions=repetitions,
            measure=MEASURE,
            timeout_s=_TIMEOUT_S,
            models={MODEL: ModelEntry(path=self.subject.model.path, files=files, contract=self.subject.task.contract)},
            runtimes=runtimes,
            scenarios={SCENARIO: ScenarioEntry(batch=self.settings.batch, **self._sizes)},
        )

    def _options(self, one: DraftRow) -> dict[str, Any]:
        return {**self.settings.options.get(one.backend, {}), **({} if one.build is None else {BUILD: one.build})}

    @cached_property
    def _sizes(self) -> dict[str, Any]:
        return self.subject.task.sizes()

    def _left(self) -> float | None:
        budget = self.settings.budget
        return None if budget is None else budget - (time.monotonic() - self._began)

    def _is_late(self, reserve: float = 0.0) -> bool:
        left = self._left()
        return left is not None and left <= reserve
