"""The plots of a bench report."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.bench.matrix import setting_text
from trt_workbench.bench.ranking import Standing
from trt_workbench.bench.view import BenchRow, WorkTable
from trt_workbench.core.counts import grouped
from trt_workbench.core.percent import share
from trt_workbench.report.hover import listed, say_columns, say_rows
from trt_workbench.report.style import INK, PALETTE, by_powers, figure, file_stem, label, panels

# More panels than this are unreadable; the tables hold them all.
MOST_PANELS = 4
# More curves would not be distinguishable either.
MOST_CURVES = 12


@dataclass(frozen=True)
class Reading:
    """One point of a curve: its place on the axis, its text there, and what was measured."""

    value: Any
    text: str
    standing: Standing


@dataclass(frozen=True)
class Panel:
    """Curves that share everything but the axis and the runtime: title, and readings by name of the curve."""

    title: str
    curves: dict[str, list[Reading]]


@dataclass(frozen=True)
class Sweep:
    """One thing that was varied.

    Attributes:
        scenario: name of the scenario.
        model: name of the model.
        axis: what was varied, such as `batch`, `sequence` or `optimization_level`.
        panels: at most four of the settings of everything else, spread over all of them.
        settings: how many there are in all.
        curves: how many curves the fullest panel would hold; the twelve fastest are in it.
    """

    scenario: str
    model: str
    axis: str
    panels: list[Panel]
    settings: int
    curves: int

    @property
    def is_numeric(self) -> bool:
        """Whether every value of the axis is a number."""
        readings = [one for panel in self.panels for curve in panel.curves.values() for one in curve]
        return all(isinstance(one.value, int | float) and not isinstance(one.value, bool) for one in readings)


def find_sweeps(tables: Sequence[WorkTable]) -> list[Sweep]:
    """Return every axis along which a scenario and model have more than one value."""
    found = []
    for (scenario, model), group in grouped(tables, lambda table: (table.scenario, table.model)).items():
        pairs = [(table, row) for table in group for row in table.rows]
        axes = {name: True for table in group for name in table.coordinates}
        axes |= {name: False for _, row in pairs for name in row.swept}
        for axis, of_work in axes.items():
            panels = _work_panels(axis, pairs) if of_work else _runtime_panels(axis, pairs)
            if panels:
                chosen = [Panel(panel.title, _fastest(panel.curves)) for panel in _spread(panels)]
                most = max(len(panel.curves) for panel in panels)
                found.append(Sweep(scenario, model, axis, chosen, len(panels), most))
    return found


def _work_panels(axis: str, pairs: Iterable[tuple[WorkTable, BenchRow]]) -> list[Panel]:
    rest = grouped(pairs, lambda pair: _without(pair[0].coordinates, axis))
    panels = []
    for others, members in rest.items():
        by_runtime = grouped(members, lambda pair: pair[1].standing.runtime)
        curves = {
            name: _curve((table.coordinates[axis], row) for table, row in group) for name, group in by_runtime.items()
        }
        panels.append(Panel(_text(others), curves))
    return _worth_drawing(panels)


def _runtime_panels(axis: str, pairs: Iterable[tuple[WorkTable, BenchRow]]) -> list[Panel]:
    panels = []
    for work, members in grouped([pair for pair in pairs if axis in pair[1].swept], lambda pair: pair[0].work).items():
        by_name = grouped(members, lambda pair: f"{pair[1].entry} {_text(_without(pair[1].swept, axis))}".strip())
        curves = {name: _curve((row.swept[axis], row) for _, row in group) for name, group in by_name.items()}
        panels.append(Panel(work, curves))
    return _worth_drawing(panels)


def _curve(readings: Iterable[tuple[Any, BenchRow]]) -> list[Reading]:
    made = [Reading(_place(value), setting_text(value), row.standing) for value, row in readings]
    if all(isinstance(one.value, int | float) and not isinstance(one.value, bool) for one in made):
        return sorted(made, key=lambda one: one.value)
    return made


def _place(value: Any) -> Any:
    """Numbers stay numbers, also as text ("2048"); the rest is a word on the axis."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _worth_drawing(panels: list[Panel]) -> list[Panel]:
    return [panel for panel in panels if any(len(curve) > 1 for curve in panel.curves.values())]


def _spread(panels: list[Panel]) -> list[Panel]:
    """Return the first, the last and evenly spread ones between."""
    if len(panels) <= MOST_PANELS:
        return panels
    return [panels[round(index * (len(panels) - 1) / (MOST_PANELS - 1))] for index in range(MOST_PANELS)]


def _fastest(curves: dict[str, list[Reading]]) -> dict[str, list[Reading]]:
    order = sorted(curves, key=lambda name: min(one.standing.latency_ms.median for one in curves[name]))
    return {name: curves[name] for name in order[:MOST_CURVES]}


def _without(values: dict[str, Any], name: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, setting_text(value)) for key, value in values.items() if key != name)


