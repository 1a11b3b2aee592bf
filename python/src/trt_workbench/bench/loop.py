"""The measuring loop: warm-up by time, then samples until both the least count and the least time are reached."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from trt_workbench.backends.measuring import MeasurePlan, Samples


def measure_calls(call: Callable[[], object], plan: MeasurePlan) -> Samples:
    """Time `call` on the host's clock, which must return only when its work is done.

    The rules are trtexec's: run for `warmup_ms` without counting, then until `duration_s` and `min_iterations` are
    both reached.

    Args:
        call: the work, such as one `Session.run`.
        plan: how long.
    """
    end = time.perf_counter_ns() + round(plan.warmup_ms * 1e6)
    while time.perf_counter_ns() < end:
        call()
    samples: list[int] = []
    started = now = time.perf_counter_ns()
    end = started + round(plan.duration_s * 1e9)
    while (now < end or len(samples) < plan.min_iterations) and len(samples) < plan.max_iterations:
        before = now
        call()
        now = time.perf_counter_ns()
        samples.append(now - before)
    return Samples(np.array(samples, np.float64) / 1e6, (now - started) / 1e9)
