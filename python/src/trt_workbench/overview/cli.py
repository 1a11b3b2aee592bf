"""`report`: make the reports of run directories again, from their files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_json


@handled
def report(
    *,
    directories: Annotated[list[Path], typer.Argument(metavar="RUN_DIR", help="Run directories.")],
    output: Annotated[
        Path | None, typer.Option(help="Folder for one overview of all runs: accuracy and speed.")
    ] = None,
    max_loss: Annotated[float, typer.Option(min=0.0, max=1.0, help="Acceptable loss of AP.")] = 0.005,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Write the reports of runs again, and an overview of them.

    Each run directory gets its report.html from its own files; --output DIR gets the overview. If two or more are
    evaluations of one data set, one of them in fp32, the folder also gets the page of `decide`.
    """
    from trt_workbench.core.artefacts import foreign_files
    from trt_workbench.decide import write_decision
    from trt_workbench.overview.report import check_folder, write_overview
    from trt_workbench.report.reports import write_report

    if output is not None:
        check_folder(output)
    written = []
    for directory in directories:
        with foreign_files(directory):
            written.append(write_report(directory))
    if output is not None:
        written.append(write_overview(directories, output))
        if page := write_decision(directories, output, max_loss):
            written.append(page)
    if as_json:
        print_json([str(path) for path in written])
    else:
        for path in written:
            typer.echo(path)
