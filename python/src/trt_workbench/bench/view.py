"""The tables of a bench report: standings, who wins where, and what each runtime costs, ready for a template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from trt_workbench.bench.ranking import Standing, kept_records, rank
from trt_workbench.core.artefacts import BenchArtefacts
from trt_workbench.core.counts import decimals, mebibytes, some
from trt_workbench.core.percent import covered
from trt_workbench.core.records import Record, by_work
from trt_workbench.core.statistics.comparison import Comparison, Interval
from trt_workbench.core.statistics.summary import MINIMUM_SAMPLES, claimed
from trt_workbench.core.verification import Mark
from trt_workbench.model.precision import precision_label
from trt_workbench.report.sparkline import Spot, sparkline
from trt_workbench.report.tables import NONE, ROOMY, Cell, Column, Table, at, verdict

# The card's energy counter updates about every 0.1 s: what was sampled for less than 1 s is off by more than a tenth.
_LEAST_ENERGY_S = 1.0
TAILS = ("p90", "p95", "p99")


@dataclass(frozen=True)
class BenchRow:
    """One runtime in a table. Memory in bytes, energy in joules; None where it was not measured.

    Attributes:
        repetitions: the median of each in milliseconds, in their order.
        verification: mark of its engine; None for runtimes without a gate.
        precision: short label of what it computed in, by the graph or the engine's layers.
        entry: the runtime's label without swept settings.
        swept: values of these settings.
        clock_mhz: least and largest SM clock seen.
        temperature_max_c: hottest seen, degrees Celsius.
        power_mean_w: mean draw of the card, watts.
    """

    standing: Standing
    repetitions: list[Spot]
    precision: str | None
    verification: Mark | None
    entry: str
    swept: dict[str, Any]
    percentiles_ms: dict[str, float | None]
    split_ms: dict[str, float]
    load_s: float | None
    first_run_ms: float | None
    host_memory_bytes: int | None
    device_memory_bytes: int | None
    energy_per_item_j: float | None
    clock_mhz: tuple[float, float] | None
    temperature_max_c: float | None
    power_mean_w: float | None


@dataclass(frozen=True)
class WorkTable:
    """One work: its runtimes by rank. `coordinates` are its batch, dimensions and image size by name."""

    scenario: str
    kind: str
    work: str
    coordinates: dict[str, Any]
    model: str
    rows: list[BenchRow]
    sentence: str


def tables(run: BenchArtefacts) -> list[WorkTable]:
    """Return a table for every work that has at least one measured repetition."""
    made = []
    for (scenario, kind, work), records in by_work(run.records).items():
        standings = rank(records)
        if standings:
            rows = [_row(standing, records) for standing in standings]
            first = records[0]
            sentence = _sentence(f"{scenario}, {work}", standings)
            made.append(WorkTable(scenario, kind, work, coordinates(first), first.model, rows, sentence))
    return made


def coordinates(record: Record) -> dict[str, Any]:
    """Return what distinguishes a record's work from others of its scenario and model, by name."""
    size: dict[str, Any] = {} if record.imgsz is None else {"image size": f"{record.imgsz[0]}x{record.imgsz[1]}"}
    if record.imgsz and record.imgsz[0] == record.imgsz[1]:
        size = {"image size": record.imgsz[0]}
    return {"batch": record.batch, **record.dims, **size}


@dataclass(frozen=True)
class Winner:
    """Who wins at one work: the fastest, those that cannot be ranked below it, and the first that can."""

    work: str
    fastest: str
    latency_ms: Interval
    tied: list[str]
    next: str | None
    against_next: Comparison | None
    unstable: bool


def winners(made: Sequence[WorkTable]) -> list[Winner]:
    """Return who wins where, by how much."""
    found = []
    for table in made:
        standings = [row.standing for row in table.rows]
        best = standings[0]
        tied = [one.runtime for one in standings[1:] if one.rank == best.rank]
        beaten = next((one for one in standings if one.rank != best.rank), None)
        found.append(
            Winner(
                f"{table.scenario}, {table.work}",
                best.runtime,
                best.latency_ms,
                tied,
                beaten.runtime if beaten else None,
                beaten.against_best if beaten else None,
                best.all_unstable,
            )
        )
    return found


