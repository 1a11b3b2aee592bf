"""One look for every plot: colours, sizes, words and how a figure becomes a file."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import atomic_writer, write_text
from trt_workbench.core.input_files import read_bytes
from trt_workbench.core.workspace import cache_root
from trt_workbench.report.page import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2933"
ACCENT = "#2f6fb2"
# Okabe and Ito's palette, distinguishable with any form of colour blindness.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a8d00", "#555555")

# Legend entries up to this many characters are two in a row.
_SHORT = 30
# Inches of a picture with one set of axes: narrow, so that its text can be read on a phone.
NARROW = 5.2
# Inches of a picture that has a row of the page for itself.
WIDE = 9.0
# Inches: a PNG of matplotlib has at most 2^16 pixels a side.
_TALLEST = 300.0
_LONGEST_STEM = 100
_MARK = b"trt-workbench"
# Between the ends of an axis: beyond, ticks at 1, 2 and 5 cover one another.
_MANY_DECADES = 2e4

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
    # a dollar is a dollar: names come from files, and none is a formula
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


def label(text: str, longest: int = 300) -> str:
    """Return a name from a file as a picture can show it: one line of at most `longest` printable characters."""
    line = one_line(str(text))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def file_stem(*parts: str) -> str:
    """Return a file name without its ending for names that may hold anything; other names give another one."""
    whole = "-".join(map(str, parts)).replace(" ", "-")
    plain = re.sub(r"[^A-Za-z0-9._=+-]+", "-", whole).strip(".-")[:_LONGEST_STEM]
    return plain if plain == whole else f"{plain}-{hashlib.sha256(whole.encode(errors='replace')).hexdigest()[:8]}"


def plots_folder(directory: Path) -> Path:
    """Return the folder of a run directory's pictures. Raises UsageProblem if it would lead elsewhere."""
    folder = directory / "plots"
    for place in (folder, folder / "gallery"):
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            what = "a link, so figures would be written elsewhere" if place.is_symlink() else "not a folder"
            raise UsageProblem(f"The folder for the run's figures is {what}; remove it: {place}")
    return folder


@cache
def matplotlib() -> Any:
    """Return matplotlib, loaded without reading anything of the current folder, the home folder or the environment.

    While it is loaded it reads `matplotlibrc`, first of all in the current folder: that is its own folder meanwhile.
    Its cache of fonts is kept in ours.
    """
    own = Path(getattr(importlib.util.find_spec("matplotlib"), "origin", "")).parent / "mpl-data"
    given = {name: os.environ.pop(name, None) for name in ("MATPLOTLIBRC", "MPLBACKEND", "MPLCONFIGDIR")}
    here = os.open(".", os.O_PATH)  # a folder that is gone has no name to come back by
    try:
        os.environ["MPLCONFIGDIR"] = os.devnull  # it makes a folder for the process then, and says so
        with suppress(UsageProblem):
            os.environ["MPLCONFIGDIR"] = str(cache_root() / "matplotlib")
        os.chdir(own)
        import matplotlib as mpl
        import matplotlib.font_manager

        mpl.get_configdir()  # it keeps the answer
    finally:
        os.fchdir(here)
        os.close(here)
        del os.environ["MPLCONFIGDIR"]
        os.environ.update({name: value for name, value in given.items() if value is not None})
    return mpl


@contextmanager
def settings() -> Iterator[None]:
    """Draw only with our settings: no file of the user's or of the current folder changes the pictures."""
    mpl = matplotlib()
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        # the font lacks most of the world's scripts; a box replaces such a character
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        # names may take more room than there is
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        yield


def by_powers(axes: Axes, which: Literal["x", "y"]) -> None:
    """Give an axis a logarithmic scale: ticks at 1, 2 and 5 as plain numbers, over many decades at powers of ten.

    Called when everything is drawn, as the values decide.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if which == "x":
        axes.set_xscale("log")
    else:
        axes.set_yscale("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    if high / low > _MANY_DECADES:
        axis.set_major_locator(LogLocator(numticks=8))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def legend_below(axes: Axes) -> None:
    """Put the legend below the axes, where it covers nothing that is drawn."""
    handles, texts = axes.get_legend_handles_labels()
    columns = 2 if max(map(len, texts), default=0) <= _SHORT else 1
    axes.figure.legend(handles, texts, loc="outside lower left", ncols=columns, fontsize=8)


def _mark_axes(drawing: Figure) -> None:
    """Say of every axis that is logarithmic, and of every vertical one that does not begin at zero, that it is so."""
    for axes in drawing.axes:
        low, high = sorted(axes.get_ylim())
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log":
                mark = "logarithmic"
            elif axis is axes.yaxis and (low > 0 or high < 0):
                mark = "does not begin at 0"
            else:
                continue
            axis.set_label_text(", ".join(filter(None, (axis.get_label_text(), mark))))


def _write(drawing: Figure, path: Path) -> None:
    from trt_workbench.report.page import written

    _mark_axes(drawing)
    if path.suffix == ".svg":
        write_text(path, written(drawing), over=_is_drawing)
        return
    with atomic_writer(path, over=_is_drawing) as file:
        drawing.savefig(file, format="png", metadata={"Software": _MARK.decode()})


def _is_drawing(path: Path) -> bool:
    return read_bytes(path).startswith(b'<svg class="plot') or _MARK in read_bytes(path)[:200]


@contextmanager
def panels(path: Path, count: int, title: str, labels: Sequence[str]) -> Iterator[list[Axes]]:
    """Yield the axes of a figure with one legend below them, two in a row, and write it when the block ends.

    Args:
        path: of the file, SVG or PNG by its ending.
        count: how many axes.
        title: of all of them.
        labels: what the legend will hold, which decides its room.
    """
    matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(count, 2)
    rows = -(-count // columns)
    legend_columns = 2 if labels and max(len(line) for label in labels for line in label.split("\n")) <= _SHORT else 1
    lines = sum(label.count("\n") + 1 for label in labels) / legend_columns
    with settings():
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
        drawing.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=legend_columns, fontsize=8)
        _write(drawing, path)


@contextmanager
def figure(path: Path, width: float = NARROW, height: float = 4.2) -> Iterator[Axes]:
    """Yield the axes of a new figure, and write it to `path` when the block ends.

    Args:
        path: of the file, SVG or PNG by its ending; PNG is for what has a cell for each value.
        width: inches.
        height: inches.
    """
    matplotlib()
    # The object interface: pyplot would pick a GUI backend and keep every figure alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with settings():
        drawing = Figure(figsize=(min(width, _TALLEST), min(height, _TALLEST)), dpi=144, layout="constrained")
        FigureCanvasAgg(drawing)
        yield drawing.add_subplot()
        _write(drawing, path)
