"""The command line in this process."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.terminal import checked_fit
from tests.waiting import wait_until
from typer.testing import CliRunner, Result

from trt_workbench.app import app_for
from trt_workbench.console import tables
from trt_workbench.core.records import Record, read_records


def trtw(*words: object) -> Result:
    """Run `trtw WORDS`; what would be a traceback fails the test, and so does a table that 80 columns spoil."""
    texts = [str(word) for word in words]
    with patch.object(tables, "fit", checked_fit):
        result = CliRunner().invoke(app_for(texts), texts)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result


def stdout_of(*words: object, code: int = 0) -> str:
    """Run `trtw WORDS`, which ends with this exit code; return what it prints."""
    result = trtw(*words)
    assert result.exit_code == code, result.output
    return result.stdout


def json_of(*words: object, code: int = 0) -> Any:
    """Run `trtw WORDS --json`, which ends with this exit code; return the document that it prints."""
    return json.loads(stdout_of(*words, "--json", code=code))


def stderr_of(*words: object, code: int = 2) -> str:
    """Run `trtw WORDS`, which fails with this exit code; return what it says. What is refused prints nothing."""
    result = trtw(*words)
    assert result.exit_code == code, result.output
    assert code not in (2, 3) or not result.stdout, result.stdout
    return result.stderr


def next_lines(capsys: pytest.CaptureFixture[str], count: int = 2) -> list[str]:
    """Wait for so many lines on stderr from now on, and return them: the first may have been worded before."""
    capsys.readouterr()
    text = ""

    def has_come() -> bool:
        nonlocal text
        text += capsys.readouterr().err
        return text.count("\n") >= count

    wait_until(has_come)
    return text.splitlines()


def measured(run: Path) -> list[Record]:
    """Return the records of a run of `bench`."""
    return read_records(run / "records.jsonl")
