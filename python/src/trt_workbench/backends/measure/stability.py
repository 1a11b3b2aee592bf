"""Whether measurements can be trusted: windows of samples, repetitions together, clocks, throttling, other programs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from trt_workbench.backends.measure.telemetry import Telemetry
from trt_workbench.core.counts import counted
from trt_workbench.core.percent import share
from trt_workbench.core.statistics.comparison import ALPHA, Interval, median_interval
from trt_workbench.core.statistics.rank_tests import mann_whitney

WINDOWS = 5
DRIFT = 0.10
"""Largest difference of window medians as a share of the median; a rerun off by more is invalid (MLPerf, TEST01)."""
CLOCK_SPREAD = 0.05
"""Largest spread of the SM clock as a share of its median."""
WAITED = 0.05
"""Largest part of the time that threads which could run may wait for a processor."""
STOLEN = 0.02
"""Largest part of the processors' time that the hypervisor may take."""
_OTHERS = 0.1  # processors: what a quiet system's own services use
_LEAST_PER_WINDOW = 5
_LEAST_SAMPLES = 10
_SURE_WITHIN = 0.01  # of halves of a repetition: there are many repetitions
_NOISE_WINDOWS = 10


def instabilities(latency_ms: Sequence[float], telemetry: Telemetry) -> list[str]:
    """Return the reasons not to trust a repetition, in words; empty for a stable one.

    Args:
        latency_ms: every sample in the order it was taken.
        telemetry: what was seen beside it.
    """
    reasons = []
    if (drift := window_drift(latency_ms)) is not None and drift > DRIFT:
        reasons.append(f"the median changed by {share(drift)} between windows of the run")
    clock, low, high = telemetry.sm_clock_mhz, telemetry.sm_clock_min_mhz, telemetry.sm_clock_max_mhz
    if clock and low is not None and high is not None and (high - low) / clock > CLOCK_SPREAD:
        reasons.append(f"the SM clock changed between {low:.0f} and {high:.0f} MHz")
    reasons += [f"throttled: {text}" for text in telemetry.throttles]
    return reasons + contended(telemetry)


def noise_interval(samples: Sequence[float]) -> Interval:
    """Return the median of one uninterrupted measurement with an interval for it.

    Samples that follow one another share what disturbs them. The medians of ten windows share less of it, and are taken
    as the independent figures of the interval (the method of batch means: Law, Simulation Modeling and Analysis, 5th
    ed., 2015, section 9.5.3).

    Args:
        samples: in the order they were taken, at least one.
    """
    size = max(1, len(samples) // _NOISE_WINDOWS)
    found = median_interval(
        [median(samples[start : start + size]) for start in range(0, len(samples) - size + 1, size)]
    )
    middle = median(samples)
    return Interval(middle, min(found.low, middle), max(found.high, middle), found.coverage)


def window_drift(samples: Sequence[float]) -> float | None:
    """Return how far the medians of five equal windows lie apart, as a share of the median of all.

    Of fewer than 25 samples two halves are compared, and only a difference beyond their noise is reported: None where
    they are indistinguishable, and for fewer than ten samples.

    Args:
        samples: in the order they were taken.
    """
    size = len(samples) // WINDOWS
    if size < _LEAST_PER_WINDOW:
        return _halves_apart(samples, _LEAST_SAMPLES, _SURE_WITHIN)
    medians = [median(samples[index * size : (index + 1) * size]) for index in range(WINDOWS)]
    return (max(medians) - min(medians)) / median(samples)


def repetition_drift(medians: Sequence[float]) -> float | None:
    """Return how far the later repetitions of a point lie from the earlier ones, as a share of the median of all.

    None where they are indistinguishable; at least four against four are needed.

    Args:
        medians: of the repetitions, in the order they were measured.
    """
    return _halves_apart(medians, 8, ALPHA)


def between_repetitions(medians: Sequence[Interval]) -> list[str]:
    """Return the reasons not to trust a point that show only across its repetitions; empty for a stable one.

    Args:
        medians: of the repetitions in the order they were measured, each with the interval that the noise within it
            leaves, milliseconds.
    """
    reasons, values = [], [one.median for one in medians]
    spread = (max(values) - min(values)) / median(values)
    if spread > DRIFT and max(one.low for one in medians) > min(one.high for one in medians):
        reasons.append(f"it varied by {share(spread)} between repetitions ({min(values):.3f} to {max(values):.3f} ms)")
    if (drift := repetition_drift(values)) is not None and drift > DRIFT:
        reasons.append(f"the median drifted by {share(drift)} from the first repetitions to the last")
    return reasons


def _halves_apart(values: Sequence[float], least: int, alpha: float) -> float | None:
    half = len(values) // 2
    if len(values) < least:
        return None
    first, second = values[:half], values[-half:]
    if mann_whitney(first, second)[1] >= alpha:
        return None
    return abs(median(second) - median(first)) / median(values)


def contended(telemetry: Telemetry) -> list[str]:
    """Return what other programs did to a measurement."""
    seen, reasons = telemetry.contention, []
    waited, others, stolen = seen.cpu_wait_share or 0.0, seen.cpu_others, seen.cpu_steal_share or 0.0
    # without others, a process that starts more threads than there are processors waits for itself
    if waited > WAITED and (others is None or others > _OTHERS):
        competing = "" if others is None else f" while other programs used {others:.1f} CPUs"
        reasons.append(f"its threads waited for a CPU {share(waited)} of the time{competing}")
    if stolen > STOLEN:
        reasons.append(f"the hypervisor took {share(stolen)} of the CPUs' time")
    count, percent = telemetry.gpu_other_processes, telemetry.gpu_others_percent
    if count and percent != 0:
        how = "" if percent is None else f" and used up to {share(percent / 100)} of it"
        reasons.append(f"{counted(count, 'other process', 'other processes')} held the GPU{how}")
    return reasons
