"""The progress bar of long work: on stderr, in a terminal only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show bars while the block runs.

    Args:
        unit: what is counted, such as "images".

    Yields:
        A function that starts a bar with a description and returns the function to call with the count done and
        the total. Outside a terminal nothing is shown.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from trt_workbench.cli.common import stderr_console

    console = stderr_console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def start(description: str) -> Callable[[int, int], None]:
            task = progress.add_task(description, total=None, rate="")
            began = time.perf_counter()

            def update(done: int, total: int) -> None:
                rate = done / (time.perf_counter() - began)
                progress.update(task, completed=done, total=total, rate=f"{rate:.1f} {unit}/s" if done else "")

            return update

        yield start
