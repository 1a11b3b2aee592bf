"""What a template puts in is text, whatever it holds."""

import html
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from trt_workbench.overview.report import Overview
from trt_workbench.profile.report import Strips
from trt_workbench.report.page import markdown, one_line, render
from trt_workbench.report.tables import Table, small

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
