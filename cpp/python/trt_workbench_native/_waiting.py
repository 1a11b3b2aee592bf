"""Tickets for asyncio and concurrent.futures: threads that sleep or poll in the core, without the GIL."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._runner import Ticket

_waiters = ThreadPoolExecutor(64, "trtw-ticket")  # as many as a runner has slots; threads start as they are needed


def future(ticket: Ticket) -> Future[dict[str, Any]]:
    """Return a future of the ticket's result."""
    return _waiters.submit(ticket.result)


async def outcome(ticket: Ticket) -> dict[str, Any]:
    """Return the ticket's result; where this is cancelled, the ticket still has it."""
    await asyncio.get_running_loop().run_in_executor(_waiters, ticket.wait)
    return ticket.result()
