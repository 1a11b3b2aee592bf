"""Pictures of series of runs: the figure with its interval by date or commit, and where it changed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trt_workbench.report.hover import say_columns
from trt_workbench.report.style import ACCENT, INK, WIDE, figure, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from trt_workbench_history.run import HistoryPoint, HistorySeries, Over

_LIMIT, _GOOD, _WEAK = "#c0392b", "#00704f", "#9aa5b1"
# Names of commits below one another, at most.
_MOST_TICKS = 24


def draw_series(series: HistorySeries, over: Over, path: Path) -> None:
    """Draw one series as SVG or PNG, by the ending of `path`."""
    places = _places(series, over)
    with figure(path, width=WIDE, height=2.9) as axes:
        for trusted in (True, False):
            shown = [
                (place, point)
                for place, point in zip(places, series.points, strict=True)
                if trusted == (not point.doubts)
            ]
            if shown:
                low = [point.value - (point.value if point.low is None else point.low) for _, point in shown]
                high = [(point.value if point.high is None else point.high) - point.value for _, point in shown]
                axes.errorbar(
                    [place for place, _ in shown],
                    [point.value for _, point in shown],
                    yerr=[[max(0.0, one) for one in low], [max(0.0, one) for one in high]],
                    fmt="o", markersize=3.5, capsize=2, linewidth=1, color=ACCENT if trusted else _WEAK,
                    markerfacecolor=ACCENT if trusted else "none", label="run" if trusted else "unstable run",
                )  # fmt: skip
        by_run = dict(zip((point.run_id for point in series.points), places, strict=True))
        for change in series.changes:
            colour = _LIMIT if change.outcome == "regression" else _GOOD
            axes.axvline(by_run[change.run_id], color=colour, linewidth=1, linestyle="-" if change.confirmed else ":")
            axes.annotate(
                f"{change.outcome}, {change.ratio:.3f}", (by_run[change.run_id], 1), (3, -8), fontsize=7, color=colour,
                xycoords=("data", "axes fraction"), textcoords="offset points",
            )  # fmt: skip
        say_columns(axes, {place: _words(point, series) for place, point in zip(places, series.points, strict=True)})
        axes.set_title(label(f"{series.subject}, {series.machine}", 110), fontsize=9, color=INK)
        axes.set_ylabel(label(f"{series.figure}, {series.unit}" if series.unit else series.figure))
        _label_axis(axes, series, over, places)


def _places(series: HistorySeries, over: Over) -> list[float]:
    """Return where runs lie: days since 1970, or the number of the commit."""
    if over == "dates":
        moments = (datetime.datetime.fromisoformat(point.started_at) for point in series.points)
        return [moment.timestamp() / 86400 for moment in moments]
    order = list(dict.fromkeys(point.commit for point in series.points))
    return [float(order.index(point.commit)) for point in series.points]


def _label_axis(axes: Axes, series: HistorySeries, over: Over, places: Sequence[float]) -> None:
    if over == "dates":
        import matplotlib.dates

        locator = matplotlib.dates.AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        return
    names = dict(zip(places, (point.commit or "no commit" for point in series.points), strict=True))
    shown = sorted(names)[:: -(-len(names) // _MOST_TICKS)]
    axes.set_xticks(shown, [names[place] for place in shown], rotation=45, ha="right", fontsize=7)


def _words(point: HistoryPoint, series: HistorySeries) -> str:
    ends = "" if point.low is None or point.high is None else f" ({point.low:.5g} to {point.high:.5g})"
    lines = [f"{point.started_at}, {point.run_id}", f"{point.value:.5g} {series.unit}{ends}"]
    return "\n".join([*lines, *([f"commit {point.commit}"] if point.commit else []), *map(label, point.doubts)])
