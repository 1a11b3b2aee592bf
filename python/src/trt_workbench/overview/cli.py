"""`report`: make the reports of run directories again, from their files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_json
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed, UsageProblem


@handled
def report(
    *,
    directories: Annotated[
        list[Path], typer.Argument(metavar="RUN_DIR", help="Run directories, or folders of many for their history.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for one overview of all runs: accuracy and speed.")
    ] = None,
    over: Annotated[Literal["dates", "commits"], typer.Option(help="Axis of a history.")] = "dates",
    max_loss: Annotated[float, typer.Option(min=0.0, max=1.0, help="Acceptable loss of AP.")] = 0.005,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Write the reports of runs again, and an overview of them.

    Each run directory gets its report.html from its own files; --output DIR gets the overview. If two or more are
    evaluations of one data set, one of them in fp32, the folder also gets the page of `decide`. A folder of run
    directories gets history.html: medians and scores over dates or commits, with the runs from which on they changed.
    Exit code 1 if a run in it could not be read.
    """
    from trt_workbench.core.artefacts import foreign_files
    from trt_workbench.core.extensions import part
    from trt_workbench.report.reports import write_report

    folders = [directory for directory in directories if _holds_runs(directory)]
    history: Any = part("history", "history", "The history of a folder of runs") if folders else None
    runs = [directory for directory in directories if directory not in folders]
    if output is not None and folders[1:]:
        raise UsageProblem(f"--output takes the history of one folder, not of {len(folders)}: {output}")
    if output is not None and runs:
        from trt_workbench.overview.report import check_folder

        check_folder(output)
    written = []
    for directory in runs:
        with foreign_files(directory):
            written.append(write_report(directory))
    if output is not None and runs:
        from trt_workbench.decide import write_decision
        from trt_workbench.overview.report import write_overview

        written.append(write_overview(runs, output))
        if page := write_decision(runs, output, max_loss):
            written.append(page)
    histories = [history.write_history(folder, output or folder, over) for folder in folders]
    written += histories
    if as_json:
        print_json([str(path) for path in written])
    else:
        for path in written:
            typer.echo(path)
    if left := [text for page in histories for text in history.left_out(page)]:
        raise CheckFailed(f"{counted(len(left), 'run')} could not be read; the first: {left[0]}")


def _holds_runs(folder: Path) -> bool:
    """Whether a folder is no run directory itself and holds some, at most three levels down."""
    below = (run for depth in (1, 2, 3) for run in folder.glob("*/" * depth + "run.json"))
    return not (folder / "run.json").is_file() and any(below)
