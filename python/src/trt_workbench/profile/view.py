"""What the tables and sentences of a profile show: one view a side, and what stands out in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from trt_workbench.backends.profiling import OVERHEAD, Operation, Side
from trt_workbench.core.artefacts import read_run
from trt_workbench.core.counts import counted, decimals, some
from trt_workbench.core.percent import share
from trt_workbench.core.statistics.comparison import MATERIAL, Interval
from trt_workbench.model.precision import precision_label
from trt_workbench.profile.difference import LayerGroup, difference, overhead, telling
from trt_workbench.profile.document import Kernel, ProfileLine, ProfileRun, SideFacts, read_records
from trt_workbench.report.tables import NONE, ROOMY, Cell, Column, Table

Faster = Literal["target", "against"]


@dataclass(frozen=True)
class Answer:
    """Two sides by their times of one run.

    Attributes:
        target: median without the profiler and its interval, milliseconds.
        against: the same of the other side.
        faster: the side whose median is lower by 2 % or more, with disjoint intervals; else None.
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


def faster_side(target: Mapping[str, Any], against: Mapping[str, Any]) -> Faster | None:
    """Return the faster side by the times without the profiler; None where neither is known to be."""
    found = answer(target, against)
    return found.faster if found else None


def _interval(side: Mapping[str, Any], which: str) -> Interval | None:
    """Return a side's time; runs of earlier releases have only the median, and of TensorRT the sum of the layers."""
    middle = side.get(f"{which}_ms") or (side.get("sum_ms") if which == "profiled" else None)
    if not middle:
        return None
    low, high = side.get(f"{which}_interval_ms") or (middle, middle)
    return Interval(middle, low, high, side.get(f"{which}_interval_coverage", 0.0))


def _ratio(one: Interval, other: Interval) -> Interval:
    return Interval(
        one.median / other.median, one.low / other.high, one.high / other.low, min(one.coverage, other.coverage)
    )


def _off(ratio: Interval) -> float:
    return abs(ratio.median - 1)


_NAMED = 3
# Columns of Nsight Compute's metrics: heading, factor from the metric's base unit, digits.
METRIC_COLUMNS: dict[str, tuple[str, float, int]] = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("SM, % of peak", 1.0, 1),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("memory, % of peak", 1.0, 1),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("DRAM, % of peak", 1.0, 1),
    "dram__bytes_read.sum": ("DRAM read, MiB", 2.0**-20, 2),
    "dram__bytes_write.sum": ("DRAM written, MiB", 2.0**-20, 2),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("warps active, %", 1.0, 1),
    "launch__registers_per_thread": ("registers per thread", 1.0, 0),
}
# Of nodes in a cell; more are folded. And characters of a name in a terminal.
_LISTED, _LONGEST = 4, 60
# Operations below this share are folded, and their kinds grouped.
_TRIVIAL = 0.005
_KINDS = 12


@dataclass(frozen=True)
class Total:
    """All operations of one operator that give one precision.

    Attributes:
        operator: of the operations; "all others" for kinds too small to show separately.
        precision: of their outputs, or the change of precision.
        number: how many there are, by side; None for a side without them.
        time_ms: of one run of the model, together, by side.
        widths: of the bars, in percent of the longest, by side.
    """

    operator: str
    precision: str
    number: list[int | None]
    time_ms: list[float | None]
    widths: list[float]


