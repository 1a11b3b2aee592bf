"""Tables in a terminal of any width: words are never broken, but for paths; what has no room as a table is a list."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

_SHORT, _LONG = 16, 12


def fit(table: Table, console: Console) -> Table:
    """Return a table as it fits the console, as far as that breaks no word.

    A table that is too wide loses the lines between its columns. Then the widest columns get narrower, headings first:
    cells and headings go on in the next line between words, short cells last. Where that is not enough, in a column
    whose overflow is "crop" a cell that is one word keeps its ends, and a longer word of a sentence is broken, down to
    twelve characters. Then the columns stand closer, and then the table is a list: a line for each cell, with its
    heading. A word that is wider than the console goes beyond it.

    Args:
        table: may be changed.
        console: where it is to be printed.
    """
    texts = [[str(cell) for cell in (column.header, *column.cells)] for column in table.columns]
    long = [column.overflow == "crop" for column in table.columns]
    widths, cells = (
        [max([1, *(cell_len(line) for text in each[first:] for line in text.split("\n"))]) for each in texts]
        for first in (0, 1)
    )
    if sum(widths) + 3 * len(widths) + 1 <= console.width:
        return table
    words = [_longest(each[1:]) for each in texts]
    least = [
        max(
            _longest(wrap(each[0], 1, break_long_words=False)),
            1 if cut else word,
            min(width if cut else width // 2, _LONG),
        )
        for each, word, width, cut in zip(texts, words, cells, long, strict=True)
    ]
    table.box, table.pad_edge, table.collapse_padding = SIMPLE_HEAD, False, True
    frame = 2 * len(widths)
    if sum(least) + frame > console.width:
        table.padding, table.show_edge, frame = (0, 0), False, len(widths) - 1
    spare = console.width - frame
    if sum(least) > spare:
        return _listed(
            table,
            [heading for heading, *_ in texts],
            max([1, *(word for word, cut in zip(words, long, strict=True) if not cut)]),
            console.width,
        )
    for more in (words, [min(width, _SHORT) for width in cells]):
        if sum(whole := [max(pair) for pair in zip(least, more, strict=True)]) <= spare:
            least = whole
    while sum(widths) > spare:
        # a heading is broken before any cell
        open_ = [place for place, width in enumerate(widths) if width > least[place]]
        widths[max(open_, key=lambda place: (widths[place] > cells[place], widths[place]))] -= 1
    for column, width, (heading, *_), cut in zip(table.columns, widths, texts, long, strict=True):
        column.header = Text("\n".join(wrap(heading, width, break_long_words=False)))
        column.width, column.overflow = width, "fold"
        column._cells[:] = [_shortened(cell, width) if cut else cell for cell in column._cells]
    table.width = frame + sum(widths)
    return table


def _listed(table: Table, heads: list[str], word: int, width: int) -> Table:
    """Return the rows of a table below each other, a line for each cell, whose values have room for a longest word."""
    wide = max(map(cell_len, heads))
    room = max(word, width - wide - 2)
    listed = Table.grid(Column(no_wrap=True, width=wide), Column(overflow="fold", width=room), padding=(0, 2, 0, 0))
    listed.title, listed.width, listed.pad_edge = table.title, wide + 2 + room, False
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        for head, cell in zip([*map(Text, heads), Text()], [*cells, ""], strict=True):
            listed.add_row(head, cell)
    return listed


def _shortened(cell: Any, width: int) -> Any:
    """Return a cell that is one word without its middle, where it is wider than its column."""
    if len(cell) <= width or re.search(r"\s", str(cell)):
        return cell
    return Text.assemble(cell[: (width - 1) // 2], "…", cell[len(cell) - width // 2 :])


def _longest(texts: list[str]) -> int:
    """Return the width of the longest word, of "99.9 %" with its sign, or 1."""
    return max([1, *(cell_len(word) for text in texts for word in re.findall(r"(?:^\s+)?\S+(?: %(?!\S))?", text))])
