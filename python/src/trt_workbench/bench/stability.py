"""Whether one repetition can be trusted: windows of its samples, clocks and throttling."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from trt_workbench.bench.comparison import Interval, median_interval
from trt_workbench.bench.telemetry import Telemetry

WINDOWS = 5
DRIFT = 0.10
"""Largest difference of window medians as a share of the median; a rerun off by more is invalid (MLPerf, TEST01)."""
WARNING = 0.02
"""A drift beyond this is a warning (MLPerf, TEST01: a rerun has to come within 2 %)."""
CLOCK_SPREAD = 0.05
"""Largest spread of the SM clock as a share of its median."""
_LEAST_PER_WINDOW = 5
_NOISE_WINDOWS = 10


def instabilities(latency_ms: Sequence[float], telemetry: Telemetry) -> list[str]:
    """Return the reasons not to trust a repetition, in words; nothing for a stable one.

    Args:
        latency_ms: every sample in the order it was taken.
        telemetry: what was seen beside it.
    """
    reasons = []
    if (drift := window_drift(latency_ms)) is not None and drift > DRIFT:
        reasons.append(f"the median moved by {drift:.0%} between windows of the run")
    clock, low, high = telemetry.sm_clock_mhz, telemetry.sm_clock_min_mhz, telemetry.sm_clock_max_mhz
    if clock and low is not None and high is not None and (high - low) / clock > CLOCK_SPREAD:
        reasons.append(f"the SM clock moved between {low:.0f} and {high:.0f} MHz")
    reasons += [f"throttled: {text}" for text in telemetry.throttles]
    return reasons


def noise_interval(samples: Sequence[float]) -> Interval:
    """Return the median of one uninterrupted measurement with an interval for it.

    Samples that follow one another share what disturbs them. The medians of ten windows share less of it, and are taken
    as the independent figures of the interval (batch means: Law, Simulation Modeling and Analysis, 5th ed., 2015, 9.5.3).

    Args:
        samples: in the order they were taken, at least one.
    """
    size = max(1, len(samples) // _NOISE_WINDOWS)
    found = median_interval([median(samples[start : start + size]) for start in range(0, len(samples) - size + 1, size)])
    middle = median(samples)
    return Interval(middle, min(found.low, middle), max(found.high, middle), found.coverage)


def window_drift(samples: Sequence[float]) -> float | None:
    """Return how far the medians of five equal windows lie apart, as a share of the median of all.

    None for fewer than 25 samples, which are too few to tell.
    """
    size = len(samples) // WINDOWS
    if size < _LEAST_PER_WINDOW:
        return None
    medians = [median(samples[index * size : (index + 1) * size]) for index in range(WINDOWS)]
    return (max(medians) - min(medians)) / median(samples)
