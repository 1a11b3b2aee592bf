"""How long this process has been there, and what it was doing until its work began. Imports next to nothing."""

from __future__ import annotations

import os
import time

_reached: dict[str, float] = {}


def process_age_s() -> float:
    """Return how long this process has been there, to 10 ms, its interpreter's start included."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - pathlib is not imported yet
        # what follows the name, which may hold anything: the 20th field is the start in clock ticks since the boot
        fields = file.read().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def reached(part: str) -> None:
    """Note that a part of the start, such as "interpreter", is over."""
    _reached.pop(part, None)  # of an earlier command of this process
    _reached[part] = process_age_s()


def start_parts() -> dict[str, float]:
    """Return the seconds of each part of the start that is over, in their order; the sum is the last one's end."""
    ends = list(_reached.values())
    return {part: end - begin for part, begin, end in zip(_reached, [0.0, *ends], ends, strict=False)}
