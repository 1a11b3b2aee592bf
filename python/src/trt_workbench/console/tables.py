"""Tables in a terminal of any width: a row is a line as long as its cells are words; figures are never broken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Column, Table

# A word that is a figure, perhaps with a sign, a unit and punctuation: +4.82e-10, 99.900 %, (1.09, 1x64, 12ms.
_FIGURE = re.compile(r"[^\w\s]*\d[\d.,:/x%e+\-]*[^\W\d]{0,3}[^\w\s]*(?: %)?")
_WORD, _LONGEST_HEADING = 6, 12


def fit(table: Table, console: Console) -> None:
    """Give the columns widths with which a table fits the console, as far as that breaks no figure.

    A table that is too wide loses the lines between its columns. Then the widest columns get narrower, headings first
    and cells of figures alone last, down to their longest figure and six characters of names: a cell that is one word,
    such as a node's name, keeps its ends, and sentences go on in the next line. What is still too wide goes beyond the
    console's width, and the terminal wraps it.

    Args:
        table: is changed, if it is too wide.
        console: where it is to be printed.
    """
    for column in table.columns:
        column.overflow, column.no_wrap = "fold", False
    texts = [_texts(column, console) for column in table.columns]
    widths, cells = (
        [max((len(line) for text in each[first:] for line in text.split("\n")), default=1) for each in texts]
        for first in (0, 1)
    )
    frame = _frame(table, console, sum(widths))
    if sum(widths) + frame <= console.width:
        return
    table.box, table.pad_edge, table.collapse_padding = SIMPLE_HEAD, False, True
    frame = _frame(table, console, sum(widths))
    spare = console.width - frame
    least = [_least(each) for each in texts]
    heading = [max(min(len(word), _LONGEST_HEADING) for word in [*each[0].split(), ""]) for each in texts]
    if sum(comfortable := [max(pair) for pair in zip(least, heading, strict=True)]) <= spare:
        least = comfortable
    if sum(whole := [max(pair) for pair in zip(least, map(_figures, texts), strict=True)]) <= spare:
        least = whole
    while sum(widths) > spare and (open_ := [place for place, width in enumerate(widths) if width > least[place]]):
        # a heading is broken before any cell
        widest = max(open_, key=lambda place: (widths[place] > cells[place], widths[place]))
        widths[widest] -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
        column._cells[:] = [_shortened(cell, width, console) for cell in column._cells]
    table.width = frame + sum(widths)


def _frame(table: Table, console: Console, columns: int) -> int:
    """Return how many characters stand between and around the columns of a table."""
    wide = console.options.update(max_width=columns + 1000)
    return console.measure(table, options=wide).maximum - columns


def _shortened(cell: RenderableType, width: int, console: Console) -> RenderableType:
    """Return a cell that is one word without its middle, where it is wider than its column."""
    text = console.render_str(cell) if isinstance(cell, str) else cell
    if not isinstance(text, Text) or len(text) <= width or re.search(r"\s", text.plain):
        return cell
    head = (width - 1) // 2
    return Text.assemble(text[:head], "…", text[len(text) - (width - 1 - head) :])


def _texts(column: Column, console: Console) -> list[str]:
    """Return the heading and the cells as they are printed, without markup."""
    cells = [column.header, *column.cells]
    return [console.render_str(cell).plain if isinstance(cell, str) else str(cell) for cell in cells]


def _figures(texts: list[str]) -> int:
    """Return the width of the longest cell of figures alone, such as "batch=1 seq=16", or 1."""
    return max([1, *(len(text) for text in texts[1:] if all(re.search(r"\d", word) for word in text.split()))])


def _least(texts: list[str]) -> int:
    """Return the width of the longest figure, and at least that of a short word."""
    words = [word for text in texts for word in re.findall(r"\S+(?: %)?", text)]
    figures = [len(word) for word in words if _FIGURE.fullmatch(word)]
    return max([1, *figures, *(min(len(word), _WORD) for word in words)])
