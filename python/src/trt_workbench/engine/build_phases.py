"""The phase of a build, as TensorRT reports it, and the limit on how long it may take."""

from __future__ import annotations

import time
from collections.abc import Callable

Progress = Callable[[str, int, int], bool]
"""Called with a phase's name, the steps done and the steps in all (0: unknown); False ends the build."""


class BuildPhases:
    """The phases of one build that are open, outermost first. It is a `Progress`, called from any thread."""

    def __init__(self, forward: Progress | None = None, limit_s: float | None = None, batches: int = 0) -> None:
        """Start the clock.

        Args:
            forward: gets every call as well, and may end the build.
            limit_s: seconds after which the build is ended; None for no limit.
            batches: of the calibration, which TensorRT does not report.
        """
        self._forward = forward
        self._limit_s = limit_s
        self._batches = batches
        self._start = time.monotonic()
        self._open: dict[str, tuple[int, int]] = {}

    def __call__(self, phase: str, step: int, total: int) -> bool:
        """Record a step; return whether the build should continue."""
        total = total or (self._batches if phase == "calibrate" else 0)
        if total and step >= total:
            self._open.pop(phase, None)
        else:
            self._open[phase] = (step, total)
        return not self.is_over and (self._forward is None or self._forward(phase, step, total))

    @property
    def elapsed_s(self) -> float:
        """Seconds since the build began."""
        return time.monotonic() - self._start

    @property
    def is_over(self) -> bool:
        """Whether the limit is reached."""
        return self._limit_s is not None and self.elapsed_s >= self._limit_s

    @property
    def text(self) -> str:
        """The outermost phase and the innermost, such as `build, calibrate 3 of 9`."""
        phases = list(self._open.items())
        shown = dict([*phases[:1], *phases[-1:]])
        return ", ".join(_phase_text(phase, *steps) for phase, steps in shown.items()) or "build"


def _phase_text(phase: str, step: int, total: int) -> str:
    if total:
        return f"{phase} {step} of {total}"
    return f"{phase} {step}" if step else phase
