"""The progress of a build: bars with the time that went by in a terminal, elsewhere lines with its phases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trt_workbench.console.progress import at_stage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from trt_workbench.engine.build_phases import Progress


@contextmanager
def build_progress(console: Console) -> Iterator[Progress]:
    """Show what a build is at while the block runs.

    Args:
        console: where it is shown.

    Yields:
        The function that a build calls with a phase's name, the steps done and the steps in all (0: unknown); it
        returns whether the build shall go on.
    """
    with _bars(console) if console.is_terminal else _lines() as progress:
        yield progress


@contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress, at_stage(lambda: None):
        tasks: dict[str, TaskID] = {}

        def report(phase: str, step: int, total: int) -> bool:
            if phase not in tasks:
                tasks[phase] = progress.add_task(phase, total=total or None)
            progress.update(tasks[phase], completed=step, total=total or None)
            if total and step >= total:
                # TensorRT opens the same phase again for every subgraph
                progress.remove_task(tasks.pop(phase))
            return True

        yield report


@contextmanager
def _lines() -> Iterator[Progress]:
    from trt_workbench.engine.build_phases import BuildPhases

    started: list[BuildPhases] = []

    def stage() -> str:
        return f"Building for {started[0].elapsed_s:.0f} s: {started[0].text}" if started else ""

    def report(phase: str, step: int, total: int) -> bool:
        if not started:  # what goes before, such as waiting for another process, is no building
            started.append(BuildPhases())
        return started[0](phase, step, total)

    with at_stage(stage):
        yield report
