"""The sweeps of a bench run: what is drawn against what, in how many panels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from trt_workbench.bench.matrix import setting_text
from trt_workbench.bench.ranking import Standing
from trt_workbench.bench.view import BenchRow, Table

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
# More panels than this make a picture nobody reads; the tables hold them all.
MOST_PANELS = 4
# Nor can anybody tell more curves apart.
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


def find_sweeps(tables: Sequence[Table]) -> list[Sweep]:
    """Return every axis along which a scenario and model have more than one value."""
    found = []
    for (scenario, model), group in _grouped(tables, lambda table: (table.scenario, table.model)).items():
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


def _work_panels(axis: str, pairs: Iterable[tuple[Table, BenchRow]]) -> list[Panel]:
    rest = _grouped(pairs, lambda pair: _without(pair[0].coordinates, axis))
    panels = []
    for others, members in rest.items():
        by_runtime = _grouped(members, lambda pair: pair[1].standing.runtime)
        curves = {
            name: _curve((table.coordinates[axis], row) for table, row in group) for name, group in by_runtime.items()
        }
        panels.append(Panel(_text(others), curves))
    return _worth_drawing(panels)


def _runtime_panels(axis: str, pairs: Iterable[tuple[Table, BenchRow]]) -> list[Panel]:
    panels = []
    for work, members in _grouped([pair for pair in pairs if axis in pair[1].swept], lambda pair: pair[0].work).items():
        by_name = _grouped(members, lambda pair: f"{pair[1].entry} {_text(_without(pair[1].swept, axis))}".strip())
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


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
