"""Small curves of a few values, for the cells of a table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from trt_workbench.report.verdict import tone

if TYPE_CHECKING:
    from markupsafe import Markup

_WIDTH, _HEIGHT, _EDGE = 120, 28, 4.0
_LEAST = 0.1  # of the value, from the lower edge to the upper one: noise is not to look like change


class Spot(NamedTuple):
    """One value of a curve.

    Attributes:
        said: what it is, shown on hover.
        stable: whether it is relied on; a hollow spot is left out of the line.
        verdict: a word that gives it a colour.
    """

    value: float
    said: str
    stable: bool = True
    verdict: str | None = None


def sparkline(spots: Sequence[Spot], name: str) -> Markup:
    """Return a curve with a spot for each value, in their order.

    Args:
        spots: at least one.
        name: what it shows, for those who cannot see it.
    """
    from markupsafe import Markup, escape

    values = [spot.value for spot in spots]
    middle, reach = (max(values) + min(values)) / 2, max(max(values) - min(values), _LEAST * abs(median(values))) or 1.0
    step = (_WIDTH - 2 * _EDGE) / max(1, len(values) - 1)
    drawn = [
        (_EDGE + step * place, _HEIGHT / 2 - (_HEIGHT - 2 * _EDGE) * (spot.value - middle) / reach, spot)
        for place, spot in enumerate(spots)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, spot in drawn if spot.stable)
    parts = [f'<polyline points="{line}" fill="none" stroke="var(--accent)"/>']
    for x, y, spot in drawn:
        colour = f"var(--{tone(spot.verdict) if spot.verdict else 'accent' if spot.stable else 'doubt'})"
        look = f'fill="{colour}"' if spot.stable else f'fill="var(--panel)" stroke="{colour}"'
        size = 3 if spot.verdict else 2
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" {look}><title>{escape(spot.said)}</title></circle>')
    size_ = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return Markup(f'<svg class="spark" role="img" aria-label="{escape(name)}" {size_}>{"".join(parts)}</svg>')
