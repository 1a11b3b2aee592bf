"""The report of every kind of run: which module reads its files, and which templates show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trt_workbench.engine.files import write_text
from trt_workbench.errors import UsageProblem
from trt_workbench.report import (
    bench,
    coco,
    contract,
    decide,
    llm,
    profile,
    search,
    sensitivity,
    stream,
    targets,
    verify,
)
from trt_workbench.report.page import render
from trt_workbench.runs.artefacts import command_of, read_environment


class Report(NamedTuple):
    """How a run is reported.

    Attributes:
        view: reads the files of a run directory, draws into its `plots/`, and returns what the templates name.
        templates: of `report.html`, and of further files of that name, in `report/templates`.
    """

    view: Callable[[Path], Mapping[str, Any]]
    templates: tuple[str, ...]


# By the command that makes the run directory.
REPORTS = {
    "bench": Report(bench.view, ("bench.html.j2", "bench.md.j2")),
    "check-contract": Report(contract.view, ("contract.html.j2",)),
    "check-target": Report(targets.view, ("targets.html.j2",)),
    "decide": Report(decide.view, ("decide.html.j2",)),
    "eval-coco": Report(coco.view, ("coco.html.j2",)),
    "eval-llm": Report(llm.view, ("llm.html.j2",)),
    "eval-stream": Report(stream.view, ("stream.html.j2",)),
    "profile": Report(profile.view, ("profile.html.j2",)),
    "quantize": Report(search.view, ("search.html.j2",)),
    "sensitivity": Report(sensitivity.view, ("sensitivity.html.j2",)),
    "verify": Report(verify.view, ("verify.html.j2",)),
}


def write_report(directory: Path) -> Path:
    """Write the report of a run directory, from its files alone; it can be written again at any time.

    Returns:
        The path of report.html, one file that needs no other.

    Raises:
        UsageProblem: it is no finished run directory, of a command without a report, or a file is missing, cut short or
            of another schema version.
        OSError: the report cannot be written.
    """
    command = command_of(directory)
    if command not in REPORTS:
        raise UsageProblem(f"A run of {command} has no report; there are reports of {', '.join(REPORTS)}: {directory}")
    view, templates = REPORTS[command]
    values = {"environment": read_environment(directory), **view(directory)}
    for template in templates:
        write_text(directory / f"report.{template.split('.')[1]}", render(template, **values))
    return directory / "report.html"
