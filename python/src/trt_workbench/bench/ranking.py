"""Order the runtimes of one work by latency, with ranks shared by those that are not distinguishable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from trt_workbench.backends.measure.stability import between_repetitions
from trt_workbench.core.records import Record
from trt_workbench.core.statistics.comparison import Comparison, Interval, compare_rounds, median_interval, together
from trt_workbench.core.statistics.summary import CONFIDENCE


@dataclass(frozen=True)
class Standing:
    """One runtime at one work.

    Attributes:
        runtime: its label.
        rank: from 1; those that are not slower than the first of a rank share it.
        latency_ms: median over repetitions of their p50, with its interval.
        items_per_s: median over the same repetitions.
        against_best: comparison with the fastest; None for the fastest itself.
        repetitions: how many were measured.
        unstable: how many of them were marked: all if `reasons` is not empty.
        reasons: not to trust the repetitions that count, visible only in all of them together.
    """

    runtime: str
    rank: int
    latency_ms: Interval
    items_per_s: float
    against_best: Comparison | None
    repetitions: int
    unstable: int
    reasons: tuple[str, ...] = ()

    @property
    def all_unstable(self) -> bool:
        """Whether no repetition is stable, so that it cannot be said to be the fastest."""
        return self.unstable == self.repetitions


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
    """Return the reasons not to trust the repetitions that count, visible only in all of them together.

    Args:
        records: of one point.
        least: as `kept_records` takes it.
    """
    kept = [one for number in kept_records(records, least).values() for one in number.values()]
    return tuple(between_repetitions([_with_noise(one) for one in kept])) if kept else ()


def _with_noise(record: Record) -> Interval:
    """A record of an earlier release does not hold its noise: then any spread beyond the limit counts."""
    middle = _p50(record)
    low, high = record.p50_interval_ms or (middle, middle)
    return Interval(middle, low, high, 0.0)


def round_ratios(a: Mapping[int, Record], b: Mapping[int, Record]) -> list[list[float]]:
    """Return the ratio of B's time to A's, turn by turn, for every round that both were measured in."""
    shared = [number for number in sorted(a.keys() & b.keys()) if a[number].group == b[number].group]
    ratios = []
    for number in shared:
        first, second = a[number].slice_p50_ms, b[number].slice_p50_ms
        if not first or len(first) != len(second):
            first, second = [_p50(a[number])], [_p50(b[number])]
        ratios.append([later / before for before, later in zip(first, second, strict=True)])
    return ratios


def compare_records(a: Mapping[int, Record], b: Mapping[int, Record], confidence: float = CONFIDENCE) -> Comparison:
    """Compare two runtimes of one run, each by the number of the repetition."""
    first, second = ([_p50(record) for record in one.values()] for one in (a, b))
    return compare_rounds(first, second, round_ratios(a, b), confidence)


def untrusted(records: Sequence[Record]) -> tuple[str, ...]:
    """Return the reasons not to rely on a point: those that all together show, and each if none is stable.

    Args:
        records: of one point.
    """
    measured = [record for record in records if record.latency_ms]
    alone = measured and all(record.unstable for record in measured)
    each = [reason for record in measured for reason in record.unstable] if alone else []
    return tuple(dict.fromkeys([*point_reasons(records), *each]))


def rank(records: Sequence[Record], least: int = 1) -> list[Standing]:
    """Rank the runtimes of one work by rank, then median; those without a measured repetition do not appear.

    Args:
        records: of one scenario and work.
        least: as `kept_records` takes it.
    """
    kept, medians = kept_records(records, least), repetition_medians(records, least)
    left = sorted(medians, key=lambda runtime: median(medians[runtime]))
    standings: list[Standing] = []
    best: dict[str, Comparison] = {}
    while left:
        against = _compared(kept, left[0], left[1:])
        best = best or against
        place = len(standings) + 1
        tied = [runtime for runtime in left if runtime not in against or against[runtime].verdict != "slower"]
        left = [runtime for runtime in left if runtime not in tied]
        for runtime in tied:
            mine = [record for record in records if record.runtime == runtime and record.status == "ok"]
            reasons = point_reasons(mine, least)
            speeds = (one.items_per_s for one in kept[runtime].values() if one.items_per_s is not None)
            standings.append(
                Standing(
                    runtime=runtime,
                    rank=place,
                    latency_ms=median_interval(medians[runtime]),
                    items_per_s=median(speeds),
                    against_best=best.get(runtime),
                    repetitions=len(mine),
                    unstable=len(mine) if reasons else sum(bool(record.unstable) for record in mine),
                    reasons=reasons,
                )
            )
    return standings


def _compared(kept: Mapping[str, Mapping[int, Record]], first: str, others: Sequence[str]) -> dict[str, Comparison]:
    """Compare runtimes with one; all together."""
    made = together([partial(compare_records, kept[first], kept[other]) for other in others])
    return dict(zip(others, made, strict=True))


def _p50(record: Record) -> float:
    assert record.latency_ms is not None  # only measured repetitions are kept
    return record.latency_ms["p50"]
