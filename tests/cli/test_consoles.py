"""What people read on a narrow terminal."""

import pytest
from rich.table import Table

from trt_workbench.cli.common import stdout_console


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
