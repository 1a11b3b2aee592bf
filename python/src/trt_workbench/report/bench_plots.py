"""The plots of a bench report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trt_workbench.report.bench_view import Row, Table
from trt_workbench.report.style import PALETTE, figure

# The knee: the smallest batch that reaches this share of the best throughput.
KNEE = 0.9


def write_plots(tables: Sequence[Table], folder: Path) -> dict[str, Path]:
    """Write every plot as a PNG and return their paths by title."""
    runtimes = list(dict.fromkeys(row.standing.runtime for table in tables for row in table.rows))
    colours = {runtime: PALETTE[index % len(PALETTE)] for index, runtime in enumerate(runtimes)}
    made: dict[str, Path] = {}
    for sweep in _sweeps(tables):
        name = f"{sweep[0].scenario}, {sweep[0].model}"
        stem = f"{sweep[0].scenario}-{sweep[0].model}"
        if len({table.batch for table in sweep}) > 1:
            made[f"{name}: throughput against batch"] = _throughput(sweep, colours, folder / f"{stem}-throughput.png")
            made[f"{name}: latency against throughput"] = _frontier(sweep, colours, folder / f"{stem}-frontier.png")
        made[f"{name}: latency"] = _bars(sweep, colours, folder / f"{stem}-latency.png")
    return made


def _sweeps(tables: Sequence[Table]) -> list[list[Table]]:
    groups: dict[tuple[str, str], list[Table]] = {}
    for table in tables:
        groups.setdefault((table.scenario, table.model), []).append(table)
    return list(groups.values())


def _bars(tables: Sequence[Table], colours: dict[str, str], path: Path) -> Path:
    rows = [(table, row) for table in reversed(tables) for row in reversed(table.rows)]
    with figure(path, height=max(2.2, 1.0 + 0.32 * len(rows))) as axes:
        for position, (_, row) in enumerate(rows):
            interval = row.standing.latency_ms
            reach = [[interval.median - interval.low], [interval.high - interval.median]]
            colour = colours[row.standing.runtime]
            axes.barh(position, interval.median, color=colour, height=0.7)
            axes.errorbar(interval.median, position, xerr=reach, color="#1f2933", capsize=2.5, linewidth=1)
            axes.annotate(
                f"{interval.median:.3g}", (interval.high, position), (4, 0), textcoords="offset points",
                va="center", fontsize=7,
            )  # fmt: skip
        labels = [f"{table.work}  {row.standing.runtime}" for table, row in rows]
        axes.set_yticks(range(len(rows)), labels, fontsize=8)
        slowest = max(row.standing.latency_ms.high for _, row in rows)
        axes.set(xlabel="latency, ms (median over repetitions, 95 % interval)", xlim=(0, slowest * 1.12))
        axes.set_title("Latency, host array to host array")
        axes.grid(visible=False, axis="y")
    return path


def _throughput(tables: Sequence[Table], colours: dict[str, str], path: Path) -> Path:
    with figure(path) as axes:
        for runtime, points in _by_runtime(tables).items():
            batches = [table.batch for table, _ in points]
            rates = [row.standing.items_per_s for _, row in points]
            axes.plot(batches, rates, "o-", color=colours[runtime], markersize=3.5, label=runtime)
            knee = next(index for index, rate in enumerate(rates) if rate >= KNEE * max(rates))
            axes.plot(batches[knee], rates[knee], "o", markersize=9, fillstyle="none", color=colours[runtime])
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        batches = sorted({table.batch for table in tables})
        axes.set_xticks(batches, [str(batch) for batch in batches])
        axes.set(xlabel="batch", ylabel="items/s")
        axes.set_title(f"Throughput against batch (ring: smallest batch with {KNEE:.0%} of the best)")
        axes.legend(fontsize=7)
    return path


def _frontier(tables: Sequence[Table], colours: dict[str, str], path: Path) -> Path:
    with figure(path) as axes:
        for runtime, points in _by_runtime(tables).items():
            latency = [row.standing.latency_ms.median for _, row in points]
            rates = [row.standing.items_per_s for _, row in points]
            axes.plot(latency, rates, "o-", color=colours[runtime], markersize=3.5, label=runtime)
            for (table, _), x, y in zip(points, latency, rates, strict=True):
                axes.annotate(str(table.batch), (x, y), (3, 3), textcoords="offset points", fontsize=6)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set(xlabel="latency, ms", ylabel="items/s")
        axes.set_title("Latency against throughput (numbers: batch)")
        axes.legend(fontsize=7)
    return path


def _by_runtime(tables: Sequence[Table]) -> dict[str, list[tuple[Table, Row]]]:
    found: dict[str, list[tuple[Table, Row]]] = {}
    for table in sorted(tables, key=lambda one: one.batch):
        for row in table.rows:
            found.setdefault(row.standing.runtime, []).append((table, row))
    return found