def _text(pairs: Iterable[tuple[str, str]]) -> str:
    return " ".join(f"{name}={value}" for name, value in pairs)


if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from trt_workbench.bench.ranking import Standing

# The knee: the smallest batch that reaches this share of the best throughput.
KNEE = 0.9
# Axes along which more work is in flight, so that throughput is the question as much as latency.
_LOADS = ("batch", "concurrency", "slots")
# A list of bars longer than this is left to the curves of its sweep.
_MOST_BARS = 36
_LINES = ("-", "--", ":", "-.")
_LABEL_WIDTH = 46


def write_plots(tables: Sequence[WorkTable], folder: Path) -> dict[str, Path]:
    """Write every plot as SVG and return their paths by title."""
    sweeps = find_sweeps(tables)
    everywhere = _styles(row.standing.runtime for table in tables for row in table.rows)
    made: dict[str, Path] = {}
    for sweep in sweeps:
        curves = list(dict.fromkeys(name for panel in sweep.panels for name in panel.curves))
        # a runtime has one colour in all pictures, unless there are more of them than colours
        styles = everywhere if len(everywhere) <= len(PALETTE) and everywhere.keys() >= set(curves) else _styles(curves)
        name, stem = f"{sweep.scenario}, {sweep.model}", file_stem(sweep.scenario, sweep.model, sweep.axis)
        if sweep.axis in _LOADS:
            title = f"{name}: throughput against {sweep.axis}"
            made[title] = _throughput(sweep, styles, folder / f"{stem}-throughput.svg")
        made[f"{name}: latency against {sweep.axis}"] = _latency(sweep, styles, folder / f"{stem}-latency.svg")
    for (scenario, model), group in grouped(tables, lambda table: (table.scenario, table.model)).items():
        swept = any((sweep.scenario, sweep.model) == (scenario, model) for sweep in sweeps)
        if not swept or sum(len(table.rows) for table in group) <= _MOST_BARS:
            made[f"{scenario}, {model}: latency"] = _bars(
                group, everywhere, folder / f"{file_stem(scenario, model)}-bars.svg"
            )
    return made


Style = tuple[str, str]


