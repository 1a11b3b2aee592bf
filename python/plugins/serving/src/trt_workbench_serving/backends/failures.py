"""What can go wrong between us and a server, in the words of every protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import NoReturn, Protocol

from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench_serving.backends.address import TOKEN, Address, token

_LONGEST = 600


class NoAnswer(DeviceFailure):
    """The server could not be reached, or broke the connection off.

    Attributes:
        reason: why.
    """

    reason = ""


class TooSlow(DeviceFailure):
    """The server did not answer within the time limit."""


class NotReady(DeviceFailure):
    """The server is there, and says that it cannot serve: it loads, or is overloaded.

    Attributes:
        reason: in its words.
    """

    reason = ""


def no_answer(address: Address, reason: object) -> NoAnswer:
    """Return the error for a server that is away."""
    said = str(reason).strip() or type(reason).__name__
    found = NoAnswer(f"The server does not answer ({said}): {address}")
    found.reason = said
    return found


def too_slow(address: Address, limit_s: float) -> TooSlow:
    """Return the error for an answer that did not come in time."""
    return TooSlow(
        f"The server did not answer within {limit_s:g} s; raise the limit, the backend's option timeout_s: {address}"
    )


class Closing(Protocol):
    """What speaks with a server."""

    def close(self) -> None:
        """End the connections."""


@contextmanager
def opening(address: Address, client: Closing) -> Iterator[None]:
    """Close what speaks with a server where the model cannot be opened.

    Raises:
        ComponentMissing: the server was not there to begin with, or is not ready.
    """
    try:
        yield
    except BaseException as problem:
        client.close()
        if isinstance(problem, NoAnswer):
            raise ComponentMissing(
                f"No server answers ({problem.reason}). Start it, or pass the URL of one that runs: {address}"
            ) from problem
        if isinstance(problem, NotReady):
            raise ComponentMissing(
                f"The server is not ready ({problem.reason}); wait until it is: {address}"
            ) from problem
        raise


def refused_token(address: Address, said: str) -> UsageProblem:
    """Return the error for a server that wants a token, or another one."""
    why = f"the token in {TOKEN} is not valid there" if token() else f"set its token in {TOKEN}"
    return UsageProblem(f"The server refuses access ({said}): {why}. {address}")


def answered(status: int, reason: str, said: str) -> str:
    """Return what a server answered instead: an HTTP status, the words for it, and its own message."""
    return f"{status} {reason}{': ' if said else ''}{said[:_LONGEST]}"


def refuse_status(address: Address, status: int, reason: str, said: str, what: str) -> NoReturn:
    """Raise the error that an HTTP status stands for.

    Args:
        address: of the server.
        status: other than 200.
        reason: the words for it.
        said: the server's own message; "" without one.
        what: was asked for, such as "run model detector".
    """
    if status in (401, 403):
        raise refused_token(address, f"{status} {reason}")
    why = answered(status, reason, said)
    problem = f"The server cannot {what} ({why}): {address}"
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        found = NotReady(problem)
        found.reason = why
        raise found
    raise (UsageProblem if status < 500 and status not in (408, 429) else DeviceFailure)(problem)
