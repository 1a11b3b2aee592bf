"""A figure of matplotlib as SVG that follows the colours of the page around it."""

from __future__ import annotations

import io
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from trt_workbench.report.hover import areas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What the plots draw with, as the page names it; the colour itself holds where there is no page.
_NAMED = {
    "#1f2933": "ink", "#52606d": "soft", "#9aa5b1": "weak", "#e4e7eb": "line", "#ffffff": "panel", "#2f6fb2": "accent",
    "#d6e4f2": "pale", "#c3cad3": "many", "#c0392b": "limit", "#e4f4ec": "allowed", "#00704f": "good",
    "#0072b2": "series-1", "#e69f00": "series-2", "#009e73": "series-3", "#d55e00": "series-4",
    "#cc79a7": "series-5", "#56b4e9": "series-6", "#8a8d00": "series-7", "#555555": "series-8",
}  # fmt: skip
_STYLE = re.compile(r'style="[^"]*"')
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
# Of matplotlib before and after 3.11.
_FAMILY = re.compile(r"(font: [^\"']*?px |font-family: )[^;\"]*")
# Wider than this many points, a picture scrolls on a phone instead of shrinking.
_WIDE = 400.0


def written(drawing: Figure) -> str:
    """Return a figure as SVG: text as text, titles on hover, colours by their names."""
    import matplotlib as mpl

    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "trt-workbench"}):
        drawing.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    body = text[text.index(">", text.index("<svg ")) + 1 : text.rindex("</svg>")]
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = _STYLE.sub(lambda style: _COLOUR.sub(_by_name, _FAMILY.sub(r"\1system-ui, sans-serif", style[0])), body)
    width, height = drawing.get_figwidth() * 72, drawing.get_figheight() * 72
    kind = "plot wide" if width > _WIDE else "plot"
    head = (
        f'<svg class="{kind}" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{width:.0f}pt" height="{height:.0f}pt" viewBox="0 0 {width:g} {height:g}">'
    )
    return f"{head}{body}{areas(drawing)}\n</svg>\n"


def _by_name(colour: re.Match[str]) -> str:
    name = _NAMED.get(colour[0])
    return f"var(--{name}, {colour[0]})" if name else colour[0]


def within_page(path: Path, title: str) -> str:
    """Return an SVG that `written` made, to be put into a page as it is.

    Args:
        path: the file.
        title: what it shows, for those who cannot see it.
    """
    return path.read_text(encoding="utf-8").replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
