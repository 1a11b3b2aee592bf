import threading
import time

import pytest

from trt_workbench.vision.channel import Aborted, Channel


def test_items_leave_in_order_until_closed() -> None:
    channel: Channel[int] = Channel(3)
    for item in range(3):
        channel.put(item)
    channel.close()
    assert list(channel) == [0, 1, 2]
    assert channel.get() is None


def test_put_waits_while_full() -> None:
    channel: Channel[int] = Channel(1)
    channel.put(0)
    passed = threading.Event()

    def put() -> None:
        channel.put(1)
        passed.set()

    thread = threading.Thread(target=put)
    thread.start()
    assert not passed.wait(0.05)
    assert channel.get() == 0
    assert passed.wait(5)
    thread.join()
    assert channel.get() == 1


@pytest.mark.parametrize("full", [True, False])
def test_abort_wakes_whoever_waits(full: bool) -> None:
    channel: Channel[int] = Channel(1)
    if full:
        channel.put(0)
    seen: list[str] = []

    def wait() -> None:
        try:
            channel.put(1) if full else channel.get()
        except Aborted:
            seen.append("aborted")

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.02)
    channel.abort()
    for thread in threads:
        thread.join(5)
    assert seen == ["aborted"] * 3
    with pytest.raises(Aborted):
        channel.put(2)
    with pytest.raises(Aborted):
        channel.get()
