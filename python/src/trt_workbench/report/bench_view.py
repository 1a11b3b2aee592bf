"""What the report of a bench run says: standings, sentences and lists, ready for a template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from trt_workbench.bench.artefacts import BenchArtefacts
from trt_workbench.bench.comparison import LEAST_REPETITIONS, Comparison, Interval
from trt_workbench.bench.ranking import Standing, rank
from trt_workbench.bench.records import Record, by_work
from trt_workbench.bench.stability import DRIFT, WARNING
from trt_workbench.bench.statistics import MINIMUM_SAMPLES


@dataclass(frozen=True)
class Row:
    """One runtime in a table. Memory in bytes, energy in joules; None where it was not measured.

    Attributes:
        entry: the runtime's label without swept settings.
        swept: values of these settings.
    """

    standing: Standing
    entry: str
    swept: dict[str, Any]
    percentiles_ms: dict[str, float | None]
    split_ms: dict[str, float]
    load_s: float | None
    first_run_ms: float | None
    host_memory_bytes: int | None
    device_memory_bytes: int | None
    energy_per_item_j: float | None


@dataclass(frozen=True)
class Table:
    """One work: its runtimes by rank. `coordinates` are its batch, dimensions and image size by name."""

    scenario: str
    kind: str
    work: str
    coordinates: dict[str, Any]
    model: str
    rows: list[Row]
    sentence: str


def tables(run: BenchArtefacts) -> list[Table]:
    """Return a table for every work that has at least one measured repetition."""
    made = []
    for (scenario, kind, work), records in by_work(run.records).items():
        standings = rank(records)
        if standings:
            rows = [_row(standing, records) for standing in standings]
            first = records[0]
            sentence = _sentence(f"{scenario}, {work}", standings)
            made.append(Table(scenario, kind, work, coordinates(first), first.model, rows, sentence))
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

    @property
    def tied_text(self) -> str:
        """The runtimes that share its rank, the first two by name."""
        more = f" and {len(self.tied) - 2} more" if len(self.tied) > 2 else ""
        return ", ".join(self.tied[:2]) + more or "\N{EN DASH}"


def winners(made: Sequence[Table]) -> list[Winner]:
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
            )
        )
    return found


def summary(run: BenchArtefacts, made: Sequence[Table]) -> list[str]:
    """Say in sentences what was measured and what came of it."""
    return overall(run, made) + [table.sentence for table in made]


def overall(run: BenchArtefacts, made: Sequence[Table]) -> list[str]:
    """Say in sentences what was measured and how far it can be trusted."""
    count = {status: sum(record.status == status for record in run.records) for status in ("ok", "failed")}
    repetitions = run.config["repetitions"]
    sentences = [
        f"{count['ok']} repetitions were measured over {_counted(len(made), 'work')}, {repetitions} of each point"
        + (f"; {count['failed']} failed." if count["failed"] else ".")
    ]
    if repetitions < LEAST_REPETITIONS:
        sentences.append(
            f"Fewer than {LEAST_REPETITIONS} repetitions: Mann-Whitney's test is unreliable, and with several runtimes "
            "it may be unable to separate any two."
        )
    unstable = sum(bool(record.unstable) for record in run.records)
    if unstable:
        sentences.append(f"Unstable: {_counted(unstable, 'repetition')}, left out where stable ones remain.")
    drifted = sum(WARNING < (record.window_drift or 0) <= DRIFT for record in run.records)
    if drifted:
        sentences.append(
            f"In {_counted(drifted, 'repetition')} the median moved by 2 to 10 % between windows: a warning, and a "
            "reason to look at the intervals."
        )
    return sentences


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def problems(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return what failed, could not serve or was skipped, one entry a point and reason, with how often."""
    found: dict[tuple[str, str, str, str], int] = {}
    for record in records:
        if record.status != "ok":
            reason = (record.work, record.runtime, record.status, record.error or "")
            found[reason] = found.get(reason, 0) + 1
    names = ("work", "runtime", "status", "error")
    return [{**dict(zip(names, reason, strict=True)), "count": count} for reason, count in found.items()]


def unstable(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the repetitions that were marked, with their reasons."""
    return [
        {"work": record.work, "runtime": record.runtime, "repetition": record.repetition, "reasons": record.unstable}
        for record in records
        if record.unstable
    ]


def _row(standing: Standing, records: Sequence[Record]) -> Row:
    mine = [record for record in records if record.runtime == standing.runtime and record.status == "ok"]
    telemetry = [record.telemetry for record in mine if record.telemetry]
    parts = {part: [record.split_ms[part] for record in mine if part in record.split_ms] for part in mine[0].split_ms}
    return Row(
        standing=standing,
        entry=mine[0].entry or mine[0].runtime,
        swept=mine[0].swept,
        percentiles_ms={f"p{p}": _tail(mine, p) for p in MINIMUM_SAMPLES},
        split_ms={part.removesuffix("_ms"): median(values) for part, values in parts.items()},
        load_s=_median(record.load_s for record in mine),
        first_run_ms=_median(record.first_run_ms for record in mine),
        host_memory_bytes=max((t["host_memory_bytes"] for t in telemetry if t["host_memory_bytes"]), default=None),
        device_memory_bytes=max(
            (t["device_memory_bytes"] for t in telemetry if t["device_memory_bytes"]), default=None
        ),
        energy_per_item_j=_median(record.energy_per_item_j for record in mine),
    )


def _tail(records: Sequence[Record], percent: int) -> float | None:
    """Median over repetitions of a high percentile; None if any has too few samples to claim it (LoadGen)."""
    summaries = [record.latency_ms for record in records if record.latency_ms]
    if not summaries or any(one["count"] < MINIMUM_SAMPLES[percent] for one in summaries):
        return None
    return median(one[f"p{percent}"] for one in summaries)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _sentence(work: str, standings: Sequence[Standing]) -> str:
    best = standings[0]
    time = best.latency_ms
    figure = f"{time.median:.3f} ms (95 % interval {time.low:.3f} to {time.high:.3f})"
    if len(standings) == 1:
        return f"{work}: {best.runtime} takes {figure}; there is nothing to compare it with."
    tied = [standing.runtime for standing in standings[1:] if standing.rank == best.rank]
    beaten = [standing for standing in standings if standing.rank != best.rank]
    if tied:
        opening = f"{work}: {best.runtime} has the lowest median, {figure}, but cannot be ranked above "
        opening += " or ".join(tied)
    else:
        opening = f"{work}: {best.runtime} is fastest, {figure}"
    if not beaten or (against := beaten[0].against_best) is None:
        return f"{opening}."
    return (
        f"{opening}; {beaten[0].runtime} takes {against.ratio:.2f} times as long "
        f"({against.ratio_low:.2f} to {against.ratio_high:.2f})."
    )