def _styles(names: Iterable[str]) -> dict[str, Style]:
    """Return a colour for every name, and a dash once the colours are used up."""
    count = len(PALETTE)
    return {
        name: (PALETTE[index % count], _LINES[index // count % len(_LINES)])
        for index, name in enumerate(dict.fromkeys(names))
    }


def _bars(tables: Sequence[WorkTable], styles: dict[str, Style], path: Path) -> Path:
    lines = sum(len(table.rows) + 1 for table in tables)
    with figure(path, height=max(2.2, 1.0 + 0.26 * lines)) as axes:
        position, ticks, said = 0.0, {}, {}
        for table in tables:
            axes.text(0, position, f" {label(table.work)}", fontweight="bold", fontsize=9, va="center")
            for row in table.rows:
                position -= 1
                interval = row.standing.latency_ms
                reach = [[interval.median - interval.low], [interval.high - interval.median]]
                axes.barh(position, interval.median, color=styles[row.standing.runtime][0], height=0.7)
                axes.errorbar(interval.median, position, xerr=reach, color=INK, capsize=2.5, linewidth=1)
                medians = [spot.value for spot in row.repetitions]
                axes.scatter(medians, [position] * len(medians), 9, facecolors="none", edgecolors=INK, linewidths=0.6)
                axes.annotate(
                    f"{interval.median:,.0f}" if interval.median >= 100 else f"{interval.median:.3g}",
                    (_end(row), position), (4, 0), textcoords="offset points", va="center", fontsize=8,
                )  # fmt: skip
                said[position] = f"{label(row.standing.runtime)}, {label(table.work)}: {_interval(row.standing)}"
                ticks[position] = "\n".join(textwrap.wrap(label(row.standing.runtime), _LABEL_WIDTH // 2))
            position -= 1
        say_rows(axes, said)
        axes.set_yticks(list(ticks), list(ticks.values()), fontsize=8)
        slowest = max(_end(row) for table in tables for row in table.rows)
        axes.set(
            xlabel="ms: median, its interval, and repetitions as rings", xlim=(0, slowest * 1.12), ylim=(position, 0.8)
        )
        axes.set_title(label(f"Latency of {tables[0].model}, {tables[0].scenario}"))
        axes.grid(visible=False, axis="y")
    return path


def _end(row: BenchRow) -> float:
    return max(row.standing.latency_ms.high, *(spot.value for spot in row.repetitions))


def _latency(sweep: Sweep, styles: dict[str, Style], path: Path) -> Path:
    def draw(axes: Axes, panel: Panel) -> None:
        for name, curve in panel.curves.items():
            middle = [one.standing.latency_ms.median for one in curve]
            low = [one.standing.latency_ms.median - one.standing.latency_ms.low for one in curve]
            high = [one.standing.latency_ms.high - one.standing.latency_ms.median for one in curve]
            colour, line = styles[name]
            axes.errorbar(
                _places(sweep, panel, curve), middle, yerr=[low, high], fmt="o", linestyle=line, color=colour,
                markersize=3.5, capsize=2, linewidth=1.2, label=_wrapped(name),
            )  # fmt: skip
        _tell(axes, sweep, panel, _interval)
        axes.set_ylabel("ms")
        _scale_latency(axes, panel)
        _label_axis(axes, sweep, panel)

    return _drawn(sweep, f"Latency against {sweep.axis}, ms (bars: interval)", draw, path)


def _throughput(sweep: Sweep, styles: dict[str, Style], path: Path) -> Path:
    def draw(axes: Axes, panel: Panel) -> None:
        for name, curve in panel.curves.items():
            places, rates = _places(sweep, panel, curve), [one.standing.items_per_s for one in curve]
            colour, line = styles[name]
            axes.plot(places, rates, marker="o", linestyle=line, color=colour, markersize=3.5, label=_wrapped(name))
            knee = next(index for index, rate in enumerate(rates) if rate >= KNEE * max(rates))
            axes.plot(places[knee], rates[knee], "o", markersize=9, fillstyle="none", color=colour)
        _tell(axes, sweep, panel, lambda one: f"{one.items_per_s:,.4g} items/s")
        by_powers(axes, "y")
        axes.set_ylabel("items/s")
        _label_axis(axes, sweep, panel)

    return _drawn(sweep, f"Items/s against {sweep.axis} (ring: smallest with {share(KNEE)} of the best)", draw, path)


def _drawn(sweep: Sweep, title: str, draw: Callable[[Axes, Panel], None], path: Path) -> Path:
    parts = []
    if sweep.curves > MOST_CURVES:
        parts.append(f"the {MOST_CURVES} fastest of {sweep.curves}")
    if sweep.settings > len(sweep.panels):
        parts.append(f"{len(sweep.panels)} of {sweep.settings} settings")
    more = f"\n{', '.join(parts)}; the tables list all" if parts else ""
    names = {_wrapped(name) for panel in sweep.panels for name in panel.curves}
    with panels(path, len(sweep.panels), label(title) + more, sorted(names)) as every:
        for axes, panel in zip(every, sweep.panels, strict=True):
            draw(axes, panel)
            if panel.title:
                axes.set_title("\n".join(textwrap.wrap(label(panel.title), _LABEL_WIDTH)), fontsize=8)
    return path


def _places(sweep: Sweep, panel: Panel, curve: Sequence[Reading]) -> list[float]:
    if sweep.is_numeric:
        return [float(one.value) for one in curve]
    words = _words(panel)
    return [float(words.index(one.text)) for one in curve]


def _interval(one: Standing) -> str:
    return f"{one.latency_ms.median:.4g} ms ({one.latency_ms.low:.4g} to {one.latency_ms.high:.4g})"


def _tell(axes: Axes, sweep: Sweep, panel: Panel, figure_of: Callable[[Standing], str]) -> None:
    """Say on hover what every runtime takes at a value of the sweep."""
    values: dict[float, dict[str, str]] = {}
    texts: dict[float, str] = {}
    for name, curve in panel.curves.items():
        for place, one in zip(_places(sweep, panel, curve), curve, strict=True):
            values.setdefault(place, {})[label(name)] = figure_of(one.standing)
            texts[place] = f"{label(sweep.axis)} {label(one.text)}"
    say_columns(axes, {place: listed(texts[place], by_runtime) for place, by_runtime in values.items()})


def _words(panel: Panel) -> list[str]:
    return list(dict.fromkeys(one.text for curve in panel.curves.values() for one in curve))


def _label_axis(axes: Axes, sweep: Sweep, panel: Panel) -> None:
    axes.set_xlabel(label(sweep.axis))
    if not sweep.is_numeric:
        words = _words(panel)
        axes.set_xticks(range(len(words)), ["\n".join(textwrap.wrap(label(word), 14)) for word in words], fontsize=7)
        axes.set_xlim(-0.5, len(words) - 0.5)
        return
    texts = {float(one.value): one.text for curve in panel.curves.values() for one in curve}
    values = sorted(texts)
    if values[0] > 0 and values[-1] / values[0] >= 4:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    axes.set_xticks(
        values, [label(texts[value]) for value in values], fontsize=7, rotation=45 if len(values) > 9 else 0
    )


def _scale_latency(axes: Axes, panel: Panel) -> None:
    """From zero where that can be read, by powers where the values are too far apart."""
    figures = [one.standing.latency_ms for curve in panel.curves.values() for one in curve]
    if max(one.high for one in figures) > 12 * min(one.low for one in figures):
        by_powers(axes, "y")
    else:
        axes.set_ylim(bottom=0)


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(label(name), _LABEL_WIDTH))
