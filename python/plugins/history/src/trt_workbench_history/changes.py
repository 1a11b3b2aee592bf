"""Where a figure changed in a series of runs, by the same comparison that two runs get.

A run is compared with the level before it: the repetitions of all runs since the last change, by `comparison.compare`,
at the confidence that Bonferroni's method leaves each of the comparisons that are made together. A run that differs is
a change only if the next one differs from that level in the same direction, because machines have bad days; the last
run has no next one, and its change is not confirmed. A score has no repetitions: the interval of its ratio is made of
the ends of both intervals, which is wider than needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trt_workbench.core.statistics.comparison import ALPHA, MATERIAL, Verdict, compare, verdict

# A score of nothing is no ratio.
_LEAST = 1e-12
_MOVED: tuple[Verdict, ...] = ("slower", "faster")


@dataclass(frozen=True)
class SeriesEntry:
    """The figures of one run, or of several that are alike.

    Attributes:
        values: one a repetition; of a score, itself.
        low: lower end of a score's interval; None of repetitions, or without one.
        high: upper end.
    """

    values: tuple[float, ...]
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ChangePoint:
    """A run from which on a figure is another.

    Attributes:
        index: of the run.
        ratio: to the level before.
        low: lower end of the ratio's interval.
        high: upper end.
        confirmed: whether the next run says the same; False for the last run.
    """

    index: int
    ratio: float
    low: float
    high: float
    confirmed: bool


def change_points(series: Sequence[SeriesEntry | None], comparisons: int) -> list[ChangePoint]:
    """Return where a series changed.

    Args:
        series: the runs in their order; None for one that is not to be relied on.
        comparisons: how many are made together: the pairs of neighbours of all series of a page.
    """
    known = [(index, one) for index, one in enumerate(series) if one is not None]
    found: list[ChangePoint] = []
    level: list[SeriesEntry] = []
    waiting: tuple[ChangePoint, SeriesEntry] | None = None  # for the next run to confirm it
    for index, run in known:
        seen = _against(level, run, index, comparisons) if level else None
        if waiting and seen and (waiting[0].ratio > 1) == (seen.ratio > 1):
            found.append(replace(waiting[0], confirmed=True))
            level, waiting = [waiting[1], run], None
        elif seen:
            waiting = seen, run
        else:
            level, waiting = [*level, run], None
    return [*found, waiting[0]] if waiting and waiting[0].index == known[-1][0] else found


def can_tell(series: Sequence[SeriesEntry | None], comparisons: int) -> bool:
    """Return whether a change could be found: of two runs that follow each other the ratio has an interval."""
    known = [one for one in series if one is not None]
    return any(_ratio([before], now, comparisons) for before, now in itertools.pairwise(known))


def _against(level: Sequence[SeriesEntry], run: SeriesEntry, index: int, comparisons: int) -> ChangePoint | None:
    """Return how a run differs from a level; None where it does not, or where that cannot be said."""
    found = _ratio(level, run, comparisons)
    moved = found is not None and verdict(*found, MATERIAL) in _MOVED
    return ChangePoint(index, *found, confirmed=False) if found and moved else None


def _ratio(level: Sequence[SeriesEntry], run: SeriesEntry, comparisons: int) -> tuple[float, float, float] | None:
    """Return the ratio of a run to a level and its interval, as `bench` judges times; None without one."""
    if len(run.values) == 1 and run.low is not None and run.high is not None:
        last = level[-1]
        if last.low is None or last.high is None:
            return None
        pairs = ((run.values[0], last.values[0]), (run.low, last.high), (run.high, last.low))
        ratio, low, high = (max(value, _LEAST) / max(to, _LEAST) for value, to in pairs)
        return ratio, low, high
    before, now = ([max(value, _LEAST) for one in runs for value in one.values] for runs in (level, [run]))
    made = compare(before, now, 1 - ALPHA / comparisons)
    return None if made.ratio_low is None or made.ratio_high is None else (made.ratio, made.ratio_low, made.ratio_high)
