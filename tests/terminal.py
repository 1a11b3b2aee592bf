"""Tables as a terminal shows them."""

import copy
import io
import re

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from trt_workbench.console.tables import fit

WIDTH = 80
_fit = fit


def shown(table: Table, width: int = WIDTH) -> list[str]:
    """Return the lines of a table in a terminal."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(_fit(copy.deepcopy(table), console), crop=False)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def faults(table: Table, width: int = WIDTH) -> list[str]:
    """Return what is wrong with a table in a terminal.

    Words that are cut, except in columns that allow it; headings that are; lines that are wider than the terminal,
    though a list of the cells is not; rows of single words that are in several lines, though all words fit.
    """
    lines = shown(table, width)
    plain = Console(width=1000)
    columns = [[_plain(cell, plain) for cell in (one.header, *one.cells)] for one in table.columns]
    heads, *rows = zip(*columns, strict=True) if columns else [()]
    whole = [one.overflow != "crop" for one in table.columns]
    found = []
    seen = {word for line in lines for word in re.split(r"[\s│┃]+", line)}
    wanted = [word for row in rows for text, keeps in zip(row, whole, strict=True) if keeps for word in text.split()]
    found += [f"{word} is cut" for word in dict.fromkeys(wanted) if word not in seen]
    # of a heading, what stands behind a hyphen may be in the next line
    parts = [part for head in heads for word in head.split() for part in re.split(r"(?<=\w-)(?=[^\W\d])", word)]
    text = "\n".join(lines)
    found += [f"{part} of a heading is cut" for part in dict.fromkeys(parts) if part not in text]
    room = max(map(cell_len, heads), default=0) + 2 + max([1, *map(cell_len, wanted)])
    least = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if (widest := max(map(cell_len, lines), default=0)) > width and width >= room:
        found.append(f"{widest} characters in a terminal of {width}")
    if sum(least) + 3 * len(least) + 1 <= width and all(not re.search(r"\s", text) for row in rows for text in row):
        below = next((place for place, line in enumerate(lines, 1) if re.fullmatch(r" *[─┡━╇┩]+ *", line)), 0)
        if len([line for line in lines[below:] if line.strip(" │└─┴┘")]) != sum(map(any, rows)):
            found.append("a row in several lines")
    return [one + "\n" + text for one in found]


def _plain(cell: object, console: Console) -> str:
    return console.render_str(cell).plain if isinstance(cell, str) else str(cell)


def checked_fit(table: Table, console: Console) -> Table:
    """Fit a table, after a look at it in 80 columns."""
    assert (wrong := faults(table)) == [], wrong
    return _fit(table, console)
