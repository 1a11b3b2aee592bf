"""Tables in what NVIDIA's command-line tools print: CSV below lines of their own."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from trt_workbench.backends.profiling import Operation, Side
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.profile.document import Kernel, kernels_with_shares

DOMAIN = "TensorRT"


class LayerIndex:
    """Layers by the names of their NVTX ranges."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Index `operations`, of one side."""
        self._layers = {one.name: one for one in operations}

    def find(self, ranges: Iterable[str]) -> Operation | None:
        """Return the layer of the innermost range that is one's; None if no range is.

        Args:
            ranges: outermost first, as `domain:name`; Nsight Compute adds further fields, separated by colons.
        """
        for text in reversed(list(ranges)):
            name = text.removeprefix(f"{DOMAIN}:").removeprefix(":")
            if found := self._layers.get(name) or self._longest_beginning(name):
                return found
        return None

    def _longest_beginning(self, text: str) -> Operation | None:
        """Return the layer whose name precedes further fields; a name may hold colons itself."""
        while ":" in text:
            text = text.rpartition(":")[0]
            if found := self._layers.get(text):
                return found
        return None


_REASON = re.compile(r"SKIPPED|ERROR|WARNING|No kernels")
_PER_NS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


def read_table(text: str, columns: Sequence[str], source: str, free: str | None = None) -> list[dict[str, str]]:
    """Return the rows of the first table that has all `columns`, by column name.

    Lines of the tool's own (`==PROF== ...`), headers that are repeated and empty lines are no rows; after an empty
    line, plain text of one cell ends the table.

    Args:
        text: what the tool printed; lines before the table's header are skipped.
        columns: beginnings of column names that the header must have.
        source: what printed it, for the message.
        free: in the names of adjacent columns whose text may break the tool's quoting, or which rows without such
            text may lack; in a row of another width than the header's they share what the other columns leave.

    Raises:
        UsageProblem: there is no such table; the message holds the line that says why, else the first. Or a row does
            not fit the header; the message holds it and the number of its line.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        names = next(csv.reader([line]), [])
        if names and all(any(name.startswith(column) for name in names) for column in columns):
            return _rows(lines, number + 1, names, source, free)
    raise UsageProblem(f"{source} printed no table with the columns {', '.join(columns)}; it says: {telling(text)}")


def telling(text: str) -> str:
    """Return the line of a tool's output that says what went wrong, else the first, shortened."""
    said = [line.strip() for line in text.split("\n") if line.strip()] or ["nothing"]
    return next((line for line in said if _REASON.search(line)), said[0])[:200]


def _rows(lines: Sequence[str], first: int, names: list[str], source: str, free: str | None) -> list[dict[str, str]]:
    # the tool's own lines may be anywhere
    kept = [(number, line) for number, line in enumerate(lines[first:], first + 1) if not line.startswith("==")]
    rows: list[dict[str, str]] = []
    after_empty = False
    for place, cells in _records([line for _, line in kept], source):
        if not any(cell.strip() for cell in cells):
            after_empty = True
            continue
        if after_empty and rows and len(cells) == 1:
            break
        fitted = _fitted(cells, names, free)
        if fitted is None:
            number, line = kept[place]
            raise UsageProblem(
                f"{source} printed {counted(len(cells), 'cell')} for {len(names)} columns, line {number}: {line[:300]}"
            )
        if fitted != names:
            rows.append(dict(zip(names, fitted, strict=True)))
    return rows


