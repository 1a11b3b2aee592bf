"""The picture of a decision: loss of the score against latency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.decide.document import BASELINE, Decision, DecisionRow
from trt_workbench.report.hover import say_point
from trt_workbench.report.style import INK, NARROW, PALETTE, by_powers, figure, label, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

# Beyond this multiple of the bound a loss is drawn at the upper edge, with an arrow and its figure.
_MOST_BOUNDS, _LEAST_TOP = 6.0, 0.03
# Latencies further apart than this are drawn on a logarithmic axis.
_LINEAR = 20.0
_SMALLEST, _LARGEST = 3.5, 10.0  # radii, points
# Shapes of precisions: colours are those of runtimes.
_SHAPES = "osD^vPXph<>*"
_GAP = 3.0  # points between a point and its label
_ALLOWED, _BOUND, _SOFT = "#e4f4ec", "#00704f", "#52606d"


@dataclass(frozen=True)
class _Point:
    """A row as it is drawn; the radius is in points."""

    row: DecisionRow
    x: float
    y: float
    radius: float
    colour: str
    shape: str
    clipped: bool


class _Scales:
    """Where losses and latencies lie: the ends of both axes, and a strip at the right for rows without a latency.

    Where no lower precision has one, the strip is all there is.
    """

    def __init__(self, decision: Decision, width: float) -> None:
        scored = [row for row in decision.rows if row.score]
        compares = any(row.precision != BASELINE and row.speed for row in scored)
        self.measured = [row for row in scored if row.speed and compares]
        self.others = [row for row in scored if row not in self.measured]
        first, each = (0.05, 0.07) if width > NARROW else (0.12, 0.06)
        self.strip = min(0.4, first + each * len(self.others)) if self.others else 0.0
        losses = [value for row in scored if row.score for value in (row.score.loss, *(row.score.loss_ci95 or ()))]
        bound = decision.max_loss
        cap = max(_MOST_BOUNDS * bound, _LEAST_TOP)
        low = min([0.0, *(max(value, -cap) for value in losses)])
        high = max([bound * 2, *(min(value, cap) for value in losses)])
        margin = 0.06 * (high - low or 1)
        self.low, self.high = low - margin, high + margin
        speeds = [row.speed for row in self.measured if row.speed]
        times = [value for speed in speeds for value in (speed.latency_low_ms, speed.latency_high_ms)]
        self.is_log = bool(times) and max(times) / min(times) > _LINEAR
        self.fastest = min(times, default=1.0) / 1.4 if self.is_log else 0.0
        # a long interval of a noisy machine must not squeeze the rest to the left
        longest = min(max(times, default=1.0), 1.25 * max((speed.latency_ms for speed in speeds), default=1.0))
        self.slowest = longest * (1.5 if self.is_log else 1.12)

    def across(self, share: float) -> float:
        """Return the latency at a share of the width that rows with a latency have; beyond 1 is the strip."""
        return self.fastest * (self.slowest / self.fastest) ** share if self.is_log else self.slowest * share

    @property
    def end(self) -> float:
        """The right end of the strip."""
        return self.across(1 / (1 - self.strip)) if self.measured else 1.0

    def points(self, decision: Decision) -> list[_Point]:
        """Return every row that has a score, with its place."""
        largest = max((row.size_bytes or 1 for row in decision.rows), default=1)
        rows = [*self.measured, *self.others]
        backends = list(dict.fromkeys(row.backend for row in decision.rows if row.score))
        precisions = list(dict.fromkeys(row.precision for row in decision.rows if row.score))
        found = []
        for place, row in enumerate(rows):
            assert row.score is not None  # as they were chosen
            aside = (place - len(self.measured) + 0.7) / (len(self.others) + 0.4)
            x = self.across(1 + self.strip / (1 - self.strip) * aside) if self.measured else aside
            x = row.speed.latency_ms if row.speed and self.measured else x
            clipped = row.score.loss > self.high
            y = self.high - 0.05 * (self.high - self.low) if clipped else max(row.score.loss, self.low)
            radius = max(_SMALLEST, _LARGEST * math.sqrt((row.size_bytes or 1) / largest))
            colour = PALETTE[backends.index(row.backend) % len(PALETTE)]
            shape = _SHAPES[precisions.index(row.precision) % len(_SHAPES)]
            found.append(_Point(row, x, y, radius, colour, shape, clipped))
        return found


def draw_decision(decision: Decision, path: Path, width: float) -> Path:
    """Draw rows at their latency and loss, with intervals, areas by size, and the Pareto front of both.

    Args:
        decision: with any number of rows that have a score.
        path: of the file.
        width: inches.
    """
    scales = _Scales(decision, width)
    points = scales.points(decision)
    with figure(path, width=width, height=4.4) as axes:
        _ground(axes, decision, scales)
        if decision.latencies_distinguishable and len(line := frontier(points)) > 1:
            axes.step([one.x for one in line], [one.y for one in line], color=_SOFT, where="post", linewidth=1.2)
        for point in sorted(points, key=lambda one: -one.radius):
            _mark(axes, decision, scales, point)
        backends = {point.row.backend: point.colour for point in points}
        if len(backends) > 1:
            for name, colour in backends.items():
                axes.scatter([], [], color=colour, label=label(name))
            for name, shape in {point.row.precision: point.shape for point in points}.items():
                axes.scatter([], [], marker=shape, facecolors="none", edgecolors=INK, label=label(name))
            legend_below(axes)
        _name(axes, decision, points, several=len(backends) > 1)
    return path


def _ground(axes: Axes, decision: Decision, scales: _Scales) -> None:
    """Draw the area that is allowed, and the axes with their words."""
    bound = decision.max_loss
    axes.set(xlim=(scales.fastest, scales.end), ylim=(scales.low, scales.high))
    axes.axhspan(scales.low, bound, color=_ALLOWED, zorder=0)
    axes.axhline(0, color=_SOFT, linewidth=0.8)
    axes.axhline(bound, color=_BOUND, linestyle="--", linewidth=1.0)
    axes.annotate(
        f"allowed: {bound:g}", (0, bound), (4, 3), xycoords=axes.get_yaxis_transform(), textcoords="offset points",
        color=_BOUND, fontsize=8,
    )  # fmt: skip
    if scales.is_log:
        by_powers(axes, "x")
    ticks = axes.get_xticks() if scales.measured else ()
    axes.set_xticks([tick for tick in ticks if scales.fastest <= tick <= scales.slowest])
    if scales.measured and scales.strip:
        axes.axvline(scales.slowest, color=_SOFT, linestyle=":", linewidth=1.0)
        what = "simulated" if all(row.simulated for row in scales.others) else "no latency"
        place = 1 - scales.strip / 2
        axes.annotate(what, (place, 1), (0, 3), xycoords="axes fraction", textcoords="offset points", ha="center")
    if scales.measured:
        axes.set_xlabel("latency, ms (left is faster)", x=(1 - scales.strip) / 2)
    axes.set_ylabel(label(f"loss of {decision.figure} (lower is better)"))


def frontier(points: Sequence[_Point]) -> list[_Point]:
    """Return what nothing else beats in both latency and loss, from the fastest on."""
    best: list[_Point] = []
    for point in sorted((one for one in points if one.row.speed and not one.clipped), key=lambda one: (one.x, one.y)):
        if not best or point.y < best[-1].y:
            best.append(point)
    return best


def _mark(axes: Axes, decision: Decision, scales: _Scales, point: _Point) -> None:
    """Draw a point with its intervals, and say on hover what it is."""
    score, speed = point.row.score, point.row.speed
    assert score is not None  # as they were chosen
    line: dict[str, Any] = {"color": point.colour, "linewidth": 1.3, "alpha": 0.75}
    if score.loss_ci95 and not point.clipped:
        axes.plot([point.x, point.x], [max(scales.low, end) for end in score.loss_ci95], **line)
    if speed and scales.measured:
        axes.plot([speed.latency_low_ms, min(speed.latency_high_ms, scales.slowest)], [point.y, point.y], **line)
    if point.row == decision.recommended:
        ring = (2 * point.radius + 6) ** 2
        axes.scatter([point.x], [point.y], ring, marker=point.shape, facecolors="none", edgecolors=INK, linewidths=1.5)
    axes.scatter(
        [point.x], [point.y], (2 * point.radius) ** 2, alpha=0.8, zorder=3, linewidths=1.2, edgecolors=point.colour,
        facecolors=point.colour if speed else "none", marker=point.shape, linestyles="-" if speed else (0, (3, 2)),
    )  # fmt: skip
    words = f"{label(point.row.label)}: loss {score.words(score.loss)}" + (
        f", {speed.latency_ms:.3g} ms" if speed else ""
    )
    say_point(axes, point.x, point.y, words)


def _name(axes: Axes, decision: Decision, points: Sequence[_Point], *, several: bool) -> None:
    """Write a label next to every point, where it covers neither a point nor another label."""
    from matplotlib.transforms import Bbox

    drawing = axes.get_figure(root=True)
    assert drawing is not None  # as it was just made
    drawing.draw_without_rendering()  # the layout decides where points lie
    scale = 72 / drawing.dpi
    area = Bbox(axes.get_window_extent().get_points() * scale)
    places = {}
    for one in points:
        x, y = axes.transData.transform((one.x, one.y)) * scale
        places[id(one)] = (float(x), float(y))
    taken = [_around(*places[id(one)], one.radius) for one in points]
    for point in sorted(points, key=lambda one: (one.row != decision.recommended, one.row.precision != BASELINE)):
        row = point.row
        assert row.score is not None  # as they were chosen
        text = row.precision + (f" {row.backend}" if several and row.speed else "")
        text += f" \N{UPWARDS ARROW}{row.score.loss:.2f}" if point.clipped else ""
        written = axes.annotate(
            label(text), (point.x, point.y), (0, 0), textcoords="offset points", zorder=4, annotation_clip=False,
            fontweight="bold" if row == decision.recommended else "normal", fontsize=8.5,
            bbox={"fc": "#ffffff", "ec": "none", "alpha": 0.6, "pad": 0.5},
        )  # fmt: skip
        written.set_in_layout(False)
        size = written.get_window_extent()
        far = point.radius + (2 * _GAP if row == decision.recommended else _GAP)
        boxes = list(_boxes(places[id(point)], far, (size.width * scale, size.height * scale), area))
        box = next((one for one in boxes if not any(one.overlaps(other) for other in taken)), boxes[0])
        taken.append(box)
        x, y = places[id(point)]
        written.set_position((box.x0 - x, box.y0 - y))


def _around(x: float, y: float, radius: float) -> Bbox:
    from matplotlib.transforms import Bbox

    return Bbox.from_bounds(x - radius, y - radius, 2 * radius, 2 * radius)


def _boxes(place: tuple[float, float], far: float, size: tuple[float, float], area: Bbox) -> Iterator[Bbox]:
    """Yield where a label may stand, inside of the area: next to its point, above and below it, then further away."""
    from matplotlib.transforms import Bbox

    (x, y), (width, height) = place, size
    centre = x - width / 2
    near = [(x + far, y + 1), (x + far, y - 1 - height), (x - far - width, y + 1), (x - far - width, y - 1 - height)]
    near += [(centre, y + far), (centre, y - far - height)]
    inside = max(area.x0, min(centre, area.x1 - width))
    further = [(inside, y + sign * step * 6) for step in range(1, 60) for sign in (-1, 1)]
    found = False
    for left, bottom in [*near, *further]:
        if area.x0 <= left and left + width <= area.x1 and area.y0 <= bottom and bottom + height <= area.y1:
            found = True
            yield Bbox.from_bounds(left, bottom, width, height)
    if not found:
        yield Bbox.from_bounds(inside, min(max(y, area.y0), area.y1 - height), width, height)
