"""Tables as a terminal of 80 columns shows them."""

import copy
import io
import re

from rich.console import Console
from rich.table import Table

from trt_workbench.console.tables import _FIGURE, fit

WIDTH = 80
_fit = fit


def shown(table: Table) -> list[str]:
    """Return the lines of a table in 80 columns."""
    console = Console(file=io.StringIO(), width=WIDTH, force_terminal=False)
    made = copy.deepcopy(table)
    _fit(made, console)
    console.print(made, crop=False)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def faults(table: Table) -> list[str]:
    """Return what is wrong with a table in 80 columns: figures that are cut, rows of single words in several lines."""
    lines = shown(table)
    plain = Console(width=1000)
    cells = [[_plain(cell, plain) for cell in column.cells] for column in table.columns]
    figures = [word for column in cells for text in column for word in text.split() if _FIGURE.fullmatch(word)]
    found = [f"{word} is cut" for word in dict.fromkeys(figures) if not any(word in line for line in lines)]
    if all(not re.search(r"\s", text) for column in cells for text in column):
        below = next((place for place, line in enumerate(lines, 1) if re.fullmatch(r" *[─┡━╇┩]+ *", line)), 0)
        rows = [line for line in lines[below:] if line.strip(" │└─┴┘")]
        filled = sum(any(row) for row in zip(*cells, strict=True))
        if len(rows) != filled:
            found.append(f"{filled} rows in {len(rows)} lines:\n" + "\n".join(lines))
    return found


def _plain(cell: object, console: Console) -> str:
    return console.render_str(cell).plain if isinstance(cell, str) else str(cell)


def checked_fit(table: Table, console: Console) -> None:
    """Fit a table, after a look at it in 80 columns."""
    assert (wrong := faults(table)) == [], wrong
    _fit(table, console)
