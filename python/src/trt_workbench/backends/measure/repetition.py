"""One repetition of one point, put together from its slices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from trt_workbench.backends.measure.telemetry import Contention, Telemetry

T = TypeVar("T", int, float)


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
    return Telemetry(
        sm_clock_mhz=median(clocks) if clocks else None,
        sm_clock_min_mhz=min((one.sm_clock_min_mhz for one in parts if one.sm_clock_min_mhz is not None), default=None),
        sm_clock_max_mhz=_largest(one.sm_clock_max_mhz for one in parts),
        temperature_max_c=_largest(one.temperature_max_c for one in parts),
        power_mean_w=None,  # the card reports its mean of a second, and its energy in steps of 0.1 s: both are of
        energy_j=None,  # what took turns with this, too
        throttles=tuple(dict.fromkeys(text for part in parts for text in part.throttles)),
        device_memory_bytes=_largest(one.device_memory_bytes for one in parts),
        host_memory_bytes=_largest(one.host_memory_bytes for one in parts),
        seconds=seconds,
        contention=_merged_contention([(part.contention, part.seconds) for part in parts]),
        gpu_other_processes=_largest(part.gpu_other_processes for part in parts),
        gpu_others_percent=_largest(part.gpu_others_percent for part in parts),
    )


def _merged_contention(parts: Sequence[tuple[Contention, float]]) -> Contention:
    """Mean of every figure, weighed by time."""
    means: dict[str, float | None] = {}
    for name in Contention.__dataclass_fields__:
        known = [(value, seconds) for one, seconds in parts if (value := getattr(one, name)) is not None]
        whole = math.fsum(seconds for _, seconds in known)
        means[name] = math.fsum(value * seconds for value, seconds in known) / whole if whole else None
    return Contention(**means)


def _largest(values: Iterable[T | None]) -> T | None:
    return max((value for value in values if value is not None), default=None)
