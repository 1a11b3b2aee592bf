"""What a session offers besides `run` if its runtime can measure itself more closely than a Python loop can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SamplingLimits:
    """How long to measure; trtexec's rules.

    Attributes:
        warmup_ms: time that is run before any sample counts.
        duration_s: least time of samples.
        min_iterations: least number of samples.
        max_iterations: most samples; a long run stops here even before `duration_s`.
    """

    warmup_ms: float = 200.0
    duration_s: float = 3.0
    min_iterations: int = 10
    max_iterations: int = 1_000_000


# Enough to compare a profiler's cost with; `bench` measures with care.
BRIEFLY = SamplingLimits(warmup_ms=100.0, duration_s=0.3)


@dataclass(frozen=True)
class Samples:
    """What was measured, one value a call.

    Attributes:
        latency_ms: float64 [N], from host arrays in to host arrays out, one call at a time, milliseconds.
        wall_s: time from the first sample's start to the last one's end, seconds.
        split_ms: float64 [N] for each part that the runtime distinguishes, such as `compute` or `host_to_device`.
    """

    latency_ms: NDArray[np.float64]
    wall_s: float
    split_ms: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


@runtime_checkable
class MeasuringSession(Protocol):
    """A session that measures its own calls."""

    def measure(self, inputs: Mapping[str, NDArray[Any]], limits: SamplingLimits) -> Samples:
        """Execute the model over and over on the same inputs.

        Args:
            inputs: as `Session.run` takes them.
            limits: how long.

        Raises:
            UsageProblem: the inputs do not fit the model.
            DeviceFailure: the device failed while executing.
        """
