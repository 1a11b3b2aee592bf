"""Nsight Compute's metrics, as `ncu --csv --page raw` prints them, made into kernels."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence

from trt_workbench.backends.profiling import Side
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.profile.document import Kernel
from trt_workbench.profile.launches import DOMAIN, Launch, LayerIndex, kernels_of

DURATION = "gpu__time_duration.sum"
# What shows why a kernel takes its time: how near compute, memory and DRAM are to their peaks, and how full the SMs.
METRICS = (
    DURATION,
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "launch__registers_per_thread",
)
_RANGE_COLUMN = "_Range:"
_PUSH_POP = "Push/Pop_Range:"
# TensorRT's ranges in a cell, outermost first, each as `domain:name:further fields`. Not the rest of the cell: the JSON
# of a layer, which TensorRT adds to its range, has tensors that are named like other layers.
_RANGE = re.compile(rf'"({DOMAIN}:[^"]*)')
# The content of columns right of the ranges: a row that was cut short or torn apart has other things there.
_SHAPES = {"ID": re.compile(r"\d+"), "Block Size": re.compile(r"\(.*\)"), "Grid Size": re.compile(r"\(.*\)")}
_REASON = re.compile(r"SKIPPED|ERROR|WARNING|No kernels")
_PER_NS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


def read_kernels(text: str, layers: LayerIndex, side: Side = "target") -> list[Kernel]:
    """Return the kernels of a capture, the longest first.

    Args:
        text: the table: a header, a line of units, a line a launch.
        layers: of the engine that ran.
        side: of the comparison.

    Raises:
        UsageProblem: there is no such table, a row does not fit its header, or no kernel was measured.
    """
    units: Mapping[str, str] = {}
    launches = []
    for row in read_table(text, ("ID", "Kernel Name", DURATION)):
        # a line of units follows every header, and ncu may print one for each process
        if not row["ID"].strip():
            units = row
            continue
        launches.append(_launch(row, units, layers))
    return kernels_of(launches, "ncu", side, f"; it says: {_telling(text)}")


def _launch(row: Mapping[str, str], units: Mapping[str, str], layers: LayerIndex) -> Launch:
    for column, shape in _SHAPES.items():
        if column in row and not shape.fullmatch(row[column].strip()):
            raise UsageProblem(
                f"ncu printed {row[column]!r} as the {column} of a kernel; its row: {', '.join(row.values())[:300]}"
            )
    ranges = [text for name, cell in row.items() if _PUSH_POP in name for text in _RANGE.findall(cell)]
    metrics = {name: value for name in METRICS if (value := number(row.get(name, ""))) is not None}
    duration_ns = nanoseconds(metrics.pop(DURATION, 0.0), units.get(DURATION) or "ns")
    return Launch(row["Kernel Name"], layers.find(ranges), duration_ns, metrics)


def read_table(text: str, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of the first table that has all `columns`, by column name.

    Lines of the tool's own (`==PROF== ...`), headers that are repeated and empty lines are no rows. The text of ranges
    may break the quoting, and rows without ranges may lack their columns; in a row of another width than the header's
    these columns share what the others leave.

    Args:
        text: what ncu printed; lines before the table's header are skipped.
        columns: beginnings of column names that the header must have.

    Raises:
        UsageProblem: there is no such table; the message holds the line that says why, else the first. Or a row does
            not fit the header; the message holds it and the number of its line.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        names = next(csv.reader([line]), [])
        if names and all(any(name.startswith(column) for name in names) for column in columns):
            return _rows(lines, number + 1, names)
    raise UsageProblem(f"ncu printed no table with the columns {', '.join(columns)}; it says: {_telling(text)}")


def _telling(text: str) -> str:
    """Return the line of a tool's output that says what went wrong, else the first, shortened."""
    said = [line.strip() for line in text.split("\n") if line.strip()] or ["nothing"]
    return next((line for line in said if _REASON.search(line)), said[0])[:200]


def _rows(lines: Sequence[str], first: int, names: list[str]) -> list[dict[str, str]]:
    # the tool's own lines may be anywhere
    kept = [(number, line) for number, line in enumerate(lines[first:], first + 1) if not line.startswith("==")]
    rows: list[dict[str, str]] = []
    for place, cells in _records([line for _, line in kept]):
        if not any(cell.strip() for cell in cells):
            continue
        fitted = _fitted(cells, names)
        if fitted is None:
            number, line = kept[place]
            raise UsageProblem(
                f"ncu printed {counted(len(cells), 'cell')} for {len(names)} columns, line {number}: {line[:300]}"
            )
        if fitted != names:
            rows.append(dict(zip(names, fitted, strict=True)))
    return rows


def _records(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each record with the place of its first line; a quoted cell may hold line breaks."""
    reader = csv.reader(line + "\n" for line in lines)
    place = 0
    try:
        for cells in reader:
            yield place, cells
            place = reader.line_num
    except csv.Error as error:
        raise UsageProblem(f"ncu printed invalid CSV ({error}): {lines[place][:300]}") from error


def _fitted(cells: list[str], names: Sequence[str]) -> list[str] | None:
    """Return one cell a column; None where it is not certain which cell belongs to which column."""
    if len(cells) == len(names):
        return cells
    places = [place for place, name in enumerate(names) if _RANGE_COLUMN in name]
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