@dataclass(frozen=True)
class SideView:
    """One side of a profile.

    Attributes:
        name: "target" or "against".
        facts: of run.json.
        operations: layers or nodes in the order of execution.
        kernels: the longest first, by tool.
    """

    name: str
    facts: SideFacts
    operations: list[Operation]
    kernels: list[Kernel]

    @property
    def title(self) -> str:
        """File, backend and precision."""
        precision = precision_label(self.facts) or self.facts["precision"]
        return f"{Path(str(self.facts['path'])).name} ({self.facts['backend']}, {precision})"

    @property
    def noun(self) -> str:
        """What its operations are called."""
        return "layers" if "plan" in self.facts else "nodes"

    @property
    def longest(self) -> list[Operation]:
        """Operations with a time, the longest first."""
        return sorted((one for one in self.operations if one.mean_ms is not None), key=lambda one: -(one.mean_ms or 0))

    @staticmethod
    def telling_of(longest: Sequence[Operation]) -> list[Operation]:
        """Return the first of operations, the longest first, up to those that take less than half a percent."""
        return list(takewhile(lambda one: one.share is None or one.share >= _TRIVIAL, longest))

    @property
    def overhead(self) -> list[Operation]:
        """Reformat, cast, quantize and copy operations, the longest first."""
        return overhead(self.operations)

    @property
    def providers(self) -> dict[str, tuple[int, float]]:
        """Number of nodes and milliseconds by provider."""
        counts = Counter(one.provider for one in self.operations if one.provider)
        times: Counter[str] = Counter()
        for one in self.operations:
            if one.provider:
                times[one.provider] += one.mean_ms or 0.0  # type: ignore[assignment]
        return {str(name): (count, float(times[name])) for name, count in counts.items() if name}

    @property
    def total_ms(self) -> float:
        """Sum of all operations in one run of the model, milliseconds."""
        return sum(one.mean_ms or 0.0 for one in self.operations)


def label(one: Operation) -> str:
    """Return the names of the model's nodes that an operation computes, else its own."""
    return some(one.onnx_nodes, _NAMED) or one.name


def precision_of(one: Operation) -> str:
    """Return the change of precision that an operation makes, else the types of its outputs."""
    return one.conversion or ", ".join(dict.fromkeys(one.output_types)) or "\N{EN DASH}"


_SHARE = partial(share, digits=1)


def _nodes(one: Operation | Kernel | LayerGroup) -> Cell:
    names = one.onnx_nodes
    return Cell(", ".join(names) or NONE, fold=f"{len(names)} nodes" if len(names) > _LISTED else "")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


CONVERSIONS = (
    Column("name", "name", long=True),
    Column("mean", "mean_ms", 4, unit="ms"),
    Column("share", "share", form=_SHARE),
    Column("role", "role"),
    Column("precision", precision_of),
    Column("serves", lambda one: one.serves or ", ".join(one.onnx_nodes) or None, long=True),
)


def operations(side: SideView, rows: Sequence[Operation]) -> Table:
    """Return layers or nodes of a side."""
    columns = [
        Column("name", "name", places=ROOMY),
        Column(
            "name, or ONNX nodes",
            lambda one: _short(", ".join(one.onnx_nodes) or one.name),
            places=("terminal",),
            long=True,
        ),
        Column("mean", "mean_ms", 4, unit="ms"),
        Column("share", "share", form=_SHARE),
        Column("place", "index", 0, places=ROOMY),
        Column("operator", "operator"),
        Column("role", "role"),
        Column("ONNX nodes", _nodes, places=ROOMY),
        Column("provider", "provider", places=ROOMY),
        Column("precision", precision_of, places=ROOMY),
        Column("median", "median_ms", 4, unit="ms", places=ROOMY),
        Column("calls", "calls", 0, places=ROOMY),
        Column("kernel chosen", "tactic", places=ROOMY),
    ]
    return Table(columns, rows, f"{side.title}: the longest {side.noun}")


