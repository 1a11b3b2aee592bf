"""One repetition of one point, put together from its slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from trt_workbench.backends.measuring import MeasurePlan
from trt_workbench.bench.config import MeasureSettings
from trt_workbench.bench.telemetry import Telemetry


@dataclass(frozen=True)
class Slice:
    """What one uninterrupted stretch of measuring gave, or several of them.

    Attributes:
        columns: milliseconds by part, `latency_ms` among them.
        wall_s: how long it was measured.
        telemetry: what was seen beside it.
        p50_ms: median latency of every stretch.
    """

    columns: dict[str, list[float]]
    wall_s: float
    telemetry: Telemetry
    p50_ms: tuple[float, ...]


def slice_plan(settings: MeasureSettings) -> MeasurePlan:
    """Return how long one slice runs: its share of the repetition, after a warm-up of its own."""
    count = settings.slices
    return MeasurePlan(
        warmup_ms=settings.warmup_ms,
        duration_s=settings.duration_s / count,
        min_iterations=math.ceil(settings.min_iterations / count),
        max_iterations=math.ceil(settings.max_iterations / count),
    )


def merged(slices: Sequence[Slice]) -> Slice:
    """Return slices of one repetition as one: samples one after the other, in the order they were taken."""
    if len(slices) == 1:
        return slices[0]
    names = slices[0].columns
    columns = {name: [value for part in slices for value in part.columns[name]] for name in names}
    return Slice(
        columns=columns,
        wall_s=math.fsum(part.wall_s for part in slices),
        telemetry=_merged([part.telemetry for part in slices]),
        p50_ms=tuple(value for part in slices for value in part.p50_ms),
    )


def _merged(parts: Sequence[Telemetry]) -> Telemetry:
    seconds = math.fsum(part.seconds for part in parts)
    clocks = [part.sm_clock_mhz for part in parts if part.sm_clock_mhz is not None]
    power = [(part.power_mean_w, part.seconds) for part in parts if part.power_mean_w is not None]
    energy = [part.energy_j for part in parts if part.energy_j is not None]
    return Telemetry(
        sm_clock_mhz=median(clocks) if clocks else None,
        sm_clock_min_mhz=min((one.sm_clock_min_mhz for one in parts if one.sm_clock_min_mhz is not None), default=None),
        sm_clock_max_mhz=max((one.sm_clock_max_mhz for one in parts if one.sm_clock_max_mhz is not None), default=None),
        temperature_max_c=max(
            (one.temperature_max_c for one in parts if one.temperature_max_c is not None), default=None
        ),
        power_mean_w=sum(watts * time for watts, time in power) / sum(time for _, time in power) if power else None,
        energy_j=math.fsum(energy) if len(energy) == len(parts) else None,
        throttles=tuple(dict.fromkeys(text for part in parts for text in part.throttles)),
        device_memory_bytes=max(
            (one.device_memory_bytes for one in parts if one.device_memory_bytes is not None), default=None
        ),
        host_memory_bytes=max(
            (one.host_memory_bytes for one in parts if one.host_memory_bytes is not None), default=None
        ),
        seconds=seconds,
    )
