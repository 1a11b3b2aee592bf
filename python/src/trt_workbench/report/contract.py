"""The report of a check-contract run, made from the files of its run directory alone."""

from __future__ import annotations

import json
from pathlib import Path

from trt_workbench.engine.documents import read_document
from trt_workbench.report.page import write_html
from trt_workbench.runs.artefacts import read_environment
from trt_workbench.runs.contract import ContractCheck


def write_report(directory: Path) -> Path:
    """Write `report.html` into a run directory of `check-contract`. It can be called again at any time.

    Args:
        directory: holds check.json and env.json.

    Returns:
        The path of report.html, one file that needs no other.

    Raises:
        UsageProblem: a file is missing, cut short or of another schema version.
    """
    document = read_document(directory / "check.json", ContractCheck)
    return write_html(
        directory,
        "contract.html.j2",
        document=document,
        contract=json.dumps(document.contract, indent=1),
        environment=read_environment(directory),
    )
