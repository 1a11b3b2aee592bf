"""Builds, printed: what each of several measured, the layers that differ, and what an interrupt leaves of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from trt_workbench.console.common import print_line, print_table
from trt_workbench.core.counts import counted
from trt_workbench.core.directory import RunDirectory
from trt_workbench.core.errors import WorkbenchError
from trt_workbench.core.workspace import PLAN_NAME, engine_cache

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from trt_workbench.core.builds import BuiltGroup

_MOST_LAYERS = 20


def same_command(*, force: bool) -> str:
    """Name the command that goes on with what is in the engine cache."""
    return f"the same command{' without --force' if force else ''}"


def what_is_left(error: BaseException, began: float, output: Path | None, *, force: bool) -> str:
    """Say what an interrupted command leaves: what its notes say, engines, an unfinished run; "" for nothing.

    Args:
        error: that ended it, with its notes.
        began: when it began, in seconds since the epoch: its worker processes put engines into the cache, too.
        output: the run directory that it was to write, if it was named.
        force: whether it builds what the cache has.
    """
    notes = list(getattr(error, "__notes__", ()))
    with suppress(OSError, WorkbenchError):
        plans = () if notes else engine_cache().glob(f"*/{PLAN_NAME}")
        if count := sum(plan.stat().st_mtime >= began for plan in plans):
            built = f"{counted(count, 'engine')} built meanwhile {'is' if count == 1 else 'are'}"
            notes = [f"{built} in the engine cache; {same_command(force=force)} goes on from there."]
    with suppress(OSError):
        if output and RunDirectory("", output).earlier():
            notes.append(f"What the unfinished run has is kept: {output}")
    return "".join(f" {note}" for note in notes)


def _short(layer: str) -> str:
    """Return the name of a layer, of one that joins many operators the first and the last of them."""
    parts = layer.split(" + ")
    return " + … + ".join((parts[0], parts[-1])) if len(parts) > 2 else layer


def print_builds(console: Console, group: BuiltGroup) -> None:
    """Print the builds of one request, and why they differ."""
    from rich.markup import escape

    alike = group.builds.compute_alike
    heads = ("build", "ms", "relative L2", "verdict", "score", *([] if alike else ["computes in"]), "plan")
    kept = group.builds.kept if group.builds.is_choice else None
    rows = (
        (
            f"{one.number}{f' ({group.builds.rule})' if one.number == kept else ''}",
            "-" if one.latency_ms is None else f"{one.latency_ms:.3f}",
            "-" if one.relative_l2 is None else f"{one.relative_l2:.1e}",
            one.outcome or "-",
            "-" if one.score is None else f"{one.score:.4f}",
            *([] if alike else [one.computes_in or "-"]),
            (one.engine_sha256 or "-")[:12],
        )
        for one in group.builds.builds
    )
    print_table(console, heads, rows, title=escape(group.label))
    print_line(console, f"{group.builds.words}.")
    if group.layers:
        from trt_workbench.engine.layer_choices import what_differs

        layers = []
        for layer in group.layers[:_MOST_LAYERS]:
            for number, (variant, words) in enumerate(zip(layer.variants, what_differs(layer), strict=True)):
                names = (escape(_short(layer.layer)), layer.differs) if number == 0 else ("", "")
                layers.append((*names, ", ".join(map(str, variant.builds)), escape(words)))
        heads = ("layer", "differs", "builds", "what differs")
        print_table(console, heads, layers, title="Layers that are not the same")
    if len(group.layers) > _MOST_LAYERS:
        print_line(console, f"And {counted(len(group.layers) - _MOST_LAYERS, 'more layer')}; --json has all.")
    if group.note:
        print_line(console, f"note: {group.note}")
