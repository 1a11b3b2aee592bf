"""Sessions that keep tensors on their device from call to call."""

from __future__ import annotations

import abc
from typing import Self

from trt_workbench.backends.base import Session


class StateSession(Session):
    """A session with state: outputs that feed inputs of the next call and are no outputs and inputs of a call."""

    @abc.abstractmethod
    def memory_bytes(self) -> dict[str, int]:
        """Return what the session holds, by purpose."""

    @abc.abstractmethod
    def take_state(self, other: Self) -> None:
        """Let the next call read what the next one of `other` would; it is copied on the device.

        Args:
            other: a session of the same backend whose state has the same names, types and shapes.

        Raises:
            UsageProblem: the state does not fit, or a call is in flight.
            DeviceFailure: the device failed.
        """
