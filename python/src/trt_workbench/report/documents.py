"""The JSON files of a run directory, read back and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trt_workbench.bench.artefacts import read_json_object
from trt_workbench.errors import UsageProblem

SCHEMA_VERSION = 1


def read_document(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        UsageProblem: the file is missing, cut short or of another schema version.
    """
    document = read_json_object(path)
    found = document.get("schema_version")
    if found != SCHEMA_VERSION:
        msg = f"Schema version {found} is not {SCHEMA_VERSION}, which this release reads: {path}"
        raise UsageProblem(msg)
    return document


def read_json(path: Path) -> Any:
    """Return what a JSON file holds. Raises UsageProblem if it is missing or cut short."""
    return _parse(_read(path), path)


def read_json_lines(path: Path) -> list[Any]:
    """Return what each line of a JSON Lines file holds. Raises UsageProblem if it is missing or cut short."""
    return [_parse(line, path) for line in _read(path).splitlines()]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        msg = f"The run directory is incomplete, a file is missing: {path}"
        raise UsageProblem(msg) from error


def _parse(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        msg = f"Not valid JSON ({error}); the file is cut short or was changed: {path}"
        raise UsageProblem(msg) from error
