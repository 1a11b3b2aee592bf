"""The report of a profile, made only from the files of its run directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from trt_workbench.backends.profiling import Operation
from trt_workbench.core.artefacts import read_environment
from trt_workbench.core.counts import counted
from trt_workbench.core.percent import share
from trt_workbench.profile.view import (
    CONVERSIONS,
    ProfileFiles,
    SideView,
    differences,
    faster_side,
    kernels,
    label,
    operations,
    read,
    roles,
    summary,
    summed,
)
from trt_workbench.report.conditions import measuring_conditions
from trt_workbench.report.tables import Table
from trt_workbench.report.verdict import Headline

__all__ = ["answer", "read", "view"]

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
    """Return the strips of the sides: nodes in the order of execution. The longest one is 100 percent wide."""
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


def answer(found: ProfileFiles) -> Headline:
    """Return what the page of a run says first."""
    sides = found.sides
    faster = faster_side(*(side.facts for side in sides)) if len(sides) > 1 else None
    doubts = [f"Times of {one.title} are unreliable: {why}." for one in sides for why in one.facts.get("unstable", ())]
    return Headline(
        [*summary(sides, found.groups)[:1], *doubts],
        {"target": "faster", "against": "slower"}[faster] if faster else None,
    )


def view(found: ProfileFiles, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    run, sides, groups = found
    several = len(sides) > 1
    return {
        "title": " against ".join(side.title for side in sides),
        "run": run,
        "sides": sides,
        "differences": [differences(sides, part) for part in (groups[:5], groups[5:])] if several else [],
        "notes": list(dict.fromkeys(note for side in sides for note in side.facts.get("notes", []))),
        "roles": roles(sides),
        "strips": strips(sides),
        "totals": summed(sides),
        "overheads": [_parted(side, side.overhead, partial(Table, CONVERSIONS)) for side in sides],
        "operations": [_parted(side, side.longest, partial(operations, side)) for side in sides],
        "kernels": [kernels(side) for side in sides],
        "summary": summary(sides, groups),
        "conditions": measuring_conditions(read_environment(directory)),
    }


def _parted(side: SideView, rows: list[Operation], made: Callable[[list[Operation]], Table]) -> tuple[Table, Table]:
    """Return tables of the operations that take a share worth seeing, and of the others."""
    seen = len(side.telling_of(rows))
    return made(rows[:seen]), made(rows[seen:])