def kernels(side: SideView, most: int | None = None) -> Table:
    """Return the kernels of a side, with the metrics that any of them has; at most so many."""
    columns = [
        Column("kernel", "name", places=ROOMY),
        Column("kernel", lambda one: _short(one.name), places=("terminal",), long=True),
        Column("launches", "launches", 0),
        Column("total", "total_ms", 4, unit="ms"),
        Column("each", "mean_ms", 4, unit="ms", places=ROOMY),
        Column("share", "share", form=_SHARE),
        Column("layer", lambda one: one.layer and _short(one.layer), places=("terminal",), long=True),
        Column("layer", "layer", places=ROOMY),
        Column("ONNX nodes", _nodes, places=ROOMY),
        Column("recorded by", "tool"),
        *(
            Column(
                heading,
                lambda one, name=name, factor=factor: None if name not in one.metrics else one.metrics[name] * factor,  # type: ignore[misc]
                digits,
                places=ROOMY,
            )
            for name, (heading, factor, digits) in METRIC_COLUMNS.items()
        ),
    ]
    return Table(columns, side.kernels[:most], f"{side.title}: the longest kernels")


def differences(sides: Sequence[SideView], groups: Sequence[LayerGroup]) -> Table:
    """Return groups of layers in which two sides differ."""
    columns = (
        Column("ONNX nodes", _computed, places=ROOMY),
        Column("ONNX nodes", lambda one: _short(_computed(one).text), places=("terminal",), long=True),
        Column("first", "target_ms", 4, unit="ms"),
        Column("second", "against_ms", 4, unit="ms"),
        Column("difference", lambda one: decimals(one.difference_ms, plus="+"), 4, unit="ms"),
        Column("overhead", lambda one: ", ".join(one.roles)),
        Column(
            "only in", lambda one: {"target": "the first", "against": "the second"}.get(one.only_in, ""), places=ROOMY
        ),
        Column(f"{sides[0].noun} of the first", lambda one: _layers(one.target), places=ROOMY),
        Column(f"{sides[1].noun} of the second", lambda one: _layers(one.against), places=ROOMY),
    )
    return Table(columns, groups, f"{sides[0].title} against {sides[1].title}")


def _computed(group: LayerGroup) -> Cell:
    own = Cell((group.target or group.against)[0].name, soft="added by the runtime")
    return _nodes(group) if group.onnx_nodes else own


def _layers(found: Sequence[Operation]) -> list[Cell]:
    named = [Cell(one.name, soft=precision_of(one)) for one in found]
    more = "; ".join(f"{one.text} ({one.soft})" for one in named[_NAMED:])
    return [*named[:_NAMED], *([Cell(more, fold=f"{len(named) - _NAMED} more")] if more else [])] or [Cell(NONE)]


def roles(sides: Sequence[SideView]) -> Table:
    """Return the time of both sides by the role of their operations."""
    columns = [
        column
        for place, (side, which) in enumerate(zip(sides, ("first", "second"), strict=False))
        for column in (
            Column(f"{side.noun} of the {which}", f"1.{place}.0"),
            Column(which, f"1.{place}.1", 4, unit="ms"),
        )
    ]
    return Table([Column("role", "0"), *columns], role_rows(sides))


def summed(sides: Sequence[SideView]) -> Table:
    """Return the time by operator and precision with a bar a side."""
    columns = [
        column
        for place, (side, which) in enumerate(zip(sides, ("first", "second"), strict=False))
        for column in (
            Column(which if len(sides) > 1 else "time", f"time_ms.{place}", 4, unit="ms"),
            Column(f"{side.noun} of the {which}" if len(sides) > 1 else side.noun, f"number.{place}", 0),
        )
    ]
    bars = Column("time of one run, from zero", _bars, places=("page",))
    return Table([Column("operator", "operator"), Column("precision", "precision"), *columns, bars], totals(sides))


def _bars(row: Total) -> Cell:
    from markupsafe import Markup

    bar = Markup('<i style="width: {:.2f}%" title="{}, {}: {:.4f} ms"></i>')
    each = [
        bar.format(width, row.operator, row.precision, time or 0.0)
        for width, time in zip(row.widths, row.time_ms, strict=True)
    ]
    return Cell(drawn=Markup('<div class="bars">{}</div>').format(Markup().join(each)))


