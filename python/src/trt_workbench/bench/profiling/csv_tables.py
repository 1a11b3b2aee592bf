"""Tables in what NVIDIA's command-line tools print: CSV below lines of their own."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from trt_workbench.errors import UsageProblem

_REASON = re.compile(r"SKIPPED|ERROR|WARNING|No kernels")
_PER_NS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


def read_table(text: str, columns: Sequence[str], source: str) -> list[dict[str, str]]:
    """Return the rows of the first table that has all `columns`, by column name.

    Args:
        text: what the tool printed; lines before the table's header are skipped, an empty line ends the table.
        columns: beginnings of column names that the header must have.
        source: what printed it, for the message.

    Raises:
        UsageProblem: there is no such table; the message holds the line that tells why, else the first.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines):
        names = next(csv.reader([line]), [])
        if all(any(name.startswith(column) for name in names) for column in columns):
            # a quoted name may hold line breaks, so the reader gets the text as it is
            return _rows(csv.reader(io.StringIO("\n".join(lines[number + 1 :]))), names)
    said = [line.strip() for line in lines if line.strip()] or ["nothing"]
    telling = next((line for line in said if _REASON.search(line)), said[0])
    msg = f"{source} printed no table with the columns {', '.join(columns)}; it says: {telling[:200]}"
    raise UsageProblem(msg)


def _rows(reader: object, names: list[str]) -> list[dict[str, str]]:
    rows = []
    for cells in reader:  # type: ignore[attr-defined]
        if len(cells) != len(names):
            break
        rows.append(dict(zip(names, cells, strict=True)))
    return rows


def number(text: str) -> float | None:
    """Return a figure as the tools print it ("10,196,000", "97.03"); None for "n/a" and the like."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def nanoseconds(value: float, unit: str) -> float:
    """Return a time in ns. Raises UsageProblem for a unit that is no time."""
    try:
        return value * _PER_NS[unit.strip().lower()]
    except KeyError:
        msg = f"The unit {unit!r} of a time is not known; expected one of {', '.join(_PER_NS)}."
        raise UsageProblem(msg) from None


def column_and_unit(row: dict[str, str], beginning: str) -> tuple[str, str]:
    """Return the name of the column that begins with `beginning`, and the unit in its brackets ("ns" without)."""
    name = next(name for name in row if name.startswith(beginning))
    unit = re.search(r"\((\w+)\)", name)
    return name, unit.group(1) if unit else "ns"
