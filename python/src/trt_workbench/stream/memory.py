"""Memory of this process along a stream: whether it grows with the chunks."""

from __future__ import annotations

import os

from trt_workbench.stream.document import Resident

_SAMPLES = 400
_FEWEST = 20


class Watch:
    """Samples the resident memory while a stream runs."""

    def __init__(self, chunks: int) -> None:
        """Expect so many chunks."""
        import psutil

        self._process = psutil.Process(os.getpid())
        self._every = max(1, chunks // _SAMPLES)
        self._found: list[tuple[int, int]] = []

    def sample(self, chunk: int) -> None:
        """Take a sample if it is time for one."""
        if chunk % self._every == 0:
            self._found.append((chunk, self._process.memory_info().rss))

    def found(self) -> Resident | None:
        """Return the slope after the first tenth, in which runtimes take their memory; None of a short stream."""
        from scipy.stats import theilslopes

        kept = self._found[len(self._found) // 10 :]
        if len(kept) < _FEWEST:
            return None
        slope, _, low, high = theilslopes([size for _, size in kept], [chunk for chunk, _ in kept], 0.95)
        return Resident(
            first_bytes=kept[0][1],
            last_bytes=kept[-1][1],
            bytes_per_chunk=float(slope),
            low=float(low),
            high=float(high),
            samples=len(kept),
        )
