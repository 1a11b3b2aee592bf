"""What the device's failure for good is told by: every later call of the process fails too."""

from __future__ import annotations

from trt_workbench.errors import DeviceFailure

# Of the native core, of the other backends.
_FOR_GOOD = ("every later call of this process will fail", "start a new process")


def is_crash(error: Exception) -> bool:
    """Whether the device failed for good, as far as this process is concerned, by what every backend says then."""
    text = str(error).lower()
    return isinstance(error, DeviceFailure) and any(sign in text for sign in _FOR_GOOD)
