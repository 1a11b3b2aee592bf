"""Tables: a document declares its columns once, and the terminal, the page and Markdown show the same table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from trt_workbench.core.counts import decimals

NONE = "\N{EN DASH}"
Place = Literal["page", "Markdown", "terminal"]
ROOMY: tuple[Place, ...] = ("page", "Markdown")
"""Of a column for which a terminal has no room."""
EVERYWHERE: tuple[Place, ...] = (*ROOMY, "terminal")


class Cell(NamedTuple):
    """What stands in a place of a table, where that is more than a text.

    Attributes:
        text: of it.
        soft: what a page says below it, such as an interval; Markdown says it in brackets, a terminal does not.
        verdict: in whose colour the text is.
        title: what a page says on hover.
        link: a relative path that the text leads to.
        fold: what a page shows of a long text until it is opened.
        drawn: ready markup that a page shows instead of the text.
    """

    text: str = ""
    soft: str = ""
    verdict: str = ""
    title: str = ""
    link: str | None = None
    fold: str = ""
    drawn: str = ""

    @property
    def length(self) -> int:
        """How many characters a page shows of it in a line."""
        return max(len(self.text if not self.fold else self.fold), len(self.soft))


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: its heading.
        of: what a row has there: a path of attributes, keys and places, such as `latency_ms.p50`, or a function of the
            row. A number, a text, a pair of numbers, which is an interval, a `Cell` or a list of them; None is a dash.
        digits: of numbers, behind the point.
        form: a function that words a number, in place of `digits`.
        unit: of the numbers.
        better: which of them is.
        interval: the path or function of an interval of the number.
        marks: further cells behind it, such as a verdict's.
        places: where the column is.
        long: whether it has paths, names of layers, or sentences with such. In a narrow terminal a path loses its
            middle and a sentence's long words are broken; the words of other columns stay whole.
    """

    name: str
    of: str | Callable[[Any], Any]
    digits: int | None = None
    form: Callable[[Any], str] | None = None
    unit: str = ""
    better: Literal["", "higher", "lower"] = ""
    interval: str | Callable[[Any], Any] = ""
    marks: Callable[[Any], Sequence[Cell]] = lambda _: ()
    places: tuple[Place, ...] = EVERYWHERE
    long: bool = False

    @property
    def heading(self) -> str:
        """The name and the unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def cells(self, row: Any) -> list[Cell]:
        """Return what a row has in this column."""
        found = at(row, self.of)
        if isinstance(found, Sequence) and found and isinstance(found[0], Cell):
            return list(found)
        ends = at(row, self.interval) if self.interval else None
        cell = found if isinstance(found, Cell) else Cell(self.worded(found), self.worded(ends) if ends else "")
        return [cell, *self.marks(row)]

    def worded(self, value: Any) -> str:
        """Return a value as a text."""
        if value is None or value != value:
            return NONE
        if isinstance(value, Sequence) and not isinstance(value, str):
            return " to ".join(map(self.worded, value)) or NONE
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self.form:
            return self.form(value)
        return str(value) if self.digits is None or isinstance(value, str) else decimals(value, self.digits)


def at(row: Any, path: str | Callable[[Any], Any]) -> Any:
    """Return what a row has at a path, or by a function; None where a part of the path is None."""
    if not isinstance(path, str):
        return path(row)
    for name in path.split("."):
        if isinstance(row, Mapping):
            row = row.get(name)
        elif row is not None:
            row = row[int(name)] if name.isdigit() else getattr(row, name)
    return row


def small(value: float | None) -> str:
    """Format a figure of any size with three digits: 6.70e-07, 0, or a dash where there is none."""
    if value is None:
        return NONE
    return f"{value:.2e}" if value else "0"


@dataclass
class Table:
    """A table as every renderer takes it.

    Attributes:
        heads: the columns; of a name alone, the row's value at its place.
        rows: of any kind that the columns' paths and functions take.
        title: a heading.
        notes: sentences below it.
        best: a row that a page marks.
    """

    heads: Sequence[Column | str]
    rows: Iterable[Any]
    title: str = ""
    notes: Sequence[str] = ()
    best: Any = None

    def __post_init__(self) -> None:
        """Keep the rows, which are shown more than once."""
        self.rows = list(self.rows)

    def columns(self, place: Place) -> list[Column]:
        """Return the columns that are shown in a place: not those in which no row says anything, if there is any."""
        every = [one if isinstance(one, Column) else Column(one, str(number)) for number, one in enumerate(self.heads)]
        known = [one for one in every if place in one.places]
        return [
            one
            for one in known
            if not self.rows
            or any(cell.drawn or cell.text not in ("", NONE) for row in self.rows for cell in one.cells(row))
        ]

    def numeric(self, place: Place) -> list[bool]:
        """Return of each column whether it has numbers alone, which stand at the right."""
        return [
            bool(one.form or one.unit or one.digits is not None)
            or all(
                isinstance(found := at(row, one.of), int | float | None) and not isinstance(found, bool)
                for row in self.rows
            )
            for one in self.columns(place)
        ]

    def cells(self, place: Place) -> Iterator[list[list[Cell]]]:
        """Yield the cells of each row."""
        columns = self.columns(place)
        return ([one.cells(row) for one in columns] for row in self.rows)


def verdict(path: str | Callable[[Any], Any], title: str = "") -> Callable[[Any], Cell]:
    """Return what a column of verdicts shows of a row.

    Args:
        path: of the verdict.
        title: path of what is said on hover.
    """

    def cell(row: Any) -> Cell:
        word = at(row, path)
        return Cell(word or NONE, verdict=word or "", title=(at(row, title) if title else None) or "")

    return cell
