"""The picture of a decision: loss of the score against latency, as SVG that follows the page's colours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from trt_workbench.report.style import PALETTE
from trt_workbench.runs.decision import BASELINE, Decision, Row

# Beyond this multiple of the bound a loss is drawn at the upper edge, with an arrow and its figure.
_MOST_BOUNDS, _LEAST_TOP = 6.0, 0.03
# Latencies further apart than this are drawn on a logarithmic axis.
_LINEAR = 20.0
_SMALLEST, _LARGEST = 5.0, 15.0  # radii, pixels
_CHARACTER, _LINE = 6.9, 15.0  # pixels of a label


@dataclass(frozen=True)
class _Box:
    """A rectangle in pixels: of a label, a point or an interval."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


@dataclass(frozen=True)
class _Point:
    """A row as it is drawn."""

    row: Row
    x: float
    y: float
    radius: float
    colour: str
    clipped: bool


class _Plot:
    """Axes of a picture of a given width."""

    def __init__(self, decision: Decision, width: float) -> None:
        self.decision, self.width = decision, width
        self.height = 440.0 if width > 500 else 400.0
        scored = [row for row in decision.rows if row.score]
        self.measured = [row for row in scored if row.speed]
        self.others = [row for row in scored if not row.speed]
        self.strip = (40.0 + 60.0 * len(self.others) if width > 500 else 78.0) if self.others else 0.0
        self.left, self.top, self.bottom = 74.0, 30.0, self.height - 50
        self.right = width - 14 - self.strip
        backends = dict.fromkeys(row.backend for row in scored)
        self.colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(backends)}
        self._choose_axes()

    def _choose_axes(self) -> None:
        losses = [value for row in self.measured + self.others for value in _ends(row)]
        bound = self.decision.max_loss
        cap = max(_MOST_BOUNDS * bound, _LEAST_TOP)
        self.low = min([0.0, *(max(value, -cap) for value in losses)])
        self.high = max([bound * 2, *(min(value, cap) for value in losses)])
        margin = 0.06 * (self.high - self.low or 1)
        self.low, self.high = self.low - margin, self.high + margin
        times = [
            value
            for row in self.measured
            if row.speed
            for value in (row.speed.latency_low_ms, row.speed.latency_high_ms)
        ]
        self.is_log = bool(times) and max(times) / min(times) > _LINEAR
        self.fastest = min(times, default=1.0) / 1.4 if self.is_log else 0.0
        # a long interval of a noisy machine must not press all else to the left
        middles = [row.speed.latency_ms for row in self.measured if row.speed]
        longest = min(max(times, default=1.0), 1.25 * max(middles, default=1.0))
        self.slowest = longest * (1.5 if self.is_log else 1.12)

    def x(self, latency: float) -> float:
        share = latency / self.slowest
        if self.is_log:
            share = math.log(latency / self.fastest) / math.log(self.slowest / self.fastest)
        return self.left + share * (self.right - self.left)

    def y(self, loss: float) -> float:
        inside = min(max(loss, self.low), self.high)
        return self.bottom - (inside - self.low) / (self.high - self.low) * (self.bottom - self.top)

    def points(self) -> list[_Point]:
        largest = max((row.size_bytes or 1 for row in self.decision.rows), default=1)
        found = []
        for place, row in enumerate([*self.measured, *self.others]):
            assert row.score is not None  # as they were chosen
            radius = max(_SMALLEST, _LARGEST * math.sqrt((row.size_bytes or 1) / largest))
            if row.speed:
                x = self.x(row.speed.latency_ms)
            else:
                number = place - len(self.measured)
                x = self.right + self.strip * (number + 0.7) / (len(self.others) + 0.4)
            clipped = row.score.loss > self.high
            y = self.top + radius if clipped else self.y(row.score.loss)
            found.append(_Point(row, x, y, radius, self.colours[row.backend], clipped))
        return found


def _ends(row: Row) -> tuple[float, ...]:
    assert row.score is not None  # as they were chosen
    return (row.score.loss, *(row.score.loss_ci95 or ()))


