"""Values on hover: parts of a plot that say, in the words of a `<title>`, what is drawn there.

A plot says with `say_columns`, `say_rows` and `say_point` what its parts mean, in the units of its axes. When it is
written as SVG, an invisible area with a title covers each of them. Browsers show titles: no script is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS_PER_INCH = 72.0
_RADIUS = 6.0  # points
_MOST = 120  # strips of one plot: narrower ones cannot be hit
_LONGEST = 20  # lines of a title; browsers cut longer ones


Words = Mapping[int, str] | Mapping[float, str]
"""What to say, by the value of an axis."""


@dataclass(frozen=True)
class _Part:
    axes: Axes
    kind: Literal["column", "row", "point"]
    x: float
    y: float
    words: str


_PARTS: WeakKeyDictionary[Figure, list[_Part]] = WeakKeyDictionary()


def say_columns(axes: Axes, words: Words) -> None:
    """Say what is drawn at values of the horizontal axis; each has the strip up to the middle of its neighbours."""
    _add(axes, [_Part(axes, "column", x, 0.0, text) for x, text in _thinned(words).items()])


def say_rows(axes: Axes, words: Words) -> None:
    """Say what is drawn at values of the vertical axis, such as the bars of a list."""
    _add(axes, [_Part(axes, "row", 0.0, y, text) for y, text in _thinned(words).items()])


def say_point(axes: Axes, x: float, y: float, words: str) -> None:
    """Say what a single point is."""
    _add(axes, [_Part(axes, "point", x, y, words)])


def listed(heading: str, values: Mapping[str, str]) -> str:
    """Return words for a strip: its heading, then a line for each curve with its value."""
    lines = [f"{name}: {value}" for name, value in values.items()]
    more = [f"and {len(lines) - _LONGEST} more"] if len(lines) > _LONGEST else []
    return "\n".join([heading, *lines[:_LONGEST], *more])


def areas(drawing: Figure) -> str:
    """Return the areas with their titles as SVG, in points from the upper left corner of a figure that was drawn."""
    found = []
    parts = _PARTS.pop(drawing, [])
    for kind in ("column", "row", "point"):
        for axes in dict.fromkeys(part.axes for part in parts):
            found += _of_axes([part for part in parts if (part.axes, part.kind) == (axes, kind)], drawing)
    return "\n".join(found)


def _add(axes: Axes, parts: list[_Part]) -> None:
    drawing = axes.get_figure(root=True)
    assert drawing is not None  # every plot draws on axes of a figure
    _PARTS.setdefault(drawing, []).extend(parts)


def _thinned(words: Words) -> dict[float, str]:
    every = sorted((float(place), text) for place, text in words.items())
    return dict(every[:: max(-(-len(every) // _MOST), 1)])


def _of_axes(parts: list[_Part], drawing: Figure) -> list[str]:
    if not parts:
        return []
    scale, height = _POINTS_PER_INCH / drawing.dpi, drawing.get_figheight() * _POINTS_PER_INCH
    box = parts[0].axes.get_window_extent()
    left, right = box.x0 * scale, box.x1 * scale
    top, bottom = height - box.y1 * scale, height - box.y0 * scale
    drawn = parts[0].axes.transData.transform([(part.x, part.y) for part in parts]) * scale
    if parts[0].kind == "point":
        return [
            f'<circle class="spot" cx="{x:.1f}" cy="{height - y:.1f}" r="{_RADIUS:g}" '
            f'fill-opacity="0">{_title(part)}</circle>'
            for part, (x, y) in zip(parts, drawn, strict=True)
        ]
    is_column = parts[0].kind == "column"
    places = sorted(
        ((float(x) if is_column else height - float(y), part) for part, (x, y) in zip(parts, drawn, strict=True)),
        key=lambda one: one[0],
    )
    first, last = (left, right) if is_column else (top, bottom)
    middles = [(a + b) / 2 for (a, _), (b, _) in pairwise(places)]
    found = []
    for begin, end, (_, part) in zip([first, *middles], [*middles, last], places, strict=True):
        low, high = max(first, begin), min(last, end)
        if high <= low:  # outside of what is shown
            continue
        x, y, wide, tall = (low, top, high - low, bottom - top) if is_column else (left, low, right - left, high - low)
        found.append(
            f'<rect class="spot" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
            f'fill-opacity="0">{_title(part)}</rect>'
        )
    return found


def _title(part: _Part) -> str:
    return f"<title>{escape(part.words)}</title>"
