"""Whether work leaves memory taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MIB = 1 << 20


def host_bytes() -> int:
    """Return what this process holds of the host's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def check_nothing_is_kept(native: Any, work: Callable[[], None]) -> None:
    """Fail if `work` leaves memory of the host, or each time anew memory of the device, taken."""
    shrunk = []
    for _ in range(5):  # other processes take memory of the device, too; a leak shows in every try
        host, device = host_bytes(), native.devices()[0]["memory_free_bytes"]
        work()
        assert host_bytes() - host < 16 * MIB
        shrunk.append(device - native.devices()[0]["memory_free_bytes"])
        if shrunk[-1] < 16 * MIB:
            return
    pytest.fail(f"the device's free memory shrank in every try, by these bytes: {shrunk}")
