"""The report of a gate, made only from the files of its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.core.documents import read_document
from trt_workbench.gate.document import GateDocument
from trt_workbench.report.verdict import Headline


def answer(directory: Path) -> Headline:
    """Return what the page of a run says first; arguments and errors as of `view`."""
    return _answer(read_document(directory / "gate.json", GateDocument))


def _answer(found: GateDocument) -> Headline:
    said = [found.headline, *(f"{one.name}: {one.text}" for one in found.checks if not one.passed)]
    return Headline(said, "passed" if found.passed else "failed")


def view(directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows.

    Args:
        directory: holds gate.json.

    Raises:
        UsageProblem: the file is missing, cut short or of another schema version.
    """
    found = read_document(directory / "gate.json", GateDocument)
    return {**_answer(found)._asdict(), "found": found, "name": Path(found.model).name}
