"""One look for every plot: colours, sizes and how a figure becomes a PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1f2933"
ACCENT = "#2f6fb2"
# Okabe and Ito's palette, which people with any form of colour blindness can tell apart.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a8d00", "#555555")

# Legend entries up to this many characters stand two in a row.
_SHORT = 30
# Inches of a picture with one set of axes: narrow, so that its text can be read on a phone.
NARROW = 5.2

# Any: matplotlib types the keys as literals that differ between its versions.
_SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#9aa5b1",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "font.size": 9,
    "grid.color": "#e4e7eb",
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def panels(path: Path, count: int, title: str, labels: Sequence[str]) -> Iterator[list[Axes]]:
    """Yield the axes of a figure with one legend below them, two in a row, and write it when the block ends.

    Args:
        path: the PNG file.
        count: how many axes.
        title: of all of them.
        labels: what the legend will hold, which decides its room.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(count, 2)
    rows = -(-count // columns)
    beside = 2 if labels and max(len(line) for label in labels for line in label.split("\n")) <= _SHORT else 1
    lines = sum(label.count("\n") + 1 for label in labels) / beside
    with mpl.rc_context(_SETTINGS):
        height = (3.4 if columns == 1 else 2.7) * rows + 0.6 + 0.16 * lines
        drawing = Figure(figsize=(NARROW if columns == 1 else 7.0, height), dpi=144, layout="constrained")
        FigureCanvasAgg(drawing)
        grid = drawing.subplots(rows, columns, squeeze=False)
        every = list(grid.flat)
        for unused in every[count:]:
            unused.remove()
        yield every[:count]
        drawing.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        handles = {
            text: handle
            for axes in every[:count]
            for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        drawing.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=beside, fontsize=8)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path)


@contextmanager
def figure(path: Path, width: float = 7.0, height: float = 4.2) -> Iterator[Axes]:
    """Yield the axes of a new figure, and write it to `path` as a PNG when the block ends.

    Args:
        path: the PNG file.
        width: inches.
        height: inches.
    """
    # The object interface: pyplot would pick a GUI backend and keep every figure alive.
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_SETTINGS):
        drawing = Figure(figsize=(width, height), dpi=144, layout="constrained")
        FigureCanvasAgg(drawing)
        yield drawing.add_subplot()
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path)
