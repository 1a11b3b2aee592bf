"""Make the report of any run directory again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trt_workbench.engine.documents import read_document
from trt_workbench.errors import UsageProblem
from trt_workbench.runs.artefacts import Run, foreign_files


def rewrite_report(directory: Path) -> Path:
    """Write the report of a run directory again, by the command that made it; return the path of report.html.

    Raises:
        UsageProblem: it is no finished run directory, of a command without a report, or its files are damaged.
        OSError: the report cannot be written.
    """
    with foreign_files(directory):
        return writer_of(command_of(directory), directory)(directory)


def command_of(directory: Path) -> str:
    """Return the name of the command that made a run directory.

    Raises:
        UsageProblem: run.json is absent, damaged or of another schema version.
    """
    return read_document(directory / "run.json", Run).command


def writer_of(command: str, directory: Path) -> Callable[[Path], Path]:
    """Return what writes the reports of a command. Raises UsageProblem for one that has none."""
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

    writers: dict[str, Callable[[Path], Path]] = {
        "bench": bench.write_report,
        "check-contract": contract.write_report,
        "check-target": targets.write_report,
        "decide": decide.write_report,
        "eval-coco": coco.write_report,
        "eval-llm": llm.write_report,
        "eval-stream": stream.write_report,
        "profile": profile.write_report,
        "quantize": search.write_report,
        "sensitivity": sensitivity.write_report,
        "verify": verify.write_report,
    }
    if command not in writers:
        raise UsageProblem(f"A run of {command} has no report; there are reports of {', '.join(writers)}: {directory}")
    return writers[command]
