"""Long tables are folded, wherever they stand."""

from pathlib import Path

import pytest

from trt_workbench.overview.report import Overview
from trt_workbench.overview.runs import RunAnswer
from trt_workbench.report.page import MOST_ROWS, folded, render


def table(rows: int, cell: str = "x", head: str = "<tr><th>h</th></tr>") -> str:
    return f"<table>{head}{f'<tr><td>{cell}</td></tr>' * rows}</table>"


SCROLLED = '<div class="scroll">{}</div>'


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (table(MOST_ROWS), table(MOST_ROWS)),
        (table(31), f"<details><summary>31 rows</summary>\n{table(31)}\n</details>"),
        (
            f"a{SCROLLED.format(table(40))}b",
            f"a<details><summary>40 rows</summary>\n{SCROLLED.format(table(40))}\n</details>b",
        ),
        (f"<details>{table(40)}</details>", f"<details>{table(40)}</details>"),
        (
            f"<details></details>{table(40)}",
            f"<details></details><details><summary>40 rows</summary>\n{table(40)}\n</details>",
        ),
        # a cell that is folded belongs to its table
        (table(9, "<details>y</details>") + table(2), table(9, "<details>y</details>") + table(2)),
    ],
)
def test_long_tables_alone_are_folded(page: str, expected: str) -> None:
    assert folded(page) == expected


def test_every_page_is_folded_and_what_is_text_is_not() -> None:
    named = dict.fromkeys(("run_id", "directory", "status", "answer", "machine"), "1")
    named["started_at"] = "2026-01-01T00:00:00Z"
    overview = Overview(runs=[RunAnswer(command="<table>", verdict=None, **named)] * 40)
    page = render("overview/report.html.j2", overview=overview, folder=Path(), evidence=None, spark=None)
    assert page.count("<details>") == page.count("</details>") == 1
    assert "<summary>28 earlier runs</summary>" in page
    assert page.count('&lt;table&gt; <span class="soft">1</span>') == 40
