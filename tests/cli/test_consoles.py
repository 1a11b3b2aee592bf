"""What people read on a narrow terminal."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from trt_workbench.cli.common import stdout_console
from trt_workbench.cli.progress import download_progress


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
def test_a_download_is_a_bar_in_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setattr("trt_workbench.cli.progress._EVERY_S", 0.0)
    shown = io.StringIO()
    with download_progress(Console(file=shown, force_terminal=terminal, width=100)) as update:
        update(120_000_000, 731_000_000)
        update(240_000_000, 0 if not terminal else 731_000_000)
    if terminal:
        assert "240.0/731.0 MB" in shown.getvalue()
        assert "Downloaded" not in shown.getvalue()
    else:
        assert shown.getvalue().splitlines() == [
            "Downloaded 120.0 MB of 731.0 MB in 0 s.",
            "Downloaded 240.0 MB in 0 s.",
        ]
