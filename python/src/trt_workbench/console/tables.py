"""Tables in a terminal of any width: names are broken where they have to be, figures never."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column, Table

# A word that is a figure, perhaps with a sign, a unit and punctuation: +4.82e-10, 99.900%, (1.09, 1x64, 12ms.
_FIGURE = re.compile(r"[^\w\s]*\d[\d.,:/x%e+\-]*[^\W\d]{0,3}[^\w\s]*")
_WORD, _LONGEST_HEADING = 6, 12


def fit(table: Table, console: Console) -> None:
    """Give the columns widths with which a table fits the console, as far as that breaks no figure.

    The widest columns get narrower first, down to their longest figure and six characters of names. A table that is
    still too wide goes beyond the console's width, which the terminal wraps: nothing is left out.

    Args:
        table: is changed, if it is too wide.
        console: where it is to be printed.
    """
    for column in table.columns:
        column.overflow, column.no_wrap = "fold", False
    texts = [_texts(column, console) for column in table.columns]
    widths = [max((len(line) for text in each for line in text.split("\n")), default=1) for each in texts]
    wide = console.options.update(max_width=sum(widths) + 1000)
    frame = console.measure(table, options=wide).maximum - sum(widths)
    spare = console.width - frame
    if sum(widths) <= spare:
        return
    least = [_least(each) for each in texts]
    heading = [max(min(len(word), _LONGEST_HEADING) for word in [*each[0].split(), ""]) for each in texts]
    if sum(comfortable := [max(pair) for pair in zip(least, heading, strict=True)]) <= spare:
        least = comfortable
    while sum(widths) > spare and (open_ := [place for place, width in enumerate(widths) if width > least[place]]):
        widths[max(open_, key=lambda place: widths[place])] -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    table.width = frame + sum(widths)


def _texts(column: Column, console: Console) -> list[str]:
    """Return the heading and the cells as they are printed, without markup."""
    cells = [column.header, *column.cells]
    return [console.render_str(cell).plain if isinstance(cell, str) else str(cell) for cell in cells]


def _least(texts: list[str]) -> int:
    """Return the width of the longest figure, and at least that of a short word."""
    words = [word for text in texts for word in text.split()]
    figures = [len(word) for word in words if _FIGURE.fullmatch(word)]
    return max([1, *figures, *(min(len(word), _WORD) for word in words)])
