"""Small pictures of series of runs, for the cells of a table."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

    from trt_workbench.overview.history import HistorySeries

_WIDTH, _HEIGHT, _EDGE = 120, 28, 4.0
_LEAST = 0.1  # of the figure, from the lower edge to the upper one: noise is not to look like change


def sparkline(series: HistorySeries) -> Markup:
    """Return a series as a line with a dot for each run; a change has its colour, an unstable run is hollow."""
    from markupsafe import Markup, escape

    values = [point.value for point in series.points]
    middle, reach = (max(values) + min(values)) / 2, max(max(values) - min(values), _LEAST * abs(median(values)))
    step = (_WIDTH - 2 * _EDGE) / max(1, len(values) - 1)
    places = [
        (_EDGE + step * place, _HEIGHT / 2 - (_HEIGHT - 2 * _EDGE) * (value - middle) / (reach or 1.0))
        for place, value in enumerate(values)
    ]
    colours = {one.run_id: "good" if one.outcome == "improvement" else "bad" for one in series.changes}
    line = " ".join(f"{x:.1f},{y:.1f}" for (x, y), one in zip(places, series.points, strict=True) if not one.doubts)
    parts = [f'<polyline points="{line}" fill="none" stroke="var(--accent)"/>']
    for (x, y), one in zip(places, series.points, strict=True):
        colour = f"var(--{colours.get(one.run_id, 'accent')})"
        look = f'fill="var(--panel)" stroke="{colour}"' if one.doubts else f'fill="{colour}"'
        said = escape(f"{one.started_at[:10]}, {one.run_id}: {one.value:.5g} {series.unit}".rstrip())
        size = 3 if one.run_id in colours else 2
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" {look}><title>{said}</title></circle>')
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    name = escape(f"{series.name}, run after run")
    return Markup(f'<svg role="img" aria-label="{name}" {size}>{"".join(parts)}</svg>')