def latency(found: Interval) -> Cell:
    """Return a latency with its interval and the coverage of that."""
    ends = f"{decimals(found.low, 3)} to {decimals(found.high, 3)}, {covered(found.coverage)}"
    return Cell(decimals(found.median, 3), soft=ends)


def _ratio(found: Comparison | None, alone: str) -> Cell:
    return Cell(decimals(found.ratio, 2), soft=found.interval(2)) if found else Cell(alone)


WINNERS = (
    Column("workload", "work"),
    Column("first", lambda won: [Cell(won.fastest), *[Cell("unstable", verdict="unstable")] * won.unstable]),
    Column("latency", lambda won: latency(won.latency_ms), 3, unit="ms"),
    Column("shares the first rank", lambda won: some(won.tied, 2) or None),
    Column("next", "next"),
    Column("times as long", lambda won: _ratio(won.against_next, NONE), 2),
)
PROBLEMS = (
    Column("runtime", "runtime"),
    Column("status", verdict("status")),
    Column("workload", lambda one: ", ".join(one["works"])),
    Column("repetitions", "count"),
    Column("reason", "error"),
)
UNSTABLE = (
    Column("workload", "work"),
    Column("runtime", "runtime"),
    Column("repetitions", lambda one: f"{len(one['repetitions'])} of {one['measured']}"),
    Column(
        "decision",
        lambda one: "left out" if len(one["repetitions"]) < one["measured"] else "counted: no repetition is stable",
    ),
    Column("reason", lambda one: "; ".join(one["reasons"])),
)
COSTS = (
    Column("runtime", "standing.runtime"),
    Column("load", "load_s", 2, unit="s"),
    Column("first run", "first_run_ms", 1, unit="ms"),
    Column("host", "host_memory_bytes", form=mebibytes, unit="MiB"),
    Column("device", "device_memory_bytes", form=mebibytes, unit="MiB"),
    Column("energy", "energy_per_item_j", 4, unit="J/item"),
    Column("power", "power_mean_w", 0, unit="W"),
    Column("SM clock", lambda row: row.clock_mhz and tuple(dict.fromkeys(row.clock_mhz)), 0, unit="MHz"),
    Column("maximum", "temperature_max_c", 0, unit="°C"),
)


def standings(work: WorkTable, evidence: Callable[[Mark | None], Cell] | None = None) -> Table:
    """Return the runtimes of a work by rank.

    Args:
        work: with its rows.
        evidence: what a page says of an engine's mark; None in a terminal.
    """
    columns = [
        Column("runtime", "standing.runtime"),
        Column("precision", "precision"),
        *(verified(evidence, "verification") if evidence else []),
        Column("rank", "standing.rank", 0),
        Column(
            "repetition by repetition",
            lambda row: Cell(drawn=sparkline(row.repetitions, f"Median of each repetition of {row.standing.runtime}")),
            places=("page",),
        ),
        Column("latency", lambda row: latency(row.standing.latency_ms), 3, unit="ms", better="lower"),
        Column("\N{MULTIPLICATION SIGN} best", lambda row: _ratio(row.standing.against_best, "1.00"), 2),
        Column(
            "interval (coverage)",
            lambda row: (best := row.standing.against_best) and best.interval(),
            places=("terminal",),
        ),
        Column("compared with the best", "standing.against_best.verdict", places=ROOMY),
        Column("p (Holm)", "standing.against_best.p_value", 4, places=ROOMY),
        Column("items/s", "standing.items_per_s", 1, better="higher"),
        *(Column(tail, f"percentiles_ms.{tail}", 3, unit="ms", places=ROOMY) for tail in TAILS),
        Column("repetitions", "standing.repetitions", 0, marks=_unsteady, places=ROOMY),
    ]
    return Table(columns, work.rows, f"{work.scenario}: {work.work}")


def verified(evidence: Callable[[Mark | None], Cell], path: str) -> list[Column]:
    """Return the columns of what the marks of engines say, which are at a path of a row."""
    return [
        Column("verified", lambda row: evidence(at(row, path)), places=("page",)),
        Column("verified", f"{path}.text", places=("Markdown",)),
    ]


