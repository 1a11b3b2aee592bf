"""The progress of long work, on stderr: a bar in a terminal, and for downloads a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_EVERY_S = 5.0


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


@contextmanager
def download_progress(console: Console) -> Iterator[Callable[[int, int], None]]:
    """Show how far a download is while the block runs.

    Yields:
        The function to call with the bytes that have arrived and all there will be (0 if that is unknown). In a
        terminal it moves a bar, elsewhere it prints a line every few seconds.
    """
    from rich.filesize import decimal
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from trt_workbench.cli.common import print_line

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, visible=False)
        began = said = time.monotonic()

        def update(done: int, total: int) -> None:
            nonlocal said
            bar.update(task, completed=done, total=total or None, visible=True)
            now = time.monotonic()
            if not console.is_terminal and now - said >= _EVERY_S:
                said = now
                of = f" of {decimal(total)}" if total else ""
                print_line(console, f"Downloaded {decimal(done)}{of} in {now - began:.0f} s.")

        yield update
