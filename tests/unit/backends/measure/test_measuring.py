"""The measuring loop and what is put together from its slices."""

import os
import threading
import time

import pytest

from trt_workbench.backends.measure.loop import measure_calls
from trt_workbench.backends.measure.repetition import Slice, merged
from trt_workbench.backends.measure.telemetry import Contention, Telemetry, TelemetrySampler
from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.backends.registry import gpu_in_use
from trt_workbench.bench.config import RepetitionSettings


@pytest.mark.parametrize("concurrency", [1, 3])
def test_least_count_and_least_time_are_both_reached(concurrency: int) -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(threading.get_ident())
        time.sleep(0.002)

    few = measure_calls(call, SamplingLimits(warmup_ms=0, duration_s=0.05, min_iterations=1), concurrency)
    assert few.wall_s >= 0.05
    assert few.latency_ms.min() >= 2.0
    many = measure_calls(call, SamplingLimits(warmup_ms=0, duration_s=0.0, min_iterations=20), concurrency)
    assert len(many.latency_ms) >= 20
    assert len(set(calls)) >= concurrency


def test_calls_run_at_once() -> None:
    meeting = threading.Barrier(4)  # no call ends before four have begun
    plan = SamplingLimits(warmup_ms=0, duration_s=0, min_iterations=1)
    samples = measure_calls(lambda: meeting.wait(60), plan, 4)
    assert len(samples.latency_ms) == 4


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_failing_call_ends_the_measurement(concurrency: int) -> None:
    def call() -> None:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        measure_calls(call, SamplingLimits(warmup_ms=1, duration_s=0.1), concurrency)


def test_the_warm_up_does_not_count() -> None:
    calls = []
    samples = measure_calls(
        lambda: (calls.append(1), time.sleep(0.001)),
        SamplingLimits(warmup_ms=30, duration_s=0, min_iterations=3, max_iterations=3),
    )
    assert len(samples.latency_ms) == 3
    assert len(calls) > 3


def telemetry(**changes: object) -> Telemetry:
    values: dict[str, object] = dict.fromkeys(Telemetry.__dataclass_fields__)
    fixed = {"throttles": (), "seconds": 1.0, "contention": Contention()}
    return Telemetry(**{**values, **fixed, **changes})  # type: ignore[arg-type]


def test_beside_a_runtime_on_the_processor_no_gpu_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_in_use("ort-cpu", {}, {}) is None
    assert gpu_in_use("torch", {"device": "cpu"}, {"device": "cpu"}) is None
    monkeypatch.setattr(
        "trt_workbench.backends.measure.telemetry._Gpu.open", lambda *_: pytest.fail("the GPU was opened")
    )
    with TelemetrySampler(os.getpid(), None) as sampler:
        time.sleep(0.01)
    assert sampler.result.sm_clock_mhz is None
    assert sampler.result.device_memory_bytes is None
    assert (sampler.result.host_memory_bytes or 0) > 2**20


def test_a_repetition_is_its_slices_in_order() -> None:
    cool = telemetry(power_mean_w=100.0, sm_clock_mhz=1000.0, contention=Contention(cpu_wait_share=0.1, cpu_others=1.0))
    first = Slice({"latency_ms": [1.0, 2.0]}, 0.5, cool, (1.5,))
    hot = telemetry(power_mean_w=300.0, sm_clock_mhz=2000.0, throttles=("hot",), host_memory_bytes=7, seconds=3.0,
                    contention=Contention(cpu_wait_share=0.5), gpu_other_processes=2)  # fmt: skip
    whole = merged([first, Slice({"latency_ms": [3.0]}, 1.0, hot, (3.0,))])
    assert whole.columns == {"latency_ms": [1.0, 2.0, 3.0]}
    assert (whole.wall_s, whole.p50_ms) == (1.5, (1.5, 3.0))
    assert (whole.telemetry.power_mean_w, whole.telemetry.energy_j) == (None, None)
    assert whole.telemetry.sm_clock_mhz == 1500.0
    assert whole.telemetry.throttles == ("hot",)
    assert whole.telemetry.host_memory_bytes == 7
    assert whole.telemetry.contention.cpu_wait_share == pytest.approx(0.4)  # weighed by time
    assert (whole.telemetry.contention.cpu_others, whole.telemetry.gpu_other_processes) == (1.0, 2)
    assert merged([first]) is first


def test_slices_share_the_repetition() -> None:
    settings = RepetitionSettings(warmup_ms=20, duration_s=1.0, min_iterations=10)
    plan = settings.slice_limits(0, 4, None)
    assert (plan.warmup_ms, plan.duration_s, plan.min_iterations) == (20, 0.25, 3)
    assert [settings.slice_limits(1, 4, call_ms).warmup_ms for call_ms in (0.1, 4.9, 5.1, 900)] == [5, 5, 0, 0]
    assert settings.slice_limits(0, 1, None).duration_s == 1.0


@pytest.mark.parametrize(("least", "most", "slices"), [(15, 15, 10), (1, 7, 5), (10, 25, 10), (3, 10, 10)])
def test_slices_take_no_more_samples_together_than_the_repetition_may(least: int, most: int, slices: int) -> None:
    settings = RepetitionSettings(min_iterations=least, max_iterations=most)
    each = [settings.slice_limits(number, slices, 1.0) for number in range(slices)]
    assert sum(one.max_iterations for one in each) == most
    assert least <= sum(min(one.min_iterations, one.max_iterations) for one in each)
    assert min(one.max_iterations for one in each) >= 1
