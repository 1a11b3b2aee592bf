"""Many runs of one folder over dates or commits: what each figure was, and from which run on it is another."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Literal

from trt_workbench.core.artefacts import Environment, RunDocument, foreign_files, read_environment, run_document
from trt_workbench.core.counts import counted, decimals
from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.files import anything, refuse_foreign, write_text
from trt_workbench.core.machines import facts
from trt_workbench.core.shard_files import SHARD
from trt_workbench.overview.runs import RunAnswer, run_answer, run_tables
from trt_workbench.report.page import is_our_page, moment, render
from trt_workbench.report.reports import REPORTS
from trt_workbench.report.sparkline import Spot, sparkline
from trt_workbench.report.style import file_stem, plots_folder
from trt_workbench.report.tables import Cell, Column, Table
from trt_workbench.report.verdict import NOTHING, Reach
from trt_workbench_history.changes import ChangePoint, can_tell, change_points
from trt_workbench_history.curves import draw_series
from trt_workbench_history.figures import READERS, RunFigure

Over = Literal["dates", "commits"]

# Folders of folders of runs, such as `tmp/` itself.
_DEEPEST = 3
_SHORT = {"GPU": "{}", "CPU": "{}", "usable CPUs": "{} usable CPUs"}
# A page with more pictures takes long to open; the table has every series.
_MOST_DRAWN = 40
_SHORT_COMMIT = 12


class HistoryPoint(Strict):
    """One run in a series; intervals are absent where the run has none."""

    run_id: str
    directory: str
    started_at: str
    commit: str | None
    model_sha256: str | None
    value: float
    low: float | None
    high: float | None
    doubts: tuple[str, ...]


class HistoryChange(Strict):
    """From which run on a figure is another: how many times the level before it is, with the interval of that."""

    run_id: str
    started_at: str
    commit: str | None
    model_changed: bool
    outcome: Literal["regression", "improvement"]
    ratio: float
    low: float
    high: float
    confirmed: bool


class HistorySeries(Strict):
    """One figure of one subject on one machine, run after run; `can_change` where a change could be found."""

    command: str
    machine: str
    subject: str
    figure: str
    unit: str
    smaller_is_better: bool
    points: list[HistoryPoint]
    changes: list[HistoryChange]
    can_change: bool = True

    @property
    def name(self) -> str:
        """What a picture of it is called."""
        return f"{self.subject}: {self.figure}"


class History(Strict):
    """history.json."""

    schema_version: Literal[1] = 1
    over: Over
    runs: int
    series: list[HistorySeries]
    answers: list[RunAnswer]
    left_out: list[str]


@dataclass(frozen=True)
class _Run:
    directory: Path
    document: RunDocument
    environment: Environment
    figures: list[RunFigure]
    machine: str


@dataclass
class _Gathered:
    """The runs of a folder, and why some folders are none."""

    runs: list[_Run] = field(default_factory=list)
    answers: list[RunAnswer] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def write_history(folder: Path, output: Path, over: Over) -> Path:
    """Write `history.html` and `history.json` of all runs below a folder, and return the page's path.

    Args:
        folder: of run directories, at most three levels down; hidden folders and shards of runs are left out.
        output: folder for the page.
        over: what the horizontal axis is.

    Raises:
        UsageProblem: no run below it has figures to follow, or a file that we did not write has the name of the page.
        OSError: the page cannot be written.
    """
    page, document = output / "history.html", output / "history.json"
    refuse_foreign(page, is_our_page)
    refuse_foreign(document, lambda file: read_document(file, History))
    gathered = _gather(folder)
    if not gathered.answers:
        why = f"; the first left out: {gathered.left_out[0]}" if gathered.left_out else ""
        raise UsageProblem(f"No run in this folder can be read{why}: {folder}")
    history = History(
        over=over,
        runs=len(gathered.answers),
        series=_series(gathered.runs, over),
        answers=gathered.answers,
        left_out=gathered.left_out,
    )
    plots = _draw(history, output)
    write_json(document, history, over=anything)
    values = {
        "history": history,
        "table": _table(history.series),
        "plots": plots,
        "said": _said(history),
        "verdict": _verdict(history),
        "runs": run_tables(history.answers, output),
    }
    write_text(page, render(Path(__file__).with_name("history.html.j2"), **values), over=anything)
    return page


def _table(series: Sequence[HistorySeries]) -> Table:
    """Return every figure, run after run; the machine where there are several."""
    several = len({one.machine for one in series}) > 1
    columns = [
        Column("what", lambda one: f"{one.command} {one.name}"),
        Column("run after run", lambda one: Cell(drawn=_curve(one)), places=("page",)),
        Column("first", lambda one: f"{one.points[0].value:.5g} {one.unit}", 0),
        Column("last", lambda one: f"{one.points[-1].value:.5g} {one.unit}", 0),
        Column(
            "last / first", lambda one: one.points[-1].value / one.points[0].value if one.points[0].value else None, 3
        ),
        Column("runs", lambda one: len(one.points), 0),
        Column("changes", lambda one: [cell for change in one.changes for cell in _told(change)]),
        *([Column("machine", "machine")] if several else []),
    ]
    return Table(columns, series)


def _told(change: HistoryChange) -> tuple[Cell, Cell]:
    commit = f", {change.commit}" if change.commit else ""
    ends = " to ".join(decimals(end, 3) for end in (change.low, change.high))
    doubts = ("" if change.confirmed else ", not confirmed") + (", another model file" if change.model_changed else "")
    text = f"on {moment(change.started_at)}{commit}: {decimals(change.ratio, 3)} ({ends}){doubts}"
    return Cell(change.outcome, verdict=change.outcome), Cell(text)


def left_out(page: Path) -> list[str]:
    """Return why runs are not on a page of `write_history`, in sentences."""
    return read_document(page.with_name("history.json"), History).left_out


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.is_symlink() or not entry.is_dir():
            continue
        if (entry / "run.json").is_file():
            yield entry
        elif depth > 1:
            yield from _runs_below(entry, depth - 1)


def _machine(environment: Environment) -> str:
    """Return one text for all that decides whether times of two runs may be compared, the card first."""
    return ", ".join(
        _SHORT.get(what, f"{what} {{}}").format(text) for what, decides, text in facts(environment) if decides and text
    )


def _gather(folder: Path) -> _Gathered:
    found = _Gathered()
    for directory in _runs_below(folder, _DEEPEST):
        if (directory / SHARD).is_file():  # of a run that merge makes whole
            continue
        try:
            run = run_document(directory)
            if run.command not in REPORTS:  # which says nothing that could stand on the page
                continue
            environment = read_environment(directory)
            began = datetime.datetime.fromisoformat(run.started_at)
            with foreign_files(directory):
                machine, answer = _machine(environment), run_answer(directory, run, environment)
                figures = [*READERS[run.command](directory)] if run.command in READERS else []
        except (ComponentMissing, UsageProblem, ValueError) as error:  # a plug-in may be absent
            found.left_out.append(str(error))
            continue
        if began > datetime.datetime.now(datetime.UTC):
            found.left_out.append(f"The run starts in the future; the clock of its machine is wrong: {directory}")
            continue
        found.answers.append(answer)
        if figures:
            found.runs.append(_Run(directory, run, environment, figures, machine))
    return found


def _series(runs: Sequence[_Run], over: Over) -> list[HistorySeries]:
    """Return every series of two runs or more, those with changes first."""
    rows: dict[tuple[str, ...], list[tuple[_Run, RunFigure]]] = {}
    for run in _ordered(runs, over):
        for figure in run.figures:
            key = (run.document.command, run.machine, figure.subject, figure.name, figure.basis)
            rows.setdefault(key, []).append((run, figure))
    several = {key: pairs for key, pairs in rows.items() if len(pairs) > 1}
    comparisons = max(1, sum(len(pairs) - 1 for pairs in several.values()))
    made = [_one(key, pairs, comparisons) for key, pairs in several.items()]
    return sorted(made, key=lambda series: not series.changes)


def _ordered(runs: Sequence[_Run], over: Over) -> list[_Run]:
    """Return runs by their start; over commits, those of one commit together, where the first of them is."""
    by_date = sorted(runs, key=lambda run: datetime.datetime.fromisoformat(run.document.started_at))
    if over == "dates":
        return by_date
    place = {commit: index for index, commit in reversed(list(enumerate(_commit(run) for run in by_date)))}
    return sorted(by_date, key=lambda run: place[_commit(run)])


def _commit(run: _Run) -> str | None:
    git = run.environment.git
    return git.commit and f"{git.commit[:_SHORT_COMMIT]}{'+' if git.dirty else ''}"


def _one(key: tuple[str, ...], pairs: Sequence[tuple[_Run, RunFigure]], comparisons: int) -> HistorySeries:
    command, machine, subject, name, _ = key
    first = pairs[0][1]
    levels = [None if figure.doubts else figure for _, figure in pairs]
    points = [_point(run, figure) for run, figure in pairs]
    return HistorySeries(
        command=command,
        machine=machine,
        subject=subject,
        figure=name,
        unit=first.unit,
        smaller_is_better=first.smaller_is_better,
        points=points,
        changes=[_change(one, points, first.smaller_is_better) for one in change_points(levels, comparisons)],
        can_change=can_tell(levels, comparisons),
    )


def _point(run: _Run, figure: RunFigure) -> HistoryPoint:
    return HistoryPoint(
        run_id=run.document.run_id,
        directory=str(run.directory),
        started_at=run.document.started_at,
        commit=_commit(run),
        model_sha256=figure.model_sha256,
        value=figure.value,
        low=figure.low,
        high=figure.high,
        doubts=figure.doubts,
    )


def _change(found: ChangePoint, points: Sequence[HistoryPoint], smaller_is_better: bool) -> HistoryChange:
    here, before = points[found.index], points[found.index - 1]
    worse = (found.ratio > 1) == smaller_is_better
    return HistoryChange(
        run_id=here.run_id,
        started_at=here.started_at,
        commit=here.commit,
        model_changed=here.model_sha256 != before.model_sha256,
        outcome="regression" if worse else "improvement",
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        confirmed=found.confirmed,
    )


def _said(history: History) -> list[str]:
    """Say what changed, the newest first."""
    changed = sorted(
        ((change, series) for series in history.series for change in series.changes),
        key=lambda pair: pair[0].started_at,
        reverse=True,
    )
    sentences = []
    for (run_id, outcome), pairs in groupby(changed, lambda pair: (pair[0].run_id, pair[0].outcome)):
        group = list(pairs)
        change, series = max(group, key=lambda pair: abs(pair[0].ratio - 1))
        where = f"commit {change.commit}" if change.commit else f"run {run_id}"
        more = f" and {len(group) - 1} more" if group[1:] else ""
        model = "; the model is another file" if change.model_changed else ""
        sure = "" if change.confirmed else "; not confirmed by a further run"
        sentences.append(
            f"From {change.started_at[:10]} on ({where}), {outcome}: {series.name} is {change.ratio:.3f} times the "
            f"level before ({change.low:.3f} to {change.high:.3f}){more}{model}{sure}."
        )
    several, told = len(history.series), sum(series.can_change for series in history.series)
    if several > told:
        left = f"{several - told} of {counted(several, 'metric')}"
        sentences.append(f"Not compared, as intervals or stable times are missing: {left} of several runs.")
    none = f"No change was found in {counted(told, 'metric')}." if told else f"{NOTHING.capitalize()}."
    return sentences if any(series.changes for series in history.series) else [none, *sentences]


def _curve(series: HistorySeries) -> str:
    """Return a series as a small curve; a change has its colour."""
    changes = {change.run_id: change.outcome for change in series.changes}
    spots = [
        Spot(
            point.value,
            f"{point.started_at[:10]}, {point.run_id}: {point.value:.5g} {series.unit}".rstrip(),
            not point.doubts,
            changes.get(point.run_id),
        )
        for point in series.points
    ]
    return sparkline(spots, f"{series.name}, run after run")


def _verdict(history: History) -> str | None:
    """Return what the confirmed changes come to; grey where none could have been found."""
    found = {change.outcome for series in history.series for change in series.changes if change.confirmed}
    count, told = len(history.series), sum(series.can_change for series in history.series)
    word = Reach(count, count, told, wrong="regression" in found).word("improvement", "regression")
    return word if found or not told else None


def _draw(history: History, output: Path) -> dict[str, Path]:
    folder = plots_folder(output)
    found = {}
    for index, series in enumerate(history.series[:_MOST_DRAWN]):
        title = f"{series.name}, {series.machine}"
        found[title] = folder / f"history-{file_stem(str(index), series.subject, series.figure)}.svg"
        draw_series(series, history.over, found[title])
    return found
