"""What each of many runs found: its date, its verdict and the first sentence of its report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from trt_workbench.core.artefacts import Environment, RunDocument
from trt_workbench.core.documents import Strict
from trt_workbench.report.page import moment
from trt_workbench.report.reports import answer_of
from trt_workbench.report.tables import Cell, Column, Table, verdict


class RunAnswer(Strict):
    """A run in a list of runs.

    Attributes:
        verdict: as its report has it; None of a run that judges nothing.
        answer: the first sentence of its report; empty where there is nothing to say.
    """

    command: str
    run_id: str
    directory: str
    started_at: str
    status: str
    verdict: str | None
    answer: str
    machine: str

    @property
    def outcome(self) -> str:
        """Its verdict, and what became of it where it judges nothing."""
        return self.verdict or self.status

    def report_from(self, folder: Path) -> str | None:
        """Return the address of its report in a page in this folder; None where it has none."""
        page = Path(self.directory) / "report.html"
        return os.path.relpath(page, folder) if page.is_file() else None


def run_answer(directory: Path, run: RunDocument, environment: Environment) -> RunAnswer:
    """Return what a run found. Raises UsageProblem where it is damaged, or of a command without a report."""
    said, verdict = answer_of(directory)
    return RunAnswer(
        command=run.command,
        run_id=run.run_id,
        directory=str(directory),
        started_at=run.started_at,
        status=run.status,
        verdict=verdict,
        answer=said[0] if said else "",
        machine=environment.driver.gpu_names or environment.cpu.model or "",
    )


def run_tables(runs: Sequence[RunAnswer], folder: Path, shown: int = 12) -> tuple[Table, Table]:
    """Return the runs, the newest first, for a page in a folder: the first of them, and the others."""
    columns = (
        Column("run", lambda run: Cell(run.command, soft=run.run_id, link=run.report_from(folder))),
        Column("started", lambda run: moment(run.started_at)),
        Column("outcome", verdict("outcome")),
        Column("answer", "answer"),
        Column("machine", "machine"),
    )
    newest = sorted(runs, key=lambda run: run.started_at, reverse=True)
    return Table(columns, newest[:shown]), Table(columns, newest[shown:])
