"""Order the runtimes of one work by latency, with ranks shared by those that are not distinguishable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from trt_workbench.backends.measure.stability import DRIFT, between_repetitions
from trt_workbench.core.counts import grouped
from trt_workbench.core.records import Record
from trt_workbench.core.statistics.comparison import (
    LEAST_REPETITIONS,
    MATERIAL,
    Comparison,
    Interval,
    compare_rounds,
    median_interval,
    telling_repetitions,
    together,
)
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


# Fewer cannot show that two runtimes differ.
_LEAST = telling_repetitions(1)
# From so many turns a round on, what disturbs a processor for a while reaches both sides of the round's median.
_TURNS = 5
# Of an interval from such rounds where the machine was not quiet.
_SURER = 0.99


def kept_records(
    records: Sequence[Record], least: int = _LEAST, *, one_run: bool = True
) -> dict[str, dict[int, Record]]:
    """Return the measured repetitions by runtime and number.

    Unstable repetitions are left out where enough stable ones remain, and runtimes whose outputs are wrong altogether.

    Args:
        records: of one work.
        least: how many stable ones have to remain; where fewer do, the unstable ones count as well.
        one_run: whether they are compared with others of their run. Then nine have to remain of repetitions in turns:
            their rounds are compared from nine on.
    """
    chosen: dict[str, dict[int, Record]] = {}
    wrong = {record.runtime for record in records if record.status == "wrong"}
    for runtime in dict.fromkeys(record.runtime for record in records if record.runtime not in wrong):
        mine = [record for record in records if record.runtime == runtime and record.latency_ms]
        stable = [record for record in mine if not record.unstable]
        enough = max(least, LEAST_REPETITIONS) if one_run and _in_turns(mine) else least
        if kept := stable if len(stable) >= enough else mine:
            chosen[runtime] = {record.repetition: record for record in kept}
    return chosen


def _in_turns(records: Iterable[Record]) -> bool:
    """Whether each was measured in enough slices, between which others took their turns."""
    return all(len(record.slice_p50_ms) >= _TURNS for record in records)


def repetition_medians(records: Sequence[Record], least: int = _LEAST) -> dict[str, list[float]]:
    """Return the times that count by runtime, milliseconds, as `unit_medians`; arguments as `kept_records`."""
    return {runtime: unit_medians(kept) for runtime, kept in kept_records(records, least).items()}


def unit_medians(kept: Mapping[int, Record]) -> list[float]:
    """Return the p50 latency of every process, milliseconds; of a single one, of every repetition.

    Repetitions in one process share its memory and its luck: where a runtime had several, each is one figure.

    Args:
        kept: repetitions of one point by number.
    """
    return [median(map(_p50, unit)) for unit in _units(kept)]


def _units(kept: Mapping[int, Record]) -> list[list[Record]]:
    """Return the repetitions of each process; of a single one, each by itself."""
    several = len({record.group for record in kept.values()}) > 1
    return list(grouped(kept.values(), lambda record: record.group if several else record.repetition).values())


def point_reasons(kept: Mapping[int, Record]) -> tuple[str, ...]:
    """Return the reasons not to trust the repetitions that count, visible only in all of them together.

    Args:
        kept: those of one point by number, at least one.
    """
    return tuple(between_repetitions([_with_noise(one) for one in kept.values()]))


def _with_noise(record: Record) -> Interval:
    """A record of an earlier release does not hold its noise: then any spread beyond the limit counts."""
    middle = _p50(record)
    low, high = record.p50_interval_ms or (middle, middle)
    return Interval(middle, low, high, 0.0)


def round_ratios(a: Mapping[int, Record], b: Mapping[int, Record]) -> list[list[float]]:
    """Return the ratio of B's time to A's, turn by turn, for every round that both were measured in.

    Rounds in the same processes are one, where there were several.
    """
    shared = {number: a[number] for number in sorted(a.keys() & b.keys()) if a[number].group == b[number].group}
    return [[ratio for one in unit for ratio in _ratios(one, b[one.repetition])] for unit in _units(shared)]


def _ratios(before: Record, after: Record) -> list[float]:
    if before.slice_p50_ms and len(before.slice_p50_ms) == len(after.slice_p50_ms):
        return [later / first for first, later in zip(before.slice_p50_ms, after.slice_p50_ms, strict=True)]
    return [_p50(after) / _p50(before)]


def judge(
    a: Mapping[int, Record],
    b: Mapping[int, Record],
    confidence: float = CONFIDENCE,
    *,
    material: float = MATERIAL,
    one_run: bool = True,
) -> Comparison:
    """Say which of two sets of repetitions is faster: what every command does that says so.

    Where a side is unstable and every round measured them in turns, their interval is one of 99 %. Without such turns
    it is the widest there is, and one of them is faster only if they differ by more than what makes a side unstable,
    and were measured in one run: what disturbed one run need not have disturbed another.

    Args:
        a: the reference: its repetitions that count, by number, as `kept_records` has them.
        b: what is compared with it.
        confidence: of the interval.
        material: least share by which the times have to differ.
        one_run: whether they were measured in rounds of one run.
    """
    unstable = bool(untrusted(a) or untrusted(b))
    rounds = round_ratios(a, b) if one_run else []
    turns = len(rounds) >= LEAST_REPETITIONS and _in_turns((*a.values(), *b.values()))
    surer = max(confidence, _SURER) if unstable else confidence
    made = compare_rounds(unit_medians(a), unit_medians(b), rounds, surer, material, widest=unstable and not turns)
    shown = not unstable or turns or (one_run and abs(math.log(made.ratio)) >= math.log1p(DRIFT))
    return made if shown or made.verdict == "no material difference" else replace(made, verdict="cannot tell")


def untrusted(kept: Mapping[int, Record]) -> tuple[str, ...]:
    """Return the reasons not to rely on a point: those that all repetitions together show, and those of each.

    Args:
        kept: its repetitions that count, by number; unstable ones are among them only where too few are stable.
    """
    each = [reason for record in kept.values() for reason in record.unstable]
    return tuple(dict.fromkeys([*point_reasons(kept), *each]))


def rank(records: Sequence[Record], least: int = _LEAST) -> list[Standing]:
    """Rank the runtimes of one work by rank, then time; those without a measured repetition do not appear.

    Args:
        records: of one scenario and work.
        least: as `kept_records` takes it.
    """
    kept = kept_records(records, least)
    medians = {runtime: unit_medians(own) for runtime, own in kept.items()}
    order = sorted(medians, key=lambda runtime: median(medians[runtime]))
    # by the ratios that decide: where the machine changes its speed, they may differ from those of the medians
    left = sorted(order, key=lambda runtime: judge(kept[order[0]], kept[runtime]).ratio)
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
            reasons = point_reasons(kept[runtime])
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
    return dict(zip(others, together([partial(judge, kept[first], kept[other]) for other in others]), strict=True))


def _p50(record: Record) -> float:
    assert record.latency_ms is not None  # only measured repetitions are kept
    return record.latency_ms["p50"]