def scatter(decision: Decision, width: float) -> str:
    """Return the picture: rows at their latency and loss, with intervals, areas by size, and the frontier.

    Args:
        decision: with any number of rows that have a score.
        width: pixels; the text stays of one size.
    """
    plot = _Plot(decision, width)
    points = plot.points()
    title = f"Loss of {decision.figure} against latency"
    parts = [
        f'<svg class="scatter" viewBox="0 0 {width:.0f} {plot.height:.0f}" role="img" aria-label="{escape(title)}">',
        *_ground(plot),
        *(_frontier(points) if decision.told else ()),
        *(line for point in points for line in _intervals(plot, point)),
        *(line for point in sorted(points, key=lambda one: -one.radius) for line in _mark(decision, point)),
        *_labels(plot, points),
        "</svg>",
    ]
    return "\n".join(parts)


def _ground(plot: _Plot) -> Iterator[str]:
    """Yield the area that is allowed, the axes and their words."""
    bound = plot.decision.max_loss
    right = plot.right + plot.strip
    yield (
        f'<rect class="allowed" x="{plot.left:.1f}" y="{plot.y(bound):.1f}" width="{right - plot.left:.1f}" '
        f'height="{plot.bottom - plot.y(bound):.1f}"/>'
    )
    for value in _ticks(plot.low, plot.high, 6):
        y = plot.y(value)
        kind = "zero" if abs(value) < 1e-12 else "grid"
        yield f'<line class="{kind}" x1="{plot.left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        text = f"{value:g}".replace("-", "\N{MINUS SIGN}")
        yield f'<text class="tick" x="{plot.left - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    ticks = (
        _decades(plot.fastest, plot.slowest) if plot.is_log else _ticks(0, plot.slowest, 6 if plot.width > 500 else 4)
    )
    for value in ticks if plot.measured else ():
        x = plot.x(value)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{plot.top:.1f}" y2="{plot.bottom:.1f}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{plot.bottom + 17:.1f}" text-anchor="middle">{value:g}</text>'
    y = plot.y(bound)
    yield f'<line class="bound" x1="{plot.left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    yield f'<text class="tick bound-text" x="{plot.left + 5:.1f}" y="{y - 5:.1f}">allowed: {bound:g}</text>'
    middle = (plot.left + plot.right) / 2
    scale = " (logarithmic)" if plot.is_log else ""
    yield (
        f'<text class="axis" x="{middle:.1f}" y="{plot.bottom + 40:.1f}" text-anchor="middle">'
        f"latency of a call, ms{scale}: faster to the left</text>"
    )
    centre = (plot.top + plot.bottom) / 2
    yield (
        f'<text class="axis" transform="translate(12 {centre:.1f}) rotate(-90)" text-anchor="middle">'
        f"loss of {escape(plot.decision.figure)}: better below</text>"
    )
    if plot.strip:
        yield (
            f'<line class="edge" x1="{plot.right:.1f}" x2="{plot.right:.1f}" y1="{plot.top}" y2="{plot.bottom:.1f}"/>'
        )
        what = "simulated" if all(row.simulated for row in plot.others) else "no latency"
        x = plot.right + plot.strip / 2
        yield f'<text class="tick" x="{x:.1f}" y="{plot.top - 14:.1f}" text-anchor="middle">{what}</text>'


def _frontier(points: Sequence[_Point]) -> Iterator[str]:
    """Yield the steps along what nothing else beats in both latency and loss."""
    best: list[_Point] = []
    lowest = math.inf
    for point in sorted((one for one in points if one.row.speed and not one.clipped), key=lambda one: (one.x, -one.y)):
        if -point.y < lowest:
            best.append(point)
            lowest = -point.y
    if len(best) > 1:
        steps = [f"M{best[0].x:.1f} {best[0].y:.1f}"]
        steps += [f"H{point.x:.1f}V{point.y:.1f}" for point in best[1:]]
        yield f'<path class="frontier" d="{"".join(steps)}"/>'


def _intervals(plot: _Plot, point: _Point) -> Iterator[str]:
    score, speed = point.row.score, point.row.speed
    assert score is not None  # as they were chosen
    style = f'stroke="{point.colour}" class="interval"'
    if score.loss_ci95 and not point.clipped:
        low, high = (plot.y(value) for value in score.loss_ci95)
        yield f'<line {style} x1="{point.x:.1f}" x2="{point.x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
    if speed:
        low, high = plot.x(speed.latency_low_ms), min(plot.x(speed.latency_high_ms), plot.right)
        yield f'<line {style} x1="{low:.1f}" x2="{high:.1f}" y1="{point.y:.1f}" y2="{point.y:.1f}"/>'


