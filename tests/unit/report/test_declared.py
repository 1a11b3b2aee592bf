"""A table is declared once; the terminal, a page and Markdown show it."""

from pathlib import Path
from typing import Any

import pytest

from trt_workbench.console.common import print_table
from trt_workbench.report.page import render
from trt_workbench.report.tables import ROOMY, Cell, Column, Table, verdict

ROWS: list[dict[str, Any]] = [
    {"name": "a <b> [red]", "ms": {"p50": 1.25}, "ends": (1.0, 1.5), "word": "passed", "why": "fine", "page": None},
    {"name": "b|c", "ms": None, "ends": None, "word": "wrong", "why": "it|is [not]", "page": "x y/report.html"},
]
COLUMNS = (
    Column("name", "name"),
    Column("latency", "ms.p50", 3, unit="ms", better="lower", interval="ends"),
    Column("verdict", verdict("word", "why")),
    Column("report", lambda row: row["page"] and Cell("here", link=row["page"]), places=ROOMY),
    Column("in a terminal", "why", places=("terminal",)),
    Column("that no row has", "absent"),
    Column("in which no row says anything", lambda _: ""),
    Column("curve", lambda row: Cell(drawn=row["name"]), places=("page",)),
)
TABLE = Table(COLUMNS, ROWS, "T", ["A [note]."], best=ROWS[1])


def rendered(tmp_path: Path, kind: str, text: str) -> str:
    template = tmp_path / f"one.{kind}.j2"
    template.write_text(text)
    return render(template, table=TABLE)


def test_on_a_page(tmp_path: Path) -> None:
    page = rendered(tmp_path, "html", '{% from "report/table.html.j2" import section %}{{ section(table, true) }}')
    first, second = (line for line in page.splitlines() if "<td" in line)
    assert '<section class="warning">\n<h2>T</h2>' in page
    assert '<th class="text">name</th><th title="lower is better">latency, ms</th>' in page
    assert "in a terminal" not in page
    assert "no row" not in page
    assert first == (
        '<tr><td class="text">a &lt;b&gt; [red]</td><td>1.250<span class="soft">1.000 to 1.500</span></td>'
        '<td class="text"><span class="pill good" title="fine">passed</span></td><td class="text">\N{EN DASH}</td>'
        '<td class="text">a &lt;b&gt; [red]</td></tr>'
    )
    assert '<tr class="best"><td class="text">b|c</td><td>\N{EN DASH}</td>' in second
    assert '<a href="x%20y/report.html">here</a>' in second
    assert '<p class="soft">A [note].</p>' in page


def test_in_markdown(tmp_path: Path) -> None:
    assert rendered(tmp_path, "md", '{% include "report/table.md.j2" %}').split("\n\n")[0].splitlines() == [
        "| name | latency, ms | verdict | report |",
        "| --- | --: | --- | --- |",
        "| a &lt;b&gt; \\[red\\] | 1.250 (1.000 to 1.500) | ✓ passed | \N{EN DASH} |",
        "| b\\|c | \N{EN DASH} | ✗ wrong | here |",
    ]


def test_in_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    print_table(TABLE)
    lines = [
        " ".join(line.replace("│", " ").replace("┃", " ").split()) for line in capsys.readouterr().out.splitlines()
    ]
    for line in (
        "T",
        "name latency, ms verdict in a terminal",
        "a <b> [red] 1.250 passed fine",
        "b|c - wrong it|is [not]",
    ):
        assert line in lines


def test_numbers_stand_at_the_right_and_yes_or_no_does_not() -> None:
    rows = [(1, True, "a", None, 0.5), (None, False, "b", 2, 1.5)]
    table = Table(("count", "held", "name", "absent once", Column("time", "4", unit="ms")), rows)
    assert table.numeric("terminal") == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (float("nan"), "\N{EN DASH}"),
        (True, "yes"),
        (-0.0001, "0.00"),
        (-1.5, "\N{MINUS SIGN}1.50"),
    ],
)
def test_what_a_value_is_in_words(value: object, text: str) -> None:
    assert Column("", "", 2).worded(value) == text


def test_without_rows_the_headings_say_what_there_is_none_of(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Table(("class", Column("found", "1", places=("terminal",))), [], "Classes"))
    said = capsys.readouterr().out.split()
    assert {"Classes", "class", "found"} <= set(said)
