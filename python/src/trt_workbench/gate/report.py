"""The report of a gate, made only from the files of its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.core.documents import reader
from trt_workbench.gate.document import GateDocument
from trt_workbench.report.verdict import Headline

read = reader("gate.json", GateDocument)


def answer(found: GateDocument) -> Headline:
    """Return what the page of a run says first."""
    return Headline([found.headline], found.reach.word())


def view(found: GateDocument, _directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    return {"found": found, "name": Path(found.model).name}