def _records(lines: Sequence[str], source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each record with the place of its first line; a quoted cell may hold line breaks."""
    reader = csv.reader(line + "\n" for line in lines)
    place = 0
    try:
        for cells in reader:
            yield place, cells
            place = reader.line_num
    except csv.Error as error:
        raise UsageProblem(f"{source} printed invalid CSV ({error}): {lines[place][:300]}") from error


def _fitted(cells: list[str], names: Sequence[str], free: str | None) -> list[str] | None:
    """Return one cell a column; None where it is not certain which cell belongs to which column."""
    if len(cells) == len(names):
        return cells
    places = [place for place, name in enumerate(names) if free is not None and free in name]
    if not places:
        return None
    before, after = places[0], len(names) - places[-1] - 1
    if len(cells) < before + after:
        return None
    shared = ",".join(cells[before : len(cells) - after])
    return [*cells[:before], shared, *[""] * (places[-1] - places[0]), *cells[len(cells) - after :]]


def number(text: str) -> float | None:
    """Return a figure as the tools print it ("10,196,000", "97.03"); None for "n/a" and similar."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def nanoseconds(value: float, unit: str) -> float:
    """Return a time in ns. Raises UsageProblem for a unit that is no time."""
    try:
        return value * _PER_NS[unit.strip().lower()]
    except KeyError:
        raise UsageProblem(f"The unit of time {unit!r} is unknown; expected one of {', '.join(_PER_NS)}.") from None


def column_and_unit(row: dict[str, str], beginning: str) -> tuple[str, str]:
    """Return the name of the column that begins with `beginning`, and the unit in its brackets ("ns" without)."""
    name = next(name for name in row if name.startswith(beginning))
    unit = re.search(r"\((\w+)\)", name)
    return name, unit.group(1) if unit else "ns"


KERNELS = "cuda_gpu_kern_sum"
RANGES = "nvtx_kern_sum"
_Sum = tuple[int, float]  # launches and ns


def read_kernels(kernels: str, ranges: str | None, layers: LayerIndex, side: Side = "target") -> list[Kernel]:
    """Return the kernels of a capture, the longest first.

    The summary by range has a row for every range around a launch; those of layers give a kernel's launches to the
    layers, and what is left over keeps no layer.

    Args:
        kernels: what `nsys stats --report cuda_gpu_kern_sum --format csv` printed.
        ranges: the same of `nvtx_kern_sum`; None where the capture has no ranges.
        layers: of the engine that ran.
        side: of the comparison.

    Raises:
        UsageProblem: the text is not such a summary, or no kernel was recorded.
    """
    totals = _totals(kernels)
    if not totals:
        raise UsageProblem(f"nsys recorded no kernel between cudaProfilerStart and -Stop; it says: {telling(kernels)}")
    located = _by_layer(ranges, layers) if ranges else {}
    found = []
    for name, (launches, time_ns) in totals.items():
        for layer, (some, some_ns) in located.get(name, {}).items():
            found.append(_kernel(name, layers.find([layer]), some, some_ns, side))
            launches, time_ns = launches - some, time_ns - some_ns
        if launches > 0:
            found.append(_kernel(name, None, launches, max(0.0, time_ns), side))
    return kernels_with_shares(found)


def _totals(text: str) -> dict[str, _Sum]:
    totals: dict[str, _Sum] = {}
    for row in read_table(text, ("Total Time", "Instances", "Name"), f"nsys stats ({KERNELS})"):
        launches, time_ns = _figures(row, "Instances")
        before = totals.get(row["Name"], (0, 0.0))
        totals[row["Name"]] = (before[0] + launches, before[1] + time_ns)
    return totals


def _by_layer(text: str, layers: LayerIndex) -> dict[str, dict[str, _Sum]]:
    found: dict[str, dict[str, _Sum]] = defaultdict(dict)
    for row in read_table(text, ("NVTX Range", "Kern Inst", "Total Time", "Kernel Name"), f"nsys stats ({RANGES})"):
        layer = layers.find([row["NVTX Range"]])
        if layer is not None:
            launches, time_ns = _figures(row, "Kern Inst")
            before = found[row["Kernel Name"]].get(layer.name, (0, 0.0))
            found[row["Kernel Name"]][layer.name] = (before[0] + launches, before[1] + time_ns)
    return found


def _figures(row: dict[str, str], count: str) -> _Sum:
    column, unit = column_and_unit(row, "Total Time")
    return int(number(row[count]) or 0), nanoseconds(number(row[column]) or 0.0, unit)


def _kernel(name: str, layer: Operation | None, launches: int, time_ns: float, side: Side) -> Kernel:
    return Kernel(
        side=side,
        tool="nsys",
        name=name,
        layer=layer.name if layer else None,
        onnx_nodes=layer.onnx_nodes if layer else [],
        launches=launches,
        total_ms=time_ns / 1e6,
        mean_ms=time_ns / 1e6 / launches,
    )
