"""A finished bench run as its directory holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trt_workbench.errors import UsageProblem, WorkbenchError
from trt_workbench.runs.records import Record, read_records
from trt_workbench.system.input_files import read_json

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True)
class BenchArtefacts:
    """The files of one bench run.

    Attributes:
        directory: the run directory.
        run: content of run.json.
        environment: content of env.json.
        config: content of config.json, the configuration as it was resolved.
        records: every record, in the order of measuring.
    """

    directory: Path
    run: dict[str, Any]
    environment: dict[str, Any]
    config: dict[str, Any]
    records: list[Record]


def read_bench_run(directory: Path) -> BenchArtefacts:
    """Read a bench run directory.

    Raises:
        UsageProblem: it is no run directory of `bench`, a file is missing, cut short or of another schema version.
    """
    run = read_document(directory / "run.json")
    if run.get("command") != "bench":
        raise UsageProblem(f"This is a run directory of {run.get('command')!r}, not of 'bench': {directory}")
    return BenchArtefacts(
        directory=directory,
        run=run,
        environment=read_document(directory / "env.json", "command_line"),
        config=read_document(directory / "config.json", "title"),
        records=read_records(directory / "records.jsonl"),
    )


@contextmanager
def foreign_files(directory: Path) -> Iterator[None]:
    """Treat whatever the block trips over as damage of the files that it reads, which come from anywhere.

    Raises:
        UsageProblem: in place of any error but those of the workbench, the system and the memory.
    """
    try:
        yield
    except (WorkbenchError, OSError, MemoryError):
        raise
    except Exception as error:  # keys that lack, values of other types: of readers, templates and libraries that draw
        raise UsageProblem(
            f"The files of this run directory do not fit together or were changed ({error!r}): {directory}"
        ) from error


def read_document(path: Path, *keys: str) -> dict[str, Any]:
    """Return the object in a JSON file of a run directory, which has to hold `keys`.

    Raises:
        UsageProblem: the file is absent, cut short, of another schema version, or lacks a key.
    """
    document = read_json_object(path)
    found = document.get("schema_version")
    if found != SCHEMA_VERSION:
        raise UsageProblem(f"Schema version {found} is not {SCHEMA_VERSION}, which this release reads: {path}")
    if missing := [key for key in keys if key not in document]:
        raise UsageProblem(f"This file lacks {missing[0]}; it was changed: {path}")
    return document


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a run directory.

    Raises:
        UsageProblem: the file or its folder is absent, or it is cut short or holds no object.
    """
    try:
        document = read_json(path)
    except OSError as error:
        if not path.parent.is_dir():
            what = "is a file, not a run directory" if path.parent.exists() else "does not exist"
            raise UsageProblem(f"The run directory {what}: {path.parent}") from error
        raise UsageProblem(
            f"The run directory is incomplete; {path.name} cannot be read ({error.strerror}): {path.parent}"
        ) from error
    except ValueError as error:
        raise UsageProblem(f"Not valid JSON ({error}); the file is cut short or was changed: {path}") from error
    if not isinstance(document, dict):
        raise UsageProblem(f"This file holds no JSON object; it was changed: {path}")
    return document
