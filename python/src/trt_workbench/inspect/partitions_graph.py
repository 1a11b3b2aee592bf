"""Draw the partitions of a model: every node by its depth, coloured by provider."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.core.counts import counted
from trt_workbench.core.files import atomic_writer
from trt_workbench.report.style import label, settings

if TYPE_CHECKING:
    from trt_workbench.model.index import GraphIndex
    from trt_workbench.model.partitions import Partitions

_COLOURS = {
    "TensorrtExecutionProvider": "#5b9a21",
    "CUDAExecutionProvider": "#2f6fb3",
    "CPUExecutionProvider": "#d0722b",
    "folded": "#b0b0b0",
}
_OTHER = "#7a5ca8"
# More labels than this cannot be read.
_LABELLED = 40


def draw_partitions(partitions: Partitions, index: GraphIndex, path: Path) -> None:
    """Write an SVG: depth from left to right, one dot a node, lines for tensors, names of nodes on other providers.

    Raises:
        OSError: the file cannot be written.
    """
    with settings():
        _draw(partitions, index, path)


def _draw(partitions: Partitions, index: GraphIndex, path: Path) -> None:
    from matplotlib.figure import Figure

    places = _places(partitions)
    deepest = max((node.depth for node in partitions.nodes), default=0)
    widest = max(Counter(node.depth for node in partitions.nodes).values(), default=1)
    figure = Figure(figsize=(min(4 + deepest * 0.16, 60), min(2.5 + widest * 0.22, 14)), layout="constrained")
    axes = figure.add_subplot()
    _draw_edges(axes, index, places, partitions)
    for provider, count in partitions.counts().items():
        chosen = [place for place, node in enumerate(partitions.nodes) if node.provider == provider]
        x, y = zip(*(places[place] for place in chosen), strict=True)
        axes.scatter(
            x, y, s=26, color=_COLOURS.get(provider, _OTHER), label=f"{provider}: {counted(count, 'node')}", zorder=3
        )
    for place in [place for place, node in enumerate(partitions.nodes) if node.reason][:_LABELLED]:
        node = partitions.nodes[place]
        axes.annotate(
            label(f"{node.operator} {node.name}"[:48]),
            places[place],
            (3, 4),
            textcoords="offset points",
            fontsize=6,
            rotation=25,
        )
    borders = len(partitions.subgraphs)
    axes.set_title(f"{partitions.asked}: {counted(borders, 'subgraph')}", loc="left", fontsize=10)
    axes.set_xlabel("depth (longest path from an input, nodes)")
    axes.set_yticks([])
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, frameon=False, fontsize=8)
    with atomic_writer(path) as file:
        # no date and fixed ids: the same partitions give the same file
        figure.savefig(file, format="svg", metadata={"Date": None})


def _places(partitions: Partitions) -> list[tuple[float, float]]:
    """Return (depth, row) of each node, the rows of one depth centred around 0."""
    columns: dict[int, list[int]] = defaultdict(list)
    for place, node in enumerate(partitions.nodes):
        columns[node.depth].append(place)
    rows = {place: row - (len(column) - 1) / 2 for column in columns.values() for row, place in enumerate(column)}
    return [(float(node.depth), rows[place]) for place, node in enumerate(partitions.nodes)]


def _draw_edges(axes: Any, index: GraphIndex, places: list[tuple[float, float]], partitions: Partitions) -> None:
    """Draw tensors as thin lines, those that cross a border between providers as thick ones."""
    from matplotlib.collections import LineCollection

    inner: list[Any] = []
    crossing: list[Any] = []
    for place, node in enumerate(index.nodes):
        for name in node.input:
            source = index.producer.get(name)
            if source is None:
                continue
            same = partitions.nodes[source].provider == partitions.nodes[place].provider
            (inner if same else crossing).append((places[source], places[place]))
    axes.add_collection(LineCollection(inner, colors="#c8c8c8", linewidths=0.6, zorder=1))
    axes.add_collection(LineCollection(crossing, colors="#c0392b", linewidths=1.6, zorder=2))
