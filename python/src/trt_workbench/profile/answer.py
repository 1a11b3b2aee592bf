"""Which of two profiled sides is faster: the times without the profiler answer, and the profile has to agree with them.

A profiler costs time for every layer or node, so that what has more of them looks slower than it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trt_workbench.core.statistics.comparison import MATERIAL, Interval

Faster = Literal["target", "against"]


@dataclass(frozen=True)
class Answer:
    """Two sides by their times of one run.

    Attributes:
        target: median without the profiler and its interval, milliseconds.
        against: the same of the other side.
        faster: the side whose median is lower by 2 % or more, with intervals apart; None where they cannot be told
            apart.
        profiled_ms: medians of both sides with the profiler, the target's first.
        profile_agrees: whether the profiled times say the same: their direction is that of the others, and the
            interval of their ratio meets that of the others.
    """

    target: Interval
    against: Interval
    faster: Faster | None
    profiled_ms: tuple[float, float]
    profile_agrees: bool


def answer(target: Mapping[str, Any], against: Mapping[str, Any]) -> Answer | None:
    """Return who is faster; None where a side was not run without the profiler, or on another machine.

    Args:
        target: facts of the profiled engine or model, as run.json holds them.
        against: of the one it is compared with.
    """
    if against.get("other_machine"):
        return None
    own = [_interval(side, "own") for side in (target, against)]
    profiled = [_interval(side, "profiled") for side in (target, against)]
    if own[0] is None or own[1] is None or profiled[0] is None or profiled[1] is None:
        return None
    plain, seen = _ratio(own[0], own[1]), _ratio(profiled[0], profiled[1])
    opposite = (plain.median - 1) * (seen.median - 1) < 0 and max(_off(plain), _off(seen)) >= MATERIAL
    apart = plain.high < seen.low or seen.high < plain.low
    distinct = _off(plain) >= MATERIAL and not plain.low <= 1 <= plain.high
    faster: Faster = "target" if plain.median < 1 else "against"
    return Answer(
        own[0],
        own[1],
        faster if distinct else None,
        (profiled[0].median, profiled[1].median),
        profile_agrees=not opposite and not apart,
    )


def _interval(side: Mapping[str, Any], which: str) -> Interval | None:
    """Return a side's time; runs of earlier releases have the median alone, and of TensorRT the sum of the layers."""
    middle = side.get(f"{which}_ms") or (side.get("sum_ms") if which == "profiled" else None)
    if not middle:
        return None
    low, high = side.get(f"{which}_interval_ms") or (middle, middle)
    return Interval(middle, low, high, side.get(f"{which}_interval_coverage", 0.0))


def _ratio(one: Interval, other: Interval) -> Interval:
    coverage = min(one.coverage, other.coverage)
    return Interval(one.median / other.median, one.low / other.high, one.high / other.low, coverage)


def _off(ratio: Interval) -> float:
    return abs(ratio.median - 1)
