"""The progress of long work, on stderr: bars in a terminal, elsewhere a plain line every few seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from trt_workbench.core.errors import printable

EVERY_S = 4.0
"""Between two lines, so that no five seconds pass without one."""

# Of a line in a terminal: what all but the last column takes.
_BAR_WIDTH = 95

Stage = Callable[[], str | None]
"""Says what the command is at; nothing, "", leaves it to the stage around it, None if a terminal shows it already."""
Listener = Callable[[str], None]
"""Is called with a line."""
_stages: list[Stage] = []
_listeners: list[Listener | None] = []


class ProgressUpdate(Protocol):
    """How far a bar is."""

    def __call__(self, done: int, total: int, doing: str = "") -> None:
        """Show the count done, the total, and what is being done."""


@contextmanager
def pulse(listener: Listener | None = None) -> Iterator[None]:
    """Say what the command is at every few seconds while the block runs, so that it is never silent.

    Args:
        listener: gets the lines, from another thread; by default they are printed on stderr.
    """
    ended, began = threading.Event(), time.monotonic()

    def beat() -> None:
        while not ended.wait(EVERY_S):
            if text := _stage():
                line = f"[{time.monotonic() - began:.0f} s] {printable(text)}"
                listener(line) if listener else sys.stderr.write(f"{line}\n")

    thread = threading.Thread(target=beat, name="pulse", daemon=True)
    _listeners.append(listener)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        _listeners.remove(listener)
        thread.join(1.0)  # no longer: a reader of stderr may have stopped reading


def _stage() -> str | None:
    for stage in reversed(_stages):
        if (text := stage()) != "":
            return text
    return "Still running"


@contextmanager
def at_stage(stage: Stage) -> Iterator[None]:
    """Show what `stage` returns in the lines while the block runs."""
    _stages.append(stage)
    try:
        yield
    finally:
        _stages.remove(stage)


@contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` while the block runs.

    Yields:
        The function to call with another text.
    """
    if any(_listeners) or not sys.stderr.isatty():
        now = [text]
        with at_stage(lambda: now[0]):
            yield lambda changed: now.__setitem__(0, changed)
        return
    from trt_workbench.console.common import stderr_console

    with at_stage(lambda: None), stderr_console().status(text) as status:
        yield status.update


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[[str], ProgressUpdate]]:
    """Show bars while the block runs.

    Args:
        unit: what is counted, such as "images".

    Yields:
        A function that starts a bar with a description and returns the function to call with the count done, the
        total and, where one of them takes long, what is being done.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    from trt_workbench.console.common import stderr_console

    console = stderr_console()
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    ]
    if (room := console.width - _BAR_WIDTH) > 0:
        column = Column(no_wrap=True, overflow="ellipsis", max_width=room)
        columns.append(TextColumn("{task.fields[doing]}", markup=False, table_column=column))
    said, shown = "", console.is_terminal and not any(_listeners)

    def stage() -> str | None:
        return None if shown else said

    with (
        Progress(*columns, console=console, transient=True, disable=not shown) as progress,
        at_stage(stage),
    ):

        def start(description: str) -> ProgressUpdate:
            task = progress.add_task(description, total=None, rate="", doing="")
            began = time.perf_counter()

            def update(done: int, total: int, doing: str = "") -> None:
                nonlocal said
                since = time.perf_counter() - began
                # what is there at the beginning took no time here
                rate = f"{done / since:.1f} {unit}/s" if since >= 1 and done > 0.05 * since else ""
                progress.update(task, completed=done, total=total, rate=rate, doing=doing)
                said = (
                    f"{description}: {done} of {total} {unit}{rate and f', {rate}'}{doing and f'; {doing}'}"
                    if done < total
                    else ""
                )

            return update

        yield start