def _mark(decision: Decision, point: _Point) -> Iterator[str]:
    row = point.row
    words = f"{row.label}: loss {row.score.loss:.4f}" if row.score else row.label
    words += f", {row.speed.latency_ms:.3g} ms" if row.speed else ""
    if row == decision.recommended:
        yield f'<circle class="chosen" cx="{point.x:.1f}" cy="{point.y:.1f}" r="{point.radius + 4:.1f}"/>'
    kind = "point" if row.speed else "point hollow"
    fill = point.colour if row.speed else "none"
    yield (
        f'<circle class="{kind}" cx="{point.x:.1f}" cy="{point.y:.1f}" r="{point.radius:.1f}" fill="{fill}" '
        f'stroke="{point.colour}"><title>{escape(words)}</title></circle>'
    )


def _labels(plot: _Plot, points: Sequence[_Point]) -> Iterator[str]:
    """Yield a label beside every point, where it covers neither a point nor another label."""
    several = len(plot.colours) > 1
    taken = [_Box(p.x - p.radius, p.y - p.radius, p.x + p.radius, p.y + p.radius) for p in points]
    order = sorted(points, key=lambda one: (one.row != plot.decision.recommended, one.row.precision != BASELINE))
    for point in order:
        row = point.row
        assert row.score is not None  # as they were chosen
        text = row.precision + (f" {row.backend}" if several and row.speed else "")
        text += f" \N{UPWARDS ARROW}{row.score.loss:.2f}" if point.clipped else ""
        length = _CHARACTER * len(text)
        box = next(
            (
                one
                for one in _places(point, length)
                if _inside(plot, one) and not any(one.meets(other) for other in taken)
            ),
            _free(plot, point, length, taken),
        )
        taken.append(box)
        kind = "label best" if row == plot.decision.recommended else "label"
        yield f'<text class="{kind}" x="{box.left:.1f}" y="{box.bottom - 4:.1f}">{escape(text)}</text>'


def _places(point: _Point, length: float) -> Iterator[_Box]:
    far = point.radius + 4
    for left, top in (
        (point.x + far, point.y - _LINE - 2),
        (point.x + far, point.y + 2),
        (point.x - far - length, point.y - _LINE - 2),
        (point.x - far - length, point.y + 2),
        (point.x - length / 2, point.y - far - _LINE),
        (point.x - length / 2, point.y + far),
    ):
        yield _Box(left, top, left + length, top + _LINE)


def _free(plot: _Plot, point: _Point, length: float, taken: Sequence[_Box]) -> _Box:
    """Return the nearest free place above or below, moved into the picture."""
    left = min(max(point.x - length / 2, plot.left), plot.width - 4 - length)
    for step in range(1, 40):
        for sign in (-1, 1):
            top = point.y + sign * step * 8
            box = _Box(left, top, left + length, top + _LINE)
            if plot.top <= top <= plot.bottom - _LINE and not any(box.meets(other) for other in taken):
                return box
    return _Box(left, point.y, left + length, point.y + _LINE)


def _inside(plot: _Plot, box: _Box) -> bool:
    return (
        box.left >= plot.left and box.right <= plot.width - 4 and box.top >= plot.top - 10 and box.bottom <= plot.bottom
    )


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return round values from `low` to `high`."""
    step = 10 ** math.floor(math.log10((high - low) / most))
    step *= next((factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most), 10)
    return [round(place * step, 12) for place in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 of every power of ten from `low` to `high`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [
        value for power in powers for value in (10.0**power, 2 * 10.0**power, 5 * 10.0**power) if low <= value <= high
    ]


def legend(decision: Decision) -> list[tuple[str, str]]:
    """Return the runtimes that are drawn with their colours; nothing to tell apart where there is one."""
    plot = _Plot(decision, 700)
    return list(plot.colours.items()) if len(plot.colours) > 1 else []