def totals(sides: Sequence[SideView]) -> list[Total]:
    """Return the time by operator and precision, the longest first; small kinds are grouped."""
    sums: list[dict[tuple[str, str], tuple[int, float]]] = []
    for side in sides:
        found: dict[tuple[str, str], tuple[int, float]] = {}
        for one in side.operations:
            if one.mean_ms is not None:
                kind = (one.operator or one.role, precision_of(one))
                number, time_ms = found.get(kind, (0, 0.0))
                found[kind] = (number + 1, time_ms + one.mean_ms)
        sums.append(found)
    weight = {kind: max(found.get(kind, (0, 0.0))[1] for found in sums) for found in sums for kind in found}
    order = sorted(weight, key=lambda kind: -weight[kind])
    longest = weight[order[0]] if order else 0.0
    whole = max((side.total_ms for side in sides), default=0.0)
    shown = [kind for kind in order[:_KINDS] if weight[kind] >= _TRIVIAL * whole]
    rest = order[len(shown) :]
    rows = [(*kind, [found.get(kind) for found in sums]) for kind in shown]
    if rest:
        small = [[found[kind] for kind in rest if kind in found] for found in sums]
        together = [(sum(one[0] for one in part), sum(one[1] for one in part)) for part in small]
        rows.append(("all others", f"{len(rest)} kinds", list(together)))
    longest = max(longest, *(cell[1] for row in rows for cell in row[2] if cell)) if rows else 0.0
    return [
        Total(
            operator,
            precision,
            [cell and cell[0] for cell in cells],
            [cell and cell[1] for cell in cells],
            [100 * cell[1] / longest if cell and longest else 0.0 for cell in cells],
        )
        for operator, precision, cells in rows
    ]


def role_rows(sides: Sequence[SideView]) -> list[tuple[str, list[tuple[int, float]]]]:
    """Return for every role (number of operations, milliseconds) of each side; roles that no side has are left out."""
    rows: list[tuple[str, list[tuple[int, float]]]] = []
    for role in ("compute", *OVERHEAD, "other"):
        having = [[one for one in side.operations if one.role == role] for side in sides]
        if any(having):
            rows.append((role, [(len(found), sum(one.mean_ms or 0.0 for one in found)) for found in having]))
    return rows


def side_views(sides: Mapping[Side, SideFacts], records: Sequence[ProfileLine]) -> list[SideView]:
    """Return the views of the sides that a run has, the target first."""
    return [
        SideView(
            name,
            sides[name],
            [one for one in records if isinstance(one, Operation) and one.side == name],
            [one for one in records if isinstance(one, Kernel) and one.side == name],
        )
        for name in get_args(Side)
        if name in sides
    ]


class ProfileFiles(NamedTuple):
    """A run, its sides and the groups of layers in which two of them differ."""

    run: ProfileRun
    sides: list[SideView]
    groups: list[LayerGroup]


def read(directory: Path) -> ProfileFiles:
    """Return what a run measured. Raises UsageProblem: a file is missing, cut short or of another schema version."""
    run = read_run(directory, "profile", ProfileRun)
    sides = side_views(run.sides, read_records(directory / "records.jsonl"))
    groups = difference(sides[0].operations, sides[1].operations) if len(sides) > 1 else []
    return ProfileFiles(run, sides, groups)


def summary(sides: Sequence[SideView], groups: Sequence[LayerGroup]) -> list[str]:
    """Return what stands out, in sentences."""
    if len(sides) == 1:
        return _of_side(sides[0])
    each = [" ".join(_of_side(side)) for side in sides]
    return [_who_is_faster(sides[0], sides[1]), *each, *_of_difference(sides[0], sides[1], groups)]


