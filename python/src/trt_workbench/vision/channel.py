"""A bounded queue between threads that can be closed (no more to come) or aborted (everybody stops at once)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Aborted(Exception):
    """The channel was aborted: a signal to a thread to stop, not an error."""


class Channel(Generic[T]):
    """First in, first out, for any number of threads at both ends.

    Iterating takes items until the channel is closed and empty. (`queue.Queue` has no way to wake its waiters for
    good before Python 3.13.)
    """

    def __init__(self, capacity: int) -> None:
        """Hold at most `capacity` items."""
        self._capacity = capacity
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._aborted = False

    def put(self, item: T) -> None:
        """Add an item; waits while the channel is full.

        Raises:
            Aborted: the channel was aborted.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._aborted or len(self._items) < self._capacity)
            if self._aborted:
                raise Aborted
            self._items.append(item)
            self._changed.notify_all()

    def get(self) -> T | None:
        """Take the oldest item; waits while there is none. None once the channel is closed and empty.

        Raises:
            Aborted: the channel was aborted.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._aborted or self._closed or bool(self._items))
            if self._aborted:
                raise Aborted
            if not self._items:
                return None
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def __iter__(self) -> Iterator[T]:
        while (item := self.get()) is not None:
            yield item

    def close(self) -> None:
        """Say that no more items will be put."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abort(self) -> None:
        """Make every waiting and future `put` and `get` raise."""
        with self._changed:
            self._aborted = True
            self._items.clear()
            self._changed.notify_all()
