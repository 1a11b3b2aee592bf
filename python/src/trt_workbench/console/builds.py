"""Several builds of one request, printed: what each measured, and the layers that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trt_workbench.console.common import print_line
from trt_workbench.core.counts import counted

if TYPE_CHECKING:
    from rich.console import Console

    from trt_workbench.core.builds import BuiltGroup

_MOST_LAYERS = 20


def print_builds(console: Console, group: BuiltGroup) -> None:
    """Print the builds of one request, and why they differ."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("build", "ms", "relative L2", "verdict", "score", "plan", title=escape(group.label))
    for one in group.builds.builds:
        table.add_row(
            f"{one.number}{f' ({group.builds.rule})' if one.number == group.builds.kept else ''}",
            "-" if one.latency_ms is None else f"{one.latency_ms:.3f}",
            "-" if one.relative_l2 is None else f"{one.relative_l2:.1e}",
            one.verdict or "-",
            "-" if one.score is None else f"{one.score:.4f}",
            (one.engine_sha256 or "-")[:12],
        )
    console.print(table)
    print_line(console, f"{group.builds.words}.")
    if group.layers:
        layers = Table("layer", "differs", "builds", "tactic", "formats", title="Layers that are not the same")
        for layer in group.layers[:_MOST_LAYERS]:
            for number, variant in enumerate(layer.variants):
                names = (escape(layer.layer), layer.differs) if number == 0 else ("", "")
                choice = variant.choice
                chosen = (escape(choice.tactic), escape("; ".join(choice.formats))) if choice else ("no such layer", "")
                layers.add_row(*names, ", ".join(map(str, variant.builds)), *chosen)
        console.print(layers)
    if len(group.layers) > _MOST_LAYERS:
        print_line(console, f"And {counted(len(group.layers) - _MOST_LAYERS, 'more layer')}; --json has all.")
    if group.note:
        print_line(console, f"note: {group.note}")
