"""Self-contained HTML pages, and Markdown, from the templates of this package.

Names of models, categories and files come from anywhere: whatever a template puts in is escaped, in both languages.
"""

from __future__ import annotations

import base64
import datetime
import math
import os
import re
import sys
import urllib.parse
from pathlib import Path
from typing import Any

from trt_workbench import __version__
from trt_workbench.core.errors import printable
from trt_workbench.core.input_files import read_bytes
from trt_workbench.core.percent import share
from trt_workbench.core.statistics.summary import claimed
from trt_workbench.report.svg import within_page

_GENERATOR = b'<meta name="generator" content="trt-workbench">'
# What Markdown, or HTML inside it, takes for more than itself wherever it stands; and an underscore at a word's edge.
_MARKUP = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")
# What makes a heading, a list, a quotation or a rule of the line that begins with it.
_BEGINNING = re.compile(r"^(?:[#+\-=]|(?:\d{1,9})(?=[.)](?:\s|$)))")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def one_line(text: str) -> str:
    """Return a whole text as one printable line."""
    return printable(" ".join(text.split()), sys.maxsize)


class Ready(str):
    """A piece of Markdown that is put in as it is."""

    __slots__ = ()


def markdown(value: Any) -> Any:
    """Escape a value for one line of Markdown, a cell of a table among them; what is no text stays as it is."""
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


def render(template: str, **values: Any) -> str:
    """Render a template with everything escaped; an undefined name is an error, never an empty place.

    Args:
        template: its path in the package, such as `bench/report.html.j2`.
        values: what the template names.
    """
    import jinja2

    is_html = template.endswith(".html.j2")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parents[1]),
        autoescape=is_html,
        finalize=None if is_html else markdown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "figure": _figure,
        "mebibytes": _mebibytes,
        "moment": _moment,
        "percent": percent,
        "claimed": claimed,
        "share": share,
    }
    environment.filters |= {"fenced": _fenced, "link": _link, "picture": _picture, "small": small}
    text = environment.get_template(template).render(version=__version__, **values)
    # halves of surrogate pairs, which JSON may hold and UTF-8 may not
    return text.encode(errors="replace").decode()


def is_our_page(path: Path) -> bool:
    """Whether a file is a page that `render` made."""
    return path.is_file() and _GENERATOR in read_bytes(path)[:1000]


def _figure(value: float | None, digits: int = 4) -> str:
    """Format a figure, or a dash where there is none."""
    return "\N{EN DASH}" if value is None else f"{value:.{digits}f}"


def small(value: float | None, *, signed: bool = False) -> str:
    """Format a figure of any size with three digits: 6.70e-07, 0, or a dash where there is none."""
    if value is None:
        return "\N{EN DASH}"
    return f"{value:+.2e}" if signed and value else f"{value:.2e}" if value else "0"


def percent(share: float) -> str:
    """Format a share in whole percent, rounded down: an interval must not claim more than it covers."""
    return f"{math.floor(100 * share + 1e-9)} %"


def _mebibytes(value: float | None) -> str:
    """Format bytes as MiB, or a dash where there is none."""
    return "\N{EN DASH}" if value is None else f"{value / 2**20:.0f}"


def _moment(text: str) -> str:
    """Format a time in ISO 8601, as run.json has it, for people; another text stays as it is."""
    try:
        return f"{datetime.datetime.fromisoformat(text).astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):
        return text


def _picture(path: Path, title: str) -> str:
    """Return a plot as HTML that needs no other file: an SVG as it is, a PNG as a data URL."""
    from markupsafe import Markup, escape

    if path.suffix == ".svg":
        return Markup(within_page(path, title))
    url = "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    return Markup('<img src="{}" alt="{}">').format(url, escape(title))
