"""What a template puts in is text, whatever it holds."""

import html
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from trt_workbench.gate.document import GateCheck, GateDocument
from trt_workbench.gate.document import markdown as step_summary
from trt_workbench.overview.report import Overview
from trt_workbench.profile.report import Strips
from trt_workbench.report.page import markdown, one_line, render
from trt_workbench.report.tables import Cell, Column, Table, small

PARSER = MarkdownIt("gfm-like", {"linkify": False})
MARKUP = st.text(st.sampled_from('ab1 _*`[]()<>|~$&;#+-=.!\\\n\t\x00\x1b\u202e\ud800:/"'), max_size=40)


def text_of(rendered: str) -> str:
    """The text of HTML that holds nothing but the expected tags."""
    bare = re.sub(r"</?(?:table|thead|tbody|tr|th|td|ul|li|p)(?: style=\"[a-z:-]*\")?>", "", rendered)
    assert not re.search(r"<\w", bare), rendered
    return html.unescape(bare)


@settings(deadline=None, max_examples=400)
@given(MARKUP)
def test_in_a_cell(value: str) -> None:
    rendered = PARSER.render(f"| h | i |\n| --- | --- |\n| {markdown(value)} | end |\n")
    assert text_of(rendered).split() == ["h", "i", *one_line(value).split(), "end"]


@settings(deadline=None, max_examples=400)
@given(MARKUP)
def test_in_an_item_of_a_list(value: str) -> None:
    rendered = PARSER.render(f"- {markdown(value)}\n- end\n")
    assert rendered.count("<li>") == 2
    assert text_of(rendered).split() == [*one_line(value).split(), "end"]


def rows_of(source: str) -> list[list[str]]:
    """The texts of the cells of the only table, which ends what a parser of Markdown makes of a text."""
    rendered = PARSER.render(source)
    assert rendered.count("<table>") == 1, rendered
    assert rendered.endswith("</table>\n"), rendered
    return [
        [text_of(cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr>(.*?)</tr>", rendered, re.DOTALL)
    ]


@settings(deadline=None, max_examples=200)
@given(MARKUP, MARKUP, MARKUP)
def test_in_a_declared_table(heading: str, value: str, below: str) -> None:
    columns = (Column(heading, "0"), Column("said", lambda row: Cell(row[1], row[2])), Column("end", "3"))
    rows = [(value, value, below, "end"), ("a", "b", "", "end")]  # a column needs a row that says something
    head, row, last = rows_of(render("report/table.md.j2", table=Table(columns, rows)))
    assert [cell.split() for cell in head] == [one_line(heading).split(), ["said"], ["end"]]
    said = f"{one_line(value)} ({one_line(below)})" if below else one_line(value)
    assert [cell.split() for cell in row] == [one_line(value).split(), said.split(), ["end"]]
    assert last == ["a", "b", "end"]


@settings(deadline=None, max_examples=200)
@given(MARKUP, MARKUP)
@example("a|b.onnx", "a|b <b>c</b> `d`\n\n| e |\n```\n# f")
def test_in_a_step_summary(model: str, text: str) -> None:
    checks = [
        GateCheck(name="verify", passed=False, exit_code=1, text=text, report=None, seconds=1),
        GateCheck(name="score", passed=True, exit_code=0, text="fine", report=None, seconds=2),
    ]
    summary = step_summary(GateDocument(model=model, passed=False, checks=checks))
    assert PARSER.render(summary).count("<h2>") == 1
    _, verify, score = rows_of(summary[summary.index("| check |") :])
    assert (verify[:2], verify[2].split(), verify[3]) == (["verify", "✗ failed"], one_line(text).split(), "1.0")
    assert score == ["score", "✓ passed", "fine", "2.0"]


def test_a_page_can_always_be_written() -> None:
    table = Table(("model",), [("\ud800",)], "Accuracy")
    page = render("overview/report.md.j2", overview=Overview(), tables=[table])
    page.encode()


def test_figures_of_any_size_have_three_digits() -> None:
    assert [small(value) for value in (None, 0.0, 6.7e-7, -0.5, 12345.0)] == [
        "\N{EN DASH}",
        "0",
        "6.70e-07",
        "-5.00e-01",
        "1.23e+04",
    ]


def test_a_time_is_for_people() -> None:
    run = {"command": "profile", "run_id": "1", "started_at": "2026-11-23T07:35:49+00:00"}
    names = ("sides", "said", "summary", "notes", "conditions")
    page = render(
        "profile/report.html.j2", title="m", run=run, environment={"command": "", "text": ""}, verdict=None,
        strips=Strips([], []), totals=Table((), ()), **dict.fromkeys(names, ()),
    )  # fmt: skip
    assert "started 2026-11-23 07:35 UTC" in page
