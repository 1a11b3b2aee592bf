"""The progress of a build: TensorRT's nested phases as bars with the remaining time, in a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID


@contextmanager
def build_progress(console: Console) -> Iterator[Callable[[str, int, int], bool]]:
    """Show bars while the block runs.

    Args:
        console: where they are drawn.

    Yields:
        The function that a build calls with a phase's name, the steps done and the steps in all (0: unknown); it
        returns whether the build shall go on.
    """
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
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
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
