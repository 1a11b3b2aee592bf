"""The command line in this process."""

from pathlib import Path

from typer.testing import CliRunner, Result

from trt_workbench.cli.app import app
from trt_workbench.runs.records import Record, read_records


def trtw(*words: object) -> Result:
    """Run `trtw WORDS`; what would be a traceback fails the test."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result


def measured(run: Path) -> list[Record]:
    """Return the records of a run of `bench`."""
    return read_records(run / "records.jsonl")
