"""The standard streams of a process: what happens when nobody reads, nothing fits, or a stream is closed."""

import os
import re
import subprocess
import sys
from typing import IO, Any

import pytest

CODE = "from trt_workbench.main import main; main()"
LIST = ("bench", "--list")


def run(*words: str, redirect: str = "", stdout: int | IO[Any] = subprocess.PIPE) -> tuple[int, str]:
    """Run a command under a shell that redirects its streams; return its exit code and stderr."""
    line = ["bash", "-c", f'exec "$@" {redirect}', "bash", sys.executable, "-c", CODE, *words]
    done = subprocess.run(line, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.returncode, re.sub(r"(?m)^\[\d+ s\] .*\n", "", done.stderr)  # where the machine is slow


@pytest.mark.parametrize("words", [LIST, ("--version",), ("--help",)], ids=" ".join)
def test_a_full_device_is_an_error(words: tuple[str, ...]) -> None:
    assert run(*words, redirect=">/dev/full") == (
        2,
        "error: The output is not writable (No space left on device).\n",
    )


def test_a_closed_output_is_an_error() -> None:
    assert run(*LIST, redirect=">&-") == (2, "error: The output is not writable (Bad file descriptor).\n")


def test_an_error_of_the_command_counts_more(tmp_path: Any) -> None:
    code, said = run("compare", str(tmp_path / "a"), str(tmp_path / "b"), redirect=">/dev/full")
    assert code == 2
    assert said.startswith("error: The run directory does not exist")


def test_a_reader_that_went_away_changes_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        assert run(*LIST, stdout=gone) == (0, "")


@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full"])
def test_an_error_that_cannot_be_said_keeps_its_exit_code(redirect: str, tmp_path: Any) -> None:
    assert run("compare", str(tmp_path / "a"), str(tmp_path / "b"), redirect=redirect)[0] == 2


@pytest.mark.parametrize("mebibytes", [60, 120, 150, 180, 300, 511])
def test_too_little_memory_is_an_error(mebibytes: int) -> None:
    line = f'ulimit -v {mebibytes * 1024}; OPENBLAS_NUM_THREADS=1 exec "$@"'
    done = subprocess.run(
        ["bash", "-c", line, "bash", sys.executable, "-c", CODE, "bench", "smoke", "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert mebibytes < 100 or f"limited to {mebibytes} MiB" in done.stderr
    assert "Traceback" not in done.stderr
