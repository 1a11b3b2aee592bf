"""Several builds of one request as tables: what each measured, and the layers that are not the same."""

from __future__ import annotations

from trt_workbench.core.builds import BuiltGroup
from trt_workbench.engine.layer_choices import what_differs
from trt_workbench.report.tables import Cell, Column, Table, verdict

_LAYERS = (Column("layer", "0", long=True), "differs", "builds", Column("what differs", "3", long=True))


def measured(group: BuiltGroup) -> Table:
    """Return what each build measured."""
    kept = group.builds.kept if group.builds.is_choice else None
    columns = [
        Column("build", lambda one: f"{one.number} ({group.builds.rule})" if one.number == kept else one.number),
        Column("latency", "latency_ms", 3, unit="ms", better="lower"),
        Column("relative L2", "relative_l2", form="{:.1e}".format),
        Column("verdict", verdict("outcome", "reason")),
        Column("score", "score", 4),
        *([] if group.builds.compute_alike else [Column("computes in", "computes_in")]),
        Column("plan", lambda one: one.engine_sha256 and one.engine_sha256[:12]),
    ]
    return Table(columns, group.builds.builds, group.label)


def layers(group: BuiltGroup, most: int | None = None) -> Table:
    """Return which layers differ, and in what; at most so many."""
    rows = [
        (
            *((_short(one.layer), one.differs) if number == 0 else ("", "")),
            ", ".join(map(str, variant.builds)),
            Cell(words, title="; ".join((variant.choice.tactic, *variant.choice.formats)) if variant.choice else ""),
        )
        for one in group.layers[:most]
        for number, (variant, words) in enumerate(zip(one.variants, what_differs(one), strict=True))
    ]
    return Table(_LAYERS, rows, "Layers that are not the same")


def _short(layer: str) -> Cell:
    """Return the name of a layer, of one that joins many operators the first and the last of them."""
    parts = layer.split(" + ")
    return Cell(" + … + ".join((parts[0], parts[-1])) if len(parts) > 2 else layer, title=layer)
