"""Self-contained HTML pages, and Markdown, from the templates of this package.

Names of models, categories and files come from anywhere: all that a template inserts is escaped, in both languages.
"""

from __future__ import annotations

import base64
import datetime
import functools
import io
import os
import re
import sys
import urllib.parse
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench import __version__
from trt_workbench.core.counts import counted, mebibytes, sized
from trt_workbench.core.errors import printable
from trt_workbench.core.input_files import read_bytes
from trt_workbench.core.machines import other_machine
from trt_workbench.core.percent import change, covered, limit, share, signed
from trt_workbench.core.statistics.summary import claimed
from trt_workbench.core.verification import Mark
from trt_workbench.report.builds import layers, measured
from trt_workbench.report.hover import areas
from trt_workbench.report.tables import NONE, Cell, Column, small
from trt_workbench.report.verdict import tone

if TYPE_CHECKING:
    import jinja2
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
    """Return an SVG that `written` made, to be inserted into a page unchanged.

    Args:
        path: the file.
        title: what it shows, for those who cannot see it.
    """
    return path.read_text(encoding="utf-8").replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def evidence_from(folder: Path) -> Callable[[Mark | None], Cell]:
    """Return a function from a mark, as records and metrics hold it, to what a page in a folder says of it.

    Its verdict leads to the page of the verification, else to its figures, as far as they are still there.
    """

    def cell(mark: Mark | None) -> Cell:
        if not mark:
            return Cell(NONE)
        files = [Path(mark["evidence"]) / name for name in ("report.html", "verify.json")] if mark["evidence"] else []
        link = next((os.path.relpath(path, folder) for path in files if path.is_file()), None)
        return Cell(mark["verdict"], verdict=mark["verdict"], title=mark["text"], link=link)

    return cell


_GENERATOR = b'name="generator" content="trt-workbench"'
# What Markdown, or HTML inside it, takes for more than itself wherever it stands; and an underscore at a word's edge.
_MARKUP = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")
# What makes a heading, a list, a quotation or a rule of the line that begins with it.
_BEGINNING = re.compile(r"^(?:[#+\-=]|(?:\d{1,9})(?=[.)](?:\s|$)))")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def one_line(text: str) -> str:
    """Return a whole text as one printable line."""
    return printable(" ".join(text.split()), sys.maxsize)


class Ready(str):
    """A piece of Markdown that is inserted unchanged."""

    __slots__ = ()


def markdown(value: Any) -> Any:
    """Escape a value for one line of Markdown, a cell of a table among them; other values are unchanged."""
    if isinstance(value, Ready) or not isinstance(value, str):
        return value
    line = one_line(value)
    line = _MARKUP.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), line)
    return _BEGINNING.sub(lambda found: f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}", line)


def _fenced(text: str) -> Ready:
    """Return a block of code, with a fence that the text does not hold."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return Ready(f"{fence}\n{text}\n{fence}")


def _link(path: str) -> Ready:
    """Return a relative path as an address: never one of a scheme, never the end of the markup around it."""
    return Ready(urllib.parse.quote(os.fsencode(path)))


def render(template: str | Path, **values: Any) -> str:
    """Render a template with everything escaped; an undefined name is an error, never empty.

    Args:
        template: its path in the package, such as `bench/report.html.j2`, or the file of a plug-in.
        values: what the template names.
    """
    is_html = str(template).endswith(".html.j2")
    environment = _environment(is_html)
    own = environment.from_string(template.read_text(encoding="utf-8")) if isinstance(template, Path) else None
    text = (own or environment.get_template(str(template))).render(version=__version__, **values)
    # halves of surrogate pairs, which JSON may hold and UTF-8 may not
    return text.encode(errors="replace").decode()


@functools.cache
def _environment(is_html: bool) -> jinja2.Environment:
    """Return what keeps the templates that were compiled, which takes longer than to render them."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parents[1]),
        autoescape=is_html,
        finalize=None if is_html else markdown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "counted": counted,
        "figure": lambda value, digits=4: Column("", "", digits).worded(value),
        "mebibytes": Column("", "", form=mebibytes).worded,
        "moment": moment,
        "claimed": claimed,
    }
    environment.filters |= {one.__name__: one for one in (change, covered, limit, share, signed, sized)}
    environment.filters |= {"fenced": _fenced, "link": _link, "picture": _picture, "small": small, "tone": tone}
    environment.filters |= {"apart_from": other_machine, "layers": layers, "measured": measured}
    return environment


def is_our_page(path: Path) -> bool:
    """Whether a file is a page that `render` made."""
    return path.is_file() and _GENERATOR in read_bytes(path)[:1000]


def moment(text: str) -> str:
    """Format a time in ISO 8601, as run.json has it, for people."""
    return f"{datetime.datetime.fromisoformat(text).astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"


def _picture(path: Path, title: str) -> str:
    """Return a plot as HTML that needs no other file: an SVG as it is, a PNG as a data URL."""
    from markupsafe import Markup, escape

    if path.suffix == ".svg":
        return Markup(within_page(path, title))
    url = "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    return Markup('<img src="{}" alt="{}">').format(url, escape(title))
