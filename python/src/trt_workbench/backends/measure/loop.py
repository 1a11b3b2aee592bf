"""The measuring loop: warm-up by time, then samples until both the least count and the least time are reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from trt_workbench.backends.measuring import Samples, SamplingLimits


def measure_calls(
    call: Callable[[], object],
    limits: SamplingLimits,
    concurrency: int = 1,
    *,
    warm_up: Callable[[], object] | None = None,
) -> Samples:
    """Time `call` on the host's clock, which must return only when its work is done.

    The rules are trtexec's: run for `warmup_ms` without counting, then until `duration_s` and `min_iterations` are
    both reached.

    Args:
        call: the work, such as one `Session.run`.
        limits: how long.
        concurrency: threads that call it at once. Samples are then in order of their ends.
        warm_up: what is run without counting; the work itself by default.

    Raises:
        What `call` raises.
    """
    if concurrency == 1:
        return _one_after_the_other(call, limits, warm_up or call)
    return _at_once(call, limits, concurrency, warm_up or call)


def _one_after_the_other(call: Callable[[], object], limits: SamplingLimits, warm_up: Callable[[], object]) -> Samples:
    _warm_up(warm_up, limits)
    samples: list[int] = []
    started = now = time.perf_counter_ns()
    end = started + round(limits.duration_s * 1e9)
    while (now < end or len(samples) < limits.min_iterations) and len(samples) < limits.max_iterations:
        before = now
        call()
        now = time.perf_counter_ns()
        samples.append(now - before)
    return Samples(np.array(samples, np.float64) / 1e6, (now - started) / 1e9)


def _at_once(
    call: Callable[[], object], limits: SamplingLimits, concurrency: int, warm_up: Callable[[], object]
) -> Samples:
    spans: list[tuple[int, int]] = []
    begin = threading.Barrier(concurrency)

    def work() -> None:
        try:
            _warm_up(warm_up, limits)
            begin.wait()
        except BaseException:
            begin.abort()  # the others would wait for this one for ever
            raise
        now = time.perf_counter_ns()
        end = now + round(limits.duration_s * 1e9)
        while (now < end or len(spans) < limits.min_iterations) and len(spans) < limits.max_iterations:
            before = now
            call()
            now = time.perf_counter_ns()
            spans.append((now, before))  # the interpreter's lock makes this safe

    with ThreadPoolExecutor(concurrency) as pool:
        tasks = [pool.submit(work) for _ in range(concurrency)]
    failures = [error for task in tasks if (error := task.exception())]
    if failures:
        raise next((error for error in failures if not isinstance(error, threading.BrokenBarrierError)), failures[0])
    spans.sort()
    latency = np.array([end - start for end, start in spans], np.float64) / 1e6
    return Samples(latency, (spans[-1][0] - min(start for _, start in spans)) / 1e9)


def _warm_up(call: Callable[[], object], limits: SamplingLimits) -> None:
    end = time.perf_counter_ns() + round(limits.warmup_ms * 1e6)
    while time.perf_counter_ns() < end:
        call()
