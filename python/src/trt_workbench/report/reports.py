"""The report of every kind of run: which module reads its files, and which templates show them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trt_workbench.core.artefacts import command_of, read_environment
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.extensions import part
from trt_workbench.core.files import write_text
from trt_workbench.core.shard_files import SHARD
from trt_workbench.report.page import evidence_from, render
from trt_workbench.report.verdict import Headline


class Report(NamedTuple):
    """How a run is reported.

    Attributes:
        module: where the report is, or the plug-in that has it, by an entry point. Its `read` reads what a run
            directory says, which the templates name `found`; `answer` makes what the page says first of it, and `view`,
            where there is one, what else they name, and draws into `plots/`. It is imported when such a report is
            written, as drawing takes long to import.
        templates: of `report.html`, and of further files of that name; that of a plug-in is next to its module.
    """

    module: str
    templates: tuple[str, ...] = ()


# By the command that makes the run directory.
REPORTS = {
    "bench": Report("trt_workbench.bench.report", ("bench/report.html.j2", "bench/report.md.j2")),
    "check-contract": Report("trt_workbench.stream.check.report", ("stream/check/report.html.j2",)),
    "check-target": Report("rtx"),
    "decide": Report("trt_workbench.decide.report", ("decide/report.html.j2",)),
    "eval-coco": Report("trt_workbench.vision.report", ("vision/report.html.j2",)),
    "eval-llm": Report("trt_workbench.llm.report", ("llm/report.html.j2",)),
    "eval-speech": Report("speech"),
    "eval-vision": Report("trt_workbench.evaluate.score", ("evaluate/report.html.j2",)),
    "eval-stream": Report("trt_workbench.stream.report", ("stream/report.html.j2",)),
    "gate": Report("trt_workbench.gate.document", ("gate/report.html.j2",)),
    "profile": Report("trt_workbench.profile.report", ("profile/report.html.j2",)),
    "quantize": Report("trt_workbench.quantize.search_report", ("quantize/search_report.html.j2",)),
    "sensitivity": Report("trt_workbench.quantize.sensitivity_report", ("quantize/sensitivity_report.html.j2",)),
    "upgrade": Report("trt_workbench.upgrade.report", ("upgrade/report.html.j2",)),
    "verify": Report("trt_workbench.verify.report", ("verify/report.html.j2",)),
}


def answer_of(directory: Path) -> Headline:
    """Return what the report of a run directory says first. Raises UsageProblem as `write_report` does."""
    module, _ = _report_of(directory)
    found: Headline = module.answer(module.read(directory))
    return found


def write_report(directory: Path) -> Path:
    """Write the report of a run directory, only from its files; it can be written again at any time.

    Returns:
        The path of report.html, one file that needs no other.

    Raises:
        UsageProblem: it is no finished run directory, of a command without a report, or a file is missing, cut short or
            of another schema version.
        OSError: the report cannot be written.
    """
    module, templates = _report_of(directory)
    found = module.read(directory)
    values = {"found": found, "environment": read_environment(directory), "evidence": evidence_from(directory)}
    values |= module.answer(found)._asdict() | (module.view(found, directory) if hasattr(module, "view") else {})
    for template in templates:
        write_text(directory / f"report{Path(template).suffixes[0]}", render(template, **values))
    return directory / "report.html"


def _report_of(directory: Path) -> tuple[Any, Sequence[str | Path]]:
    command = command_of(directory)
    if (directory / SHARD).is_file():
        raise UsageProblem(f"A shard has no report of its own; `trtw merge` makes one of all shards: {directory}")
    if command not in REPORTS:
        raise UsageProblem(f"`{command}` has no report; these commands have one: {', '.join(REPORTS)}: {directory}")
    name, templates = REPORTS[command]
    if templates:
        return importlib.import_module(name), templates
    module = part(f"{command} report", name, f"The report of `{command}`")
    return module, [Path(module.__file__).with_name("report.html.j2")]
