"""What a template puts in is text, whatever it holds."""

import html
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from trt_workbench.report.page import markdown, one_line, render

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
    row = {"model": "\ud800", "backend": None, "precision": None, "verification": None, "figures": {}}
    page = render(
        "overview.md.j2",
        overview={"runs": [], "accuracy": [row]} | dict.fromkeys(("speed", "winners", "problems", "unstable"), ()),
    )
    page.encode()
