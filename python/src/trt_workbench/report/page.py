"""Self-contained HTML pages, and Markdown, from the templates of this package."""

from __future__ import annotations

import base64
import datetime
import math
from pathlib import Path
from typing import Any

from trt_workbench import __version__


def render(template: str, **values: Any) -> str:
    """Render a template, HTML with everything escaped; an undefined name is an error, never an empty place.

    Args:
        template: a file name in `report/templates`.
        values: what the template names.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trt_workbench.report"),
        autoescape=template.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": _figure, "mebibytes": _mebibytes, "moment": _moment, "percent": percent}
    return environment.get_template(template).render(version=__version__, **values)


def _figure(value: float | None, digits: int = 4) -> str:
    """Format a figure, or a dash where there is none."""
    return "\N{EN DASH}" if value is None else f"{value:.{digits}f}"


def percent(share: float) -> str:
    """Format a share in whole percent, rounded down: an interval must not claim more than it covers."""
    return f"{math.floor(100 * share + 1e-9)} %"


def _mebibytes(value: float | None) -> str:
    """Format bytes as MiB, or a dash where there is none."""
    return "\N{EN DASH}" if value is None else f"{value / 2**20:.0f}"


def _moment(text: str) -> str:
    """Format a time in ISO 8601, as run.json has it, for people."""
    return f"{datetime.datetime.fromisoformat(text).astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"


def image_width(path: Path) -> int:
    """Return the width of a PNG in pixels."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(20)[16:], "big")  # the header chunk comes first, width before height


def image_url(path: Path) -> str:
    """Return a PNG as a data URL, so that the page needs no other file."""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