def _who_is_faster(target: SideView, against: SideView) -> str:
    """The answer, by the times without the profiler, and whether the profile can explain it."""
    found = answer(target.facts, against.facts)
    if different := against.facts.get("other_machine"):
        return f"Which is faster is not known: the earlier run is from another machine ({'; '.join(different)})."
    if found is None:
        return "Which is faster is not known: the time without the profiler is missing for one side."
    times = f"{target.title} takes {found.target.in_words}, {against.title} {found.against.in_words}"
    word = {"target": f"{target.title} is faster", "against": f"{against.title} is faster", None: "neither is faster"}
    verdict = f"Without the profiler {word[found.faster]}: {times}."
    if found.profile_agrees:
        return verdict
    first, second = found.profiled_ms
    same = (first < second) is (found.faster == "target")
    what = "by how much one is faster" if found.faster and same else "which is faster"
    return (
        f"The profile cannot answer {what}: with the profiler the times are {first:.3f} ms and "
        f"{second:.3f} ms, which disagrees with those without it. {verdict} The rest shows what runs, not what "
        "is gained."
    )


def _of_side(side: SideView) -> list[str]:
    found = []
    if side.operations:
        first = side.longest[:_NAMED]
        part = sum(one.share or 0.0 for one in first)
        names = ", ".join(f"{label(one)} ({(one.mean_ms or 0.0):.3f} ms)" for one in first)
        alone = f"one run takes {own.in_words}; " if (own := _interval(side.facts, "own")) else ""
        found.append(
            f"{side.title}: {alone}with the profiler its {len(side.longest)} {side.noun} take {side.total_ms:.3f} ms; "
            f"the longest ({share(part)} of that) are {names}."
        )
    found += [f"Times of {side.title} are unreliable: {why}." for why in side.facts.get("unstable", ())]
    if side.providers:
        each = ", ".join(f"{name} {count} ({time_ms:.3f} ms)" for name, (count, time_ms) in side.providers.items())
        found.append(f"Nodes by provider: {each}.")
    if moved := side.overhead:
        time_ms = sum(one.mean_ms or 0.0 for one in moved)
        kinds = Counter(one.role for one in moved)
        text = ", ".join(counted(count, f"{role} {side.noun[:-1]}") for role, count in kinds.items())
        cost = time_ms / side.total_ms if side.total_ms else 0.0
        longest = f"{'; the longest is' if len(moved) > 1 else ':'} {moved[0].name}"
        found.append(f"{text}: {time_ms:.3f} ms ({share(cost, 1)}){longest}.")
    for tool in dict.fromkeys(kernel.tool for kernel in side.kernels):
        kernels = [kernel for kernel in side.kernels if kernel.tool == tool]
        located = sum(1 for kernel in kernels if kernel.layer)
        found.append(f"{tool} recorded {counted(len(kernels), 'kernel')}; layers known by NVTX range for {located}.")
    return found


def _of_difference(target: SideView, against: SideView, groups: Sequence[LayerGroup]) -> list[str]:
    found = [
        f"With the profiler the {target.noun} of {target.title} take {target.total_ms:.3f} ms in total, the "
        f"{against.noun} of {against.title} {against.total_ms:.3f} ms."
    ]
    computing = [group for group in groups if group.computes]
    named = telling(computing, _NAMED)
    for group in named:
        names = some(group.onnx_nodes, _NAMED) or (group.target or group.against)[0].name
        found.append(f"{names}: {group.target_ms:.3f} ms against {group.against_ms:.3f} ms.")
    if rest := [group for group in computing if group not in named]:
        sums = (sum(group.target_ms for group in rest), sum(group.against_ms for group in rest))
        found.append(f"All other computation: {sums[0]:.3f} ms against {sums[1]:.3f} ms.")
    for role, ((count, time_ms), (other_count, other_ms)) in role_rows([target, against]):
        if role in OVERHEAD and (count, other_count) != (0, 0):
            found.append(f"{role}: {count} ({time_ms:.3f} ms) against {other_count} ({other_ms:.3f} ms).")
    for group in [group for group in groups if group.only_in and group.roles][:_NAMED]:
        alone = target if group.only_in == "target" else against
        one = (*group.target, *group.against)[0]
        found.append(f"Only {alone.title} has the {one.role} {one.name} ({group.target_ms + group.against_ms:.3f} ms).")
    return found
