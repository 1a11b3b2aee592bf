"""The JSON files of a run directory, read back and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.errors import UsageProblem
from trt_workbench.runs.artefacts import SCHEMA_VERSION
from trt_workbench.system.input_files import parse_json, read_text


def read_json(path: Path) -> Any:
    """Return what a JSON file holds. Raises UsageProblem if it is missing or cut short."""
    return _parse(_read(path), path)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the object in each line of a JSON Lines file.

    Raises:
        UsageProblem: the file is missing or cut short, or a line is of another schema version.
    """
    # not splitlines: a name may hold other line separators, which JSON may leave as they are
    lines = [(number, line) for number, line in enumerate(_read(path).split("\n"), 1) if line]
    return [_record(line, f"{path}:{number}") for number, line in lines]


def _record(line: str, place: str) -> dict[str, Any]:
    document = _parse(line, place)
    found = document.get("schema_version") if isinstance(document, dict) else None
    if found != SCHEMA_VERSION:
        raise UsageProblem(f"This record has schema version {found}, this release reads {SCHEMA_VERSION}: {place}")
    return dict(document)


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except FileNotFoundError as error:
        raise UsageProblem(f"The run directory is incomplete, a file is missing: {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"The file cannot be read ({getattr(error, 'strerror', None) or error}): {path}") from error


def _parse(text: str, place: object) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise UsageProblem(f"Not valid JSON ({error}); the file is cut short or was changed: {place}") from error
