"""When Ctrl-C and similar signals take effect: at once in native code too, but only after a step that must be whole."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from trt_workbench.core.errors import INTERRUPTED, CheckFailed

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks a command to end: Ctrl-C, a batch system or container, a terminal that is closed."""


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Delay signals that end the command until the block is done; for short steps that must be whole.

    Signals that are ignored, or that end the process without being asked, stay so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    held: list[int] = []
    handlers = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, lambda number, _: held.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def call_interruptibly(call: Callable[[], T], limit_s: float | None = None) -> T:
    """Return what `call` returns, from a thread of its own: Python handles signals only in the main thread.

    `call` cannot be ended. Where it is interrupted it goes on until the process ends, which then does not wait for it.

    Args:
        call: takes minutes in native code without the interpreter's lock, such as a build of TensorRT 8.6.
        limit_s: seconds to wait at most; None for as long as it takes.

    Raises:
        KeyboardInterrupt: the main thread was interrupted meanwhile.
        CheckFailed: `call` took longer than `limit_s`.
        Exception: what `call` raises.
    """
    from concurrent.futures import Future

    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # handed to the caller, whatever it is
            done.set_exception(error)

    threading.Thread(target=work, name="native-call", daemon=True).start()
    try:
        return done.result(limit_s)
    except KeyboardInterrupt:
        _abandon(done, INTERRUPTED)
        raise
    except TimeoutError as error:
        if done.done():
            raise  # of the call itself
        _abandon(done, CheckFailed.exit_code)
        raise CheckFailed(f"The limit of {limit_s} s was exceeded.") from error


def _abandon(done: Future[T], exit_code: int) -> None:
    if not done.done():
        # libraries that are still at work crash when the process takes itself apart below them
        atexit.register(_end_at_once, exit_code)


def _end_at_once(exit_code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
