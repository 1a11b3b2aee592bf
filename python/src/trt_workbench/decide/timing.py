"""Which rows are timed, and how often, in the time that is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trt_workbench.bench import RepetitionSettings
from trt_workbench.core.counts import counted
from trt_workbench.core.statistics.comparison import inseparable, telling_repetitions
from trt_workbench.decide.document import BASELINE
from trt_workbench.decide.tried import DraftRow

MEASURE = RepetitionSettings(warmup_ms=100.0, duration_s=0.3, min_iterations=10)
"""Of one repetition: a decision has many rows, and its repetitions count, not the samples within one."""
# Fewer repetitions say nothing about the spread between processes.
_FEWEST_REPETITIONS = 3
# A worker's start and the load of a model that is in the cache, about, before every repetition.
_LOAD_S = 2.0


@dataclass(frozen=True)
class Timing:
    """What is timed.

    Attributes:
        rows: in the order of asking; none where there is no time for it.
        repetitions: of each.
        words: sentences on differences from the request.
    """

    rows: tuple[DraftRow, ...] = ()
    repetitions: int = 0
    words: tuple[str, ...] = ()


def measuring_s(rows: Sequence[DraftRow], repetitions: int) -> float:
    """Return the least time that the latencies of rows take that an earlier run does not have, seconds."""
    left = {row.runtime: 0 if row.lost else max(0, repetitions - row.measured) for row in rows}
    return sum(left[row.runtime] * (_LOAD_S + _repetition_s(row)) for row in rows)


def wanted(rows: Sequence[DraftRow], asked: int) -> int:
    """Return how often each of these rows is timed: as asked, or the next number that can distinguish them; or 0."""
    return telling_repetitions(_comparisons(rows), asked) if asked and rows else 0


def _comparisons(rows: Sequence[DraftRow]) -> int:
    """Return with how many others a row is compared; all builds of one are one."""
    return len({(row.precision, row.backend) for row in rows}) - 1


def timing(rows: Sequence[DraftRow], asked: int, left_s: float | None) -> Timing:
    """Choose what is timed: with little time fewer repetitions, then fewer rows, the slowest left out first.

    Never so few repetitions that no two of the rows could be distinguished: most of the time goes into loading, and a
    latency that cannot be compared decides nothing.

    Args:
        rows: that could be timed.
        asked: repetitions.
        left_s: time that is left; None where there is no end.
    """
    if not rows or not asked:
        return Timing()
    order = sorted(rows, key=_call_ms)
    fastest = next((row for row in order if row.precision == BASELINE), order[0])
    # what all others are judged by, then what costs no time
    order.sort(key=lambda row: (row is not fastest, not row.measured))
    least = min(2, len(rows))
    for count in range(len(rows), least - 1, -1):
        kept = order[:count]
        most = wanted(kept, asked)
        fewest = wanted(kept, min(asked, _FEWEST_REPETITIONS))
        for repetitions in range(most, fewest - 1, -1):
            if inseparable(repetitions, _comparisons(kept)):
                continue
            if left_s is None or measuring_s(kept, repetitions) <= left_s:
                chosen = tuple(row for row in rows if row in kept)
                return Timing(chosen, repetitions, tuple(_words(order[count:], count, asked, repetitions)))
    seconds = measuring_s(order[:least], wanted(order[:least], min(asked, _FEWEST_REPETITIONS)))
    return Timing(words=(f"Latencies were not measured: they take at least {seconds:.0f} s, beyond the budget.",))


def _words(dropped: Sequence[DraftRow], count: int, asked: int, repetitions: int) -> list[str]:
    found = []
    if dropped:
        named = ", ".join(row.label for row in dropped)
        found.append(f"No latency of the slowest when scored, as the budget was used up: {named}.")
    if repetitions < asked:
        found.append(f"Latencies were measured {counted(repetitions, 'time')}, not {asked}: the budget was used up.")
    elif repetitions > asked:
        found.append(
            f"Latencies were measured {counted(repetitions, 'time')}, not {asked}: "
            f"{asked} cannot distinguish any two of {count} rows."
        )
    return found


def _repetition_s(row: DraftRow) -> float:
    least = MEASURE.warmup_ms / 1000 + MEASURE.duration_s
    known = row.scores.call_ms if row.scores else None
    return least if known is None else max(least, (1 + MEASURE.min_iterations) * known / 1000)


def _call_ms(row: DraftRow) -> float:
    known = row.scores.call_ms if row.scores else None
    return math.inf if known is None else known