def _unsteady(row: BenchRow) -> list[Cell]:
    one = row.standing
    return [Cell("all unstable" if one.all_unstable else f"{one.unstable} unstable", verdict="unstable")] * bool(
        one.unstable
    )


def _row(standing: Standing, records: Sequence[Record]) -> BenchRow:
    mine = [record for record in records if record.runtime == standing.runtime and record.status == "ok"]
    counted = list(kept_records(mine)[standing.runtime].values())
    telemetry = [record.telemetry for record in mine if record.telemetry]
    parts = {name: [one.split_ms[name] for one in counted if name in one.split_ms] for name in mine[0].split_ms}

    def seen(name: str) -> list[Any]:
        return [one[name] for one in telemetry if one.get(name) is not None]

    clocks = [*seen("sm_clock_min_mhz"), *seen("sm_clock_max_mhz")]
    power = seen("power_mean_w")
    return BenchRow(
        standing=standing,
        repetitions=[_spot(one, one.latency_ms["p50"], standing.reasons) for one in mine if one.latency_ms],
        precision=precision_label(mine[0].provenance),
        verification=mine[0].verification,
        entry=mine[0].entry or mine[0].runtime,
        swept=mine[0].swept,
        percentiles_ms={f"p{p}": _tail(counted, p) for p in MINIMUM_SAMPLES},
        split_ms={part.removesuffix("_ms"): median(values) for part, values in parts.items() if values},
        load_s=_median(record.load_s for record in mine),
        first_run_ms=_median(record.first_run_ms for record in mine),
        host_memory_bytes=max(seen("host_memory_bytes"), default=None),
        device_memory_bytes=max(seen("device_memory_bytes"), default=None),
        energy_per_item_j=_energy(counted),
        clock_mhz=(min(clocks), max(clocks)) if clocks else None,
        temperature_max_c=max(seen("temperature_max_c"), default=None),
        power_mean_w=sum(power) / len(power) if power else None,
    )


def _spot(record: Record, p50: float, together: tuple[str, ...]) -> Spot:
    reasons = [*record.unstable, *together]
    said = f"; unstable: {'; '.join(reasons)}" if reasons else ""
    return Spot(p50, f"repetition {record.repetition + 1}: {p50:.4g} ms{said}", not reasons)


def _energy(records: Sequence[Record]) -> float | None:
    """Joules per item: the mean over repetitions, weighted by their time; None if that is too short to measure."""
    known = [
        (record.energy_per_item_j, float(record.telemetry["seconds"]))
        for record in records
        if record.energy_per_item_j is not None and record.telemetry
    ]
    seconds = sum(time for _, time in known)
    if seconds < _LEAST_ENERGY_S:
        return None
    return sum(energy * time for energy, time in known) / seconds


def _tail(records: Sequence[Record], percent: int) -> float | None:
    """Median over repetitions of a high percentile; None if any has too few samples to claim it (LoadGen)."""
    tails = [claimed(record.latency_ms, f"p{percent}") for record in records if record.latency_ms]
    known = [tail for tail in tails if tail is not None]
    return median(known) if known and len(known) == len(tails) else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _sentence(work: str, standings: Sequence[Standing]) -> str:
    best = standings[0]
    figure = best.latency_ms.in_words
    if len(standings) == 1:
        return f"{work}: {best.runtime} takes {figure}; there is no other runtime to compare."
    tied = [standing.runtime for standing in standings[1:] if standing.rank == best.rank]
    beaten = [standing for standing in standings if standing.rank != best.rank]
    if tied:
        opening = f"{work}: {best.runtime} takes {figure} and cannot be ranked above {some(tied, 2)}"
    elif best.all_unstable:
        opening = f"{work}: {best.runtime} is first, {figure}, but none of its repetitions is stable"
    else:
        opening = f"{work}: {best.runtime} is fastest, {figure}"
    if not beaten or (against := beaten[0].against_best) is None:
        return f"{opening}."
    return f"{opening}; {beaten[0].runtime} takes {against.ratio:.2f} times as long ({against.interval()})."
