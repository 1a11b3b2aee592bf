"""Plots of an eval-stream run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.core.counts import counted
from trt_workbench.core.statistics.summary import claimed
from trt_workbench.report.hover import listed, say_columns, say_rows
from trt_workbench.report.style import INK, PALETTE, WIDE, by_powers, figure, file_stem, label, legend_below
from trt_workbench.stream.document import PARTS, ChunkRecord, StreamMetrics
from trt_workbench.stream.paced_document import Paced

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Below it an error is shown as none: a logarithmic scale has no zero.
_NOTHING = 1e-12


def write_plots(metrics: StreamMetrics, records: list[ChunkRecord], folder: Path) -> dict[str, Path]:
    """Write the plots that the run has figures for, as SVG. Returns their paths by name."""
    lanes = {lane.name: [record for record in records if record.lane == lane.name] for lane in metrics.lanes}
    lanes = {name: rows for name, rows in lanes.items() if rows}
    if not lanes:
        return {}
    plots = {"error": _error(metrics, lanes, folder / "error.svg")}
    if any(lane.latency_ms for lane in metrics.lanes):
        plots["latency"] = _latency(metrics, folder / "latency.svg")
    for paced in metrics.streams:
        if paced.levels:
            plots[f"streams {paced.precision}"] = _paced(paced, folder / f"{file_stem('streams', paced.precision)}.svg")
    return plots


def _plain() -> Any:
    """Return what writes ticks as 1e-06: our pictures have no formulas."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{value:g}")


def _errors(record: ChunkRecord) -> float:
    return max((_NOTHING if one.rel_l2 is None else one.rel_l2 for one in record.tensors.values()), default=0.0)


def _error(metrics: StreamMetrics, lanes: dict[str, list[ChunkRecord]], path: Path) -> Path:
    """Largest relative L2 of each chunk, with the limits and the memory of a stream."""
    with figure(path, WIDE, height=3.8) as axes:
        limits: dict[float, str] = {}
        said: dict[float, dict[str, str]] = {}
        for (name, chunks), colour in zip(lanes.items(), PALETTE * 4, strict=False):
            errors = [max(_errors(one), _NOTHING) for one in chunks]
            for one, error in zip(chunks, errors, strict=True):
                said.setdefault(one.chunk + 1, {})[label(name)] = "none" if error == _NOTHING else f"{error:.2e}"
            axes.plot([one.chunk + 1 for one in chunks], errors, color=colour, linewidth=1.0, label=label(name))
            lane = next(lane for lane in metrics.lanes if lane.name == name)
            limits |= {gate.limit: lane.judged_as for gate in lane.gates if gate.gate == "rel_l2_max" and gate.limit}
        for limit, kind in limits.items():
            axes.axhline(limit, color="#c0392b", linestyle="--", linewidth=1.0)
            axes.annotate(f"limit of {kind}", (1, limit), xytext=(2, 3), textcoords="offset points", fontsize=8)
        if metrics.memory_chunks and metrics.memory_chunks < metrics.chunks:
            axes.axvline(metrics.memory_chunks, color="#52606d", linestyle=":", linewidth=1.2)
            low = axes.get_ylim()[0]
            axes.annotate("memory", (metrics.memory_chunks, low), xytext=(3, 4), textcoords="offset points", fontsize=8)
        say_columns(axes, {chunk: listed(f"chunk {chunk:g}", by_lane) for chunk, by_lane in said.items()})
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_plain())
        if metrics.chunks > 1:
            by_powers(axes, "x")
        axes.set(
            title="Error by chunk", xlabel="chunk", ylabel=f"largest relative L2\nof a tensor ({_NOTHING:g}: none)"
        )
        legend_below(axes)
    return path


def _latency(metrics: StreamMetrics, path: Path) -> Path:
    """Median time of each part of a chunk, stacked, with the 99th percentile of the whole where it can be claimed."""
    lanes = [lane for lane in metrics.lanes if lane.latency_ms]
    with figure(path, height=max(2.2, 0.5 * len(lanes) + 1.4)) as axes:
        for place, lane in enumerate(lanes):
            _stack(axes, place, {part: lane.latency_ms[part]["p50"] for part in PARTS[:-1]}, first=place == 0)
            if (p99 := claimed(lane.latency_ms["total"], "p99")) is not None:
                axes.plot([p99], [place], marker="|", markersize=12, color=INK, label="p99" if place == 0 else None)
        said: dict[float, str] = {
            place: listed(
                label(lane.name),
                {part: f"{lane.latency_ms[part]['p50']:.3g} ms" for part in PARTS}
                | {"p99 of a chunk": _ms(claimed(lane.latency_ms["total"], "p99"))},
            )
            for place, lane in enumerate(lanes)
        }
        say_rows(axes, said)
        axes.set_yticks(range(len(lanes)), [label(lane.name) for lane in lanes])
        axes.invert_yaxis()
        axes.set(title="Time of a chunk by part, median", xlabel="ms")
        axes.set_xlim(left=0)
        legend_below(axes)
    return path


def _paced(paced: Paced, path: Path) -> Path:
    """Draw how late chunks are by the number of streams, with the hop that they should stay within."""
    with figure(path, height=3.6) as axes:
        counts = [level.streams for level in paced.levels]
        times = {name: [level.times_ms[name] for level in paced.levels] for name in paced.levels[0].times_ms}
        for (name, values), colour in zip(times.items(), PALETTE, strict=False):
            known = [math.nan if value is None else value for value in values]
            axes.plot(counts, known, color=colour, marker="o", markersize=4, linewidth=1.2, label=name)
        axes.axhline(paced.hop_ms, color="#c0392b", linestyle="--", linewidth=1.0, label="a hop")
        said: dict[float, str] = {
            count: listed(counted(count, "stream"), {name: _ms(values[place]) for name, values in times.items()})
            for place, count in enumerate(counts)
        }
        say_columns(axes, said)
        by_powers(axes, "y")
        if len(counts) > 1:
            by_powers(axes, "x")
        axes.set_xticks(counts, list(map(str, counts)))
        axes.set(
            title=label(f"Latency from due time: {paced.precision}"),
            xlabel="streams in real time",
            ylabel="latency of a chunk, ms",
        )
        legend_below(axes)
    return path


def _ms(value: float | None) -> str:
    return "too few chunks" if value is None else f"{value:.3g} ms"


def _stack(axes: Axes, place: int, parts: dict[str, float], *, first: bool) -> None:
    left = 0.0
    for (part, value), colour in zip(parts.items(), PALETTE, strict=False):
        axes.barh(place, value, left=left, color=colour, label=part if first else None)
        left += value
