"""Long tables are folded, but not within what is folded."""

from pathlib import Path

import pytest

from trt_workbench.overview.report import Overview
from trt_workbench.overview.runs import RunAnswer, run_tables
from trt_workbench.report.page import render
from trt_workbench.report.tables import Table


@pytest.mark.parametrize(("rows", "within", "folds"), [(30, "false", 0), (31, "false", 1), (31, "true", 0)])
def test_long_tables_alone_are_folded(tmp_path: Path, rows: int, within: str, folds: int) -> None:
    template = tmp_path / "page.html.j2"
    template.write_text('{% from "report/table.html.j2" import shown %}{{ shown(table, ' + within + ") }}")
    page = render(template, table=Table(("h",), [("x",)] * rows))
    assert page.count("<details>") == page.count("</details>") == page.count(f"<summary>{rows} rows</summary>") == folds


def test_every_page_is_folded_and_what_is_text_is_not() -> None:
    named = dict.fromkeys(("run_id", "directory", "status", "answer", "machine"), "1")
    named["started_at"] = "2026-01-01T00:00:00Z"
    overview = Overview(runs=[RunAnswer(command="<table>", verdict=None, **named)] * 40)
    runs = run_tables(overview.runs, Path())
    page = render("overview/report.html.j2", overview=overview, tables=[], runs=runs, folder=Path())
    assert page.count("<details>") == page.count("</details>") == 1
    assert "<summary>28 earlier runs</summary>" in page
    assert page.count('&lt;table&gt;<span class="soft">1</span>') == 40
