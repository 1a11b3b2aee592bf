"""Calls of a library to one server: each within a time limit, and what can go wrong in the words of every protocol."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from typing import Any, NoReturn, TypeVar

from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench_serving.backends.address import TOKEN, Address, hidden, token

_Found = TypeVar("_Found")
_LONGEST = 600
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class Away(DeviceFailure):
    """The server could not be reached, broke the connection off, or says that it cannot serve now.

    Attributes:
        to_begin_with: what is wrong where a model is opened.
    """

    to_begin_with = ""


class Refused(UsageProblem):
    """The server refuses a request.

    Attributes:
        status: of HTTP.
        reason: the status in words, and the server's own message.
    """

    status, reason = 0, ""


class Calls:
    """Runs the coroutines of a client. Several threads may ask at once."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        """Take where the server is, and how long one call may take."""
        self.address, self._timeout_s, self._loop = address, timeout_s, _loop(os.getpid())

    def answer(self, call: Coroutine[Any, Any, _Found]) -> _Found:
        """Return what a call gives; raise what it raises, and DeviceFailure where it takes too long.

        The libraries limit each wait for bytes, and so no answer that drips. Here the whole call has one limit.
        """
        asked = asyncio.run_coroutine_threadsafe(asyncio.wait_for(call, self._timeout_s), self._loop)
        try:
            return asked.result()
        except TimeoutError as error:
            raise DeviceFailure(
                f"The server did not answer within {self._timeout_s:g} s; raise the limit, the backend's option "
                f"timeout_s: {self.address}"
            ) from error
        finally:
            asked.cancel()  # the call of an interrupted command

    def away(self, error: object) -> Away:
        """Return the error for a server that does not answer, with the reason."""
        said = " ".join(hidden(str(getattr(error, "message", error))).split()) or type(error).__name__
        return _away(
            f"The server does not answer ({said}): {self.address}",
            f"No server answers ({said}). Start it, or pass the URL of one that runs: {self.address}",
        )

    def refuse(self, status: int, said: str, what: str, named: str = "") -> NoReturn:
        """Raise the error that a status stands for: Refused, Away, or DeviceFailure where the server failed.

        Args:
            status: of HTTP, other than 200.
            said: the server's own message; "" without one.
            what: was asked for, such as "run model detector".
            named: the status in words; HTTP's by default.
        """
        phrases = {one.value: f" {one.phrase}" for one in HTTPStatus}
        named = named or f"{status}{phrases.get(status, '')}"
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            why = f"the token in {TOKEN} is not valid there" if token() else f"set its token in {TOKEN}"
            raise UsageProblem(f"The server refuses access ({named}): {why}. {self.address}")
        reason = f"{named}{': ' if said else ''}{hidden(' '.join(said.split()))[:_LONGEST]}"
        problem = f"The server cannot {what} ({reason}): {self.address}"
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise _away(problem, f"The server is not ready ({reason}); wait until it is: {self.address}")
        if status in _BUSY or (status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED):
            raise DeviceFailure(problem)
        refused = Refused(problem)
        refused.status, refused.reason = status, reason
        raise refused

    def broken(self, error: Exception) -> DeviceFailure:
        """Return the error for an answer that has another form than the protocol's."""
        return DeviceFailure(
            f"The server's answer is not of the protocol's form ({hidden(repr(error))[:_LONGEST]}): {self.address}"
        )


@contextmanager
def opening(close: Callable[[], None]) -> Iterator[None]:
    """Close what speaks with a server, by `close`, where the model cannot be opened.

    Raises:
        ComponentMissing: the server was not there to begin with, or is not ready.
    """
    try:
        yield
    except BaseException as problem:
        close()
        if isinstance(problem, Away):
            raise ComponentMissing(problem.to_begin_with) from problem
        raise


def _away(problem: str, to_begin_with: str) -> Away:
    found = Away(problem)
    found.to_begin_with = to_begin_with
    return found


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:  # noqa: ARG001 - a fork has none of its parent's threads
    """Return the loop of all calls of a process: gRPC's asyncio serves one alone."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="calls to servers").start()
    return loop
