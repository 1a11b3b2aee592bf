"""Order the runtimes of one work by latency, with ranks shared by those that cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from trt_workbench.measure.stability import between_repetitions
from trt_workbench.runs.comparison import Comparison, Interval, compare_rounds, corrected, median_interval
from trt_workbench.runs.records import Record


@dataclass(frozen=True)
class Standing:
    """One runtime at one work.

    Attributes:
        runtime: its label.
        rank: from 1; runtimes that cannot be told from the one before them share its rank.
        latency_ms: median over repetitions of their p50, with its interval.
        items_per_s: median over the same repetitions.
        against_best: comparison with the fastest; None for the fastest itself.
        against_previous: comparison with the one before it in the order; None for the first.
        repetitions: how many were measured.
        unstable: how many of them were marked: all if `reasons` is not empty.
        reasons: not to trust the repetitions that count, which only these together show.
    """

    runtime: str
    rank: int
    latency_ms: Interval
    items_per_s: float
    against_best: Comparison | None
    against_previous: Comparison | None
    repetitions: int
    unstable: int
    reasons: tuple[str, ...] = ()


def kept_records(records: Sequence[Record], least: int = 1) -> dict[str, dict[int, Record]]:
    """Return the measured repetitions by runtime and number.

    Unstable repetitions are left out where stable ones remain, and runtimes whose outputs are wrong altogether.

    Args:
        records: of one work.
        least: how many stable ones have to remain; where fewer do, the unstable ones count as well.
    """
    chosen: dict[str, dict[int, Record]] = {}
    wrong = {record.runtime for record in records if record.status == "wrong"}
    for runtime in dict.fromkeys(record.runtime for record in records if record.runtime not in wrong):
        mine = [record for record in records if record.runtime == runtime and record.latency_ms]
        stable = [record for record in mine if not record.unstable]
        if kept := stable if len(stable) >= least else mine:
            chosen[runtime] = {record.repetition: record for record in kept}
    return chosen


def repetition_medians(records: Sequence[Record], least: int = 1) -> dict[str, list[float]]:
    """Return the p50 latency of every repetition that counts by runtime, milliseconds; arguments as `kept_records`."""
    return {
        runtime: [record.latency_ms["p50"] for record in kept.values() if record.latency_ms]
        for runtime, kept in kept_records(records, least).items()
    }


def point_reasons(records: Sequence[Record], least: int = 1) -> tuple[str, ...]:
    """Return the reasons not to trust the repetitions that count, which only these together show.

    Args:
        records: of one point.
        least: as `kept_records` takes it.
    """
    kept = [one for number in kept_records(records, least).values() for one in number.values()]
    return tuple(between_repetitions([_with_noise(one) for one in kept])) if kept else ()


def _with_noise(record: Record) -> Interval:
    """A record of an earlier release does not tell its noise: then any spread beyond the limit counts."""
    middle = _p50(record)
    low, high = record.p50_interval_ms or (middle, middle)
    return Interval(middle, low, high, 0.0)


def round_ratios(a: Mapping[int, Record], b: Mapping[int, Record]) -> list[list[float]]:
    """Return how many times as long as A B took, turn by turn, for every round that both were measured in."""
    shared = [number for number in sorted(a.keys() & b.keys()) if a[number].group == b[number].group]
    ratios = []
    for number in shared:
        first, second = a[number].slice_p50_ms, b[number].slice_p50_ms
        if not first or len(first) != len(second):
            first, second = [_p50(a[number])], [_p50(b[number])]
        ratios.append([later / before for before, later in zip(first, second, strict=True)])
    return ratios


def compare_records(a: Mapping[int, Record], b: Mapping[int, Record]) -> Comparison:
    """Compare two runtimes of one run, each by the number of the repetition."""
    first, second = ([_p50(record) for record in one.values()] for one in (a, b))
    return compare_rounds(first, second, round_ratios(a, b))


def rank(records: Sequence[Record], least: int = 1) -> list[Standing]:
    """Rank the runtimes of one work; those without a measured repetition do not appear.

    Args:
        records: of one scenario and work.
        least: as `kept_records` takes it.
    """
    kept, medians = kept_records(records, least), repetition_medians(records, least)
    order = sorted(medians, key=lambda runtime: median(medians[runtime]))
    best = _compared(kept, [(order[0], other) for other in order[1:]]) if order else []
    previous = _compared(kept, list(pairwise(order)))
    standings: list[Standing] = []
    for index, runtime in enumerate(order):
        before = previous[index - 1] if index else None
        tied = before is not None and before.verdict != "slower"
        mine = [record for record in records if record.runtime == runtime and record.status == "ok"]
        reasons = point_reasons(mine, least)
        standings.append(
            Standing(
                runtime=runtime,
                rank=standings[-1].rank if tied else index + 1,
                latency_ms=median_interval(medians[runtime]),
                items_per_s=median(one.items_per_s for one in kept[runtime].values() if one.items_per_s is not None),
                against_best=best[index - 1] if index else None,
                against_previous=before,
                repetitions=len(mine),
                unstable=len(mine) if reasons else sum(bool(record.unstable) for record in mine),
                reasons=reasons,
            )
        )
    return standings


def _compared(kept: Mapping[str, Mapping[int, Record]], pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    return corrected([compare_records(kept[first], kept[second]) for first, second in pairs])


def _p50(record: Record) -> float:
    assert record.latency_ms is not None  # only measured repetitions are kept
    return record.latency_ms["p50"]
