"""Builds, printed: what each of several measured, the layers that differ, and what an interrupt leaves of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from trt_workbench.core.counts import counted
from trt_workbench.core.directory import RunDirectory
from trt_workbench.core.errors import WorkbenchError
from trt_workbench.core.workspace import PLAN_NAME, engine_cache

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from trt_workbench.console.common import Parts
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


def shown_builds(groups: Iterable[BuiltGroup]) -> Parts:
    """Yield the builds of each request, and why they differ."""
    from trt_workbench.report.builds import layers, measured

    for group in groups:
        more = len(group.layers) - _MOST_LAYERS
        yield from (
            measured(group),
            f"{group.builds.words}.",
            layers(group, _MOST_LAYERS) if group.layers else None,
            f"And {counted(more, 'more layer')}; --json has all." if more > 0 else None,
            f"note: {group.note}" if group.note else None,
        )
