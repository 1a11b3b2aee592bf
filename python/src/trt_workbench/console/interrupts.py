"""SIGINT, SIGTERM and SIGHUP end a command as an interrupt, wherever they come."""

from __future__ import annotations

import _thread
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_AGAIN_S = 0.01


@contextmanager
def ended_as_interrupted(heard: list[int]) -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C: what was begun is kept or cleared.

    Batch systems and containers end a job with the one, a terminal that is closed with the other. What is ignored, as
    SIGHUP is under `nohup`, stays so. An interrupt that Python drops, because it came within a finalizer or the
    callback of a weak reference (`import` has one for each module), comes again.

    Args:
        heard: takes the signals that come.
    """
    from trt_workbench.core.interruptible import ENDING

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return

    def interrupt(number: int, _: object) -> None:
        heard.append(number)
        if number == signal.SIGHUP:
            _leave_terminal()
        raise KeyboardInterrupt

    def dropped(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt) and heard:
            _thread.start_new_thread(_send_again, (heard[-1], ended))
        else:
            earlier_hook(what)

    ended = threading.Event()
    earlier_hook, sys.unraisablehook = sys.unraisablehook, dropped
    earlier = {number: signal.getsignal(number) for number in ENDING}
    ours = {number: handler for number, handler in earlier.items() if handler not in (signal.SIG_IGN, None)}
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        ended.set()
        for number, handler in ours.items():
            signal.signal(number, handler)
        sys.unraisablehook = earlier_hook


def _send_again(number: int, ended: threading.Event) -> None:
    """Send a signal again from a thread of its own: in the hook itself it would be dropped once more."""
    time.sleep(_AGAIN_S)
    if not ended.is_set():
        os.kill(os.getpid(), number)


def _leave_terminal() -> None:
    """Write to nowhere instead of the terminal that was closed, where every write would fail."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)
