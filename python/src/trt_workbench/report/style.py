"""One look for every plot: colours, sizes and how a figure becomes a PNG."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1f2933"
ACCENT = "#2f6fb2"
# Okabe and Ito's palette, which people with any form of colour blindness can tell apart.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a8d00", "#555555")

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
