"""Order the runtimes of one work by latency, with ranks shared by those that cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from trt_workbench.bench.comparison import Comparison, Interval, compare_rounds, corrected, median_interval
from trt_workbench.bench.records import Record


@dataclass(frozen=True)
class Standing:
    """One runtime at one work.

    Attributes:
        runtime: its label.
        rank: from 1; runtimes that cannot be told from the one before them share its rank.
        latency_ms: median over repetitions of their p50, with its interval.
        items_per_s: median over repetitions.
        against_best: comparison with the fastest; None for the fastest itself.
        against_previous: comparison with the one before it in the order; None for the first.
        repetitions: how many were measured.
        unstable: how many of them were marked.
    """

    runtime: str
    rank: int
    latency_ms: Interval
    items_per_s: float
    against_best: Comparison | None
    against_previous: Comparison | None
    repetitions: int
    unstable: int


def repetition_medians(records: Sequence[Record]) -> dict[str, dict[int, float]]:
    """Return the p50 latency of every measured repetition by runtime and number, milliseconds.

    Unstable repetitions are left out where stable ones remain.
    """
    chosen: dict[str, dict[int, float]] = {}
    for runtime in dict.fromkeys(record.runtime for record in records):
        mine = [record for record in records if record.runtime == runtime and record.latency_ms]
        kept = [record for record in mine if not record.unstable] or mine
        if kept:
            chosen[runtime] = {record.repetition: record.latency_ms["p50"] for record in kept if record.latency_ms}
    return chosen


def rank(records: Sequence[Record]) -> list[Standing]:
    """Rank the runtimes of one work; those without a measured repetition do not appear.

    Args:
        records: of one scenario and work.
    """
    medians = repetition_medians(records)
    order = sorted(medians, key=lambda runtime: median(medians[runtime].values()))
    best = _compared(medians, [(order[0], other) for other in order[1:]]) if order else []
    previous = _compared(medians, list(pairwise(order)))
    standings: list[Standing] = []
    for index, runtime in enumerate(order):
        before = previous[index - 1] if index else None
        tied = before is not None and before.verdict != "slower"
        mine = [record for record in records if record.runtime == runtime and record.status == "ok"]
        standings.append(
            Standing(
                runtime=runtime,
                rank=standings[-1].rank if tied else index + 1,
                latency_ms=median_interval(list(medians[runtime].values())),
                items_per_s=median(record.items_per_s for record in mine if record.items_per_s is not None),
                against_best=best[index - 1] if index else None,
                against_previous=before,
                repetitions=len(mine),
                unstable=sum(bool(record.unstable) for record in mine),
            )
        )
    return standings


def _compared(medians: Mapping[str, Mapping[int, float]], pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    return corrected([compare_rounds(medians[first], medians[second]) for first, second in pairs])
