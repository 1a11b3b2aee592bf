"""Real time, which tests replace by their own."""

from __future__ import annotations

import time

# Sleeping ends late by about a tenth of a millisecond: the rest is waited for in a loop.
_AWAKE_S = 0.0005


class Clock:
    """Real time, in seconds."""

    def now(self) -> float:
        """Return the time."""
        return time.perf_counter()

    def wait(self, until: float) -> None:
        """Return at a time, at once if it has passed."""
        if (left := until - self.now()) > _AWAKE_S:
            time.sleep(left - _AWAKE_S)
        while self.now() < until:
            pass
