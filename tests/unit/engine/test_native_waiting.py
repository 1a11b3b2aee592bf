"""How tickets of the native core are waited for from asyncio and concurrent.futures; the ticket is a double."""

import asyncio
import threading
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import pytest
from tests.scripts import load_script

PATH = Path(__file__).parents[3] / "cpp" / "python" / "trt_workbench_native" / "_waiting.py"


class Ticket:
    """Is done when told so; its result can be had once."""

    def __init__(self, number: int) -> None:
        self.number, self.ended, self.taken = number, threading.Event(), False

    def wait(self, timeout: float | None = None) -> bool:
        return self.ended.wait(timeout)

    def result(self) -> dict[str, int]:
        assert self.ended.wait(10)
        assert not self.taken
        self.taken = True
        return {"y": self.number}


@pytest.fixture
def waiting() -> Any:
    return load_script(PATH)


def test_tickets_are_awaited_side_by_side(waiting: Any) -> None:
    async def work() -> list[dict[str, int]]:
        tickets = [Ticket(number) for number in range(8)]
        pending = asyncio.gather(*(waiting.outcome(ticket) for ticket in tickets))
        await asyncio.sleep(0.01)  # the loop goes on meanwhile
        for ticket in reversed(tickets):
            assert not pending.done()
            ticket.ended.set()
        return await pending

    assert asyncio.run(work()) == [{"y": number} for number in range(8)]


def test_a_cancelled_wait_leaves_the_ticket_its_result(waiting: Any) -> None:
    async def work() -> dict[str, int]:
        ticket = Ticket(3)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting.outcome(ticket), 0.01)
        assert not ticket.taken
        ticket.ended.set()
        result: dict[str, int] = await waiting.outcome(ticket)
        return result

    assert asyncio.run(work()) == {"y": 3}


def test_futures_hold_results(waiting: Any) -> None:
    tickets = [Ticket(number) for number in range(4)]
    futures = [waiting.future(ticket) for ticket in tickets]
    assert not any(future.done() for future in futures)
    for ticket in tickets:
        ticket.ended.set()
    assert sorted(future.result()["y"] for future in as_completed(futures, timeout=10)) == [0, 1, 2, 3]
