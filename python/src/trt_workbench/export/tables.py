"""The records of a run as one Parquet table: a row a record, the run's own facts in every row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trt_workbench.core.artefacts import read_environment, run_document
from trt_workbench.core.documents import read_lines
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.files import anything, atomic_writer
from trt_workbench.core.launcher import package


def require_pyarrow() -> None:
    """Raise ComponentMissing unless pyarrow can be imported, which is an optional package."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ComponentMissing(
            f"Parquet needs the package pyarrow (50 MB), which cannot be imported ({error}). {package('pyarrow')}"
        ) from error


def write_table(directory: Path, path: Path) -> int:
    """Write the records of a run as a Parquet table, read it back, and return how many rows it has.

    Raises:
        UsageProblem: the run has no records, or they are damaged.
        OSError: the file cannot be written.
    """
    import pyarrow
    import pyarrow.parquet

    records = read_lines(directory / "records.jsonl", dict[str, Any])
    if not records:
        raise UsageProblem(f"The run has no records: {directory / 'records.jsonl'}")
    facts = _facts(directory)
    columns = _columns({**facts, **_flat(record)} for record in records)
    table = pyarrow.table({name: _array(values) for name, values in columns.items()})
    with atomic_writer(path, over=anything) as file:
        pyarrow.parquet.write_table(table, file)
    found = pyarrow.parquet.read_table(path)
    assert found.equals(table), "the table that was written is not the one that is read back"
    return int(found.num_rows)


def _facts(directory: Path) -> dict[str, Any]:
    run, environment = run_document(directory), read_environment(directory)
    return {
        "run_command": run.command,
        "run_id": run.run_id,
        "run_started_at": run.started_at,
        "run_status": run.status,
        "run_commit": environment.git.commit,
        "run_gpu": environment.driver.gpu_names or None,
        "run_driver": environment.driver.driver_version,
    }


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with a column for each figure one level down; what lies deeper is JSON text."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict) and all(not isinstance(one, dict | list) for one in value.values()):
            found |= {f"{name}_{key}": one for key, one in value.items()}
        else:
            found[name] = value
    return found


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the rows by column, None where a row lacks it."""
    every = list(rows)
    names = dict.fromkeys(name for row in every for name in row)
    return {name: [row.get(name) for row in every] for name in names}


def _array(values: list[Any]) -> Any:
    """Return a column of one type: truth values, integers, floats or text, of which JSON holds all else."""
    import pyarrow

    kinds = {type(one) for one in values if one is not None}
    for allowed, made in (({bool}, pyarrow.bool_()), ({int}, pyarrow.int64()), ({int, float}, pyarrow.float64())):
        if kinds and kinds <= allowed:
            return pyarrow.array(values, made)
    texts = [one if one is None or isinstance(one, str) else json.dumps(one) for one in values]
    return pyarrow.array(texts, pyarrow.string())
