"""What people read on a narrow terminal."""

import io
import re
import time

import pytest
from rich.console import Console
from rich.table import Table
from tests.in_app import next_lines

from trt_workbench.console.common import handled, stdout_console
from trt_workbench.console.progress import EVERY_S, download_progress, progress_bar, pulse, waiting


def test_a_figure_is_whole_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "16")
    table = Table("runtime", "milliseconds")
    table.add_row("ort-cpu", "12345.6789")

    stdout_console(quiet=False).print(table)

    shown = capsys.readouterr().out
    assert "…" not in shown
    cells = [line.split("│") for line in shown.splitlines() if line.startswith("│")]
    assert "".join(row[2].strip() for row in cells) == "12345.6789"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_download_is_a_bar_in_a_terminal_and_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    monkeypatch.setattr("trt_workbench.console.progress.EVERY_S", 0.05)
    shown = io.StringIO()
    with download_progress(Console(file=shown, force_terminal=terminal, width=100)) as update, pulse():
        update(120_000_000, 731_000_000)
        first = [] if terminal else next_lines(capsys)
        update(240_000_000, 0 if not terminal else 731_000_000)
        second = [] if terminal else next_lines(capsys)
        time.sleep(0.2)
    if terminal:
        assert "240.0/731.0 MB" in shown.getvalue()
        assert capsys.readouterr().err == ""
    else:
        assert first[-1].endswith("s] Downloaded 120.0 MB of 731.0 MB")
        assert second[-1].endswith("s] Downloaded 240.0 MB")


def test_without_a_terminal_every_command_says_what_it_is_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The innermost thing that has something to say is what is said; nothing is, once the command ended."""
    monkeypatch.setattr("trt_workbench.console.progress.EVERY_S", 0.05)

    def said() -> str:
        return re.sub(r"^\[\d+ s\] ", "", next_lines(capsys)[-1])

    @handled
    def slow() -> None:
        assert said() == "Still running"
        with waiting("Opening") as update, progress_bar("images") as images, progress_bar("tokens") as tokens:
            advance, count = images("Evaluating"), tokens("Timing")
            assert said() == "Opening"
            update("Open")
            assert said() == "Open"
            advance(3, 40)
            assert re.fullmatch(r"Evaluating: 3 of 40 images, [\d.]+ images/s", said())
            count(0, 2)
            assert said() == "Timing: 0 of 2 tokens"
            count(0, 2, "loading a model")
            assert said() == "Timing: 0 of 2 tokens; loading a model"
            count(2, 2)
            assert said().startswith("Evaluating: 3 of 40")
            advance(40, 40)
            assert said() == "Open"

    slow()
    capsys.readouterr()
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_a_silent_command_speaks_within_five_seconds() -> None:
    assert EVERY_S < 5
