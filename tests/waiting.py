"""Waiting for what another process or thread does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fork_server import ForkServer


def wait_until(happened: Callable[[], object]) -> None:
    """Wait as long as pytest lets a test take: how busy a machine is decides no test."""
    while not happened():
        time.sleep(0.01)


def ended(
    server: ForkServer,
    run: Path,
    done: str,
    ending: signal.Signals,
    *words: object,
    program: str = "from trt_workbench.main import main; main()",
    later_s: float = 0.0,
) -> tuple[int, str]:
    """End a command by a signal once its unfinished run has a file; return its exit code and what it said.

    Args:
        server: starts the command.
        run: its run directory.
        done: the file, below that of the unfinished run.
        ending: the signal.
        words: of the command.
        program: what runs it.
        later_s: how long it goes on after the file is there.
    """
    said = run.with_name("said")
    with said.open("wb") as file:
        process = server.start(program, *words, stdout=file, stderr=file)
        wait_until(lambda: process.poll() is not None or list(run.parent.glob(f".{run.name}.*/{done}")))
        assert process.returncode is None, said.read_text()
        time.sleep(later_s)
        os.kill(process.pid, ending)
        code = process.wait()
    return code, said.read_text()
