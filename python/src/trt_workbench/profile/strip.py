"""The nodes of a side in the order of execution, each as wide as its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from trt_workbench.backends.profiling import Operation
from trt_workbench.core.counts import counted
from trt_workbench.core.percent import share
from trt_workbench.profile.view import SideView, label

_COLOURS = 7  # of the page's series; the eighth is that of all other operators
_NARROW = 0.001  # of the strip: what is narrower joins its neighbours


@dataclass(frozen=True)
class StripPart:
    """A part of a strip: `width` in percent of the longest one, `colour` as the page numbers it, `said` on hover."""

    width: float
    colour: int
    said: str


@dataclass(frozen=True)
class Strips:
    """The strips of all sides on one scale, and what their colours mean: the operator with its share of each side."""

    sides: list[list[StripPart]]
    legend: list[tuple[int, str, list[str]]]


def strips(sides: Sequence[SideView]) -> Strips:
    """Return the strips of the sides; the longest one is 100 percent wide."""
    longest = max((side.total_ms for side in sides), default=0.0)
    if not longest:
        return Strips([], [])
    sums = [_sums(side) for side in sides]
    weight: Counter[str] = Counter()
    for found, side in zip(sums, sides, strict=True):
        weight.update({kind: time / (side.total_ms or 1.0) for kind, time in found.items()})
    colours = {kind: place for place, (kind, _) in enumerate(weight.most_common(_COLOURS), 1)}
    others = [sum(time for kind, time in found.items() if kind not in colours) for found in sums]
    parts = [(place, kind, [found[kind] for found in sums]) for kind, place in colours.items()]
    parts += [(_COLOURS + 1, "all others", others)] if any(others) else []
    wholes = [side.total_ms or 1.0 for side in sides]
    legend = [
        (place, kind, [share(time / whole) for time, whole in zip(times, wholes, strict=True)])
        for place, kind, times in parts
    ]
    return Strips([_pieces(side, colours, longest) for side in sides], legend)


def _kind(one: Operation) -> str:
    return one.operator or one.role


def _sums(side: SideView) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in side.operations:
        if one.mean_ms:
            found[_kind(one)] += one.mean_ms  # type: ignore[assignment]
    return found


def _pieces(side: SideView, colours: dict[str, int], longest: float) -> list[StripPart]:
    timed = [one for one in side.operations if one.mean_ms]
    found = []
    for narrow, group in groupby(timed, lambda one: (one.mean_ms or 0.0) < _NARROW * longest):
        several = list(group)
        for part in [several] if narrow else [[one] for one in several]:
            time = sum(one.mean_ms or 0.0 for one in part)
            kinds = {_kind(one) for one in part}
            colour = colours.get(kinds.pop(), _COLOURS + 1) if len(kinds) == 1 else _COLOURS + 1
            name = f"{_kind(part[0])}, {label(part[0])}" if len(part) == 1 else counted(len(part), side.noun[:-1])
            found.append(StripPart(100 * time / longest, colour, f"{name}: {time:.4f} ms"))
    return found
