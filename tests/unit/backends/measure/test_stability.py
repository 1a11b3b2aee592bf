"""What makes a measurement untrustworthy: drift with few samples, repetitions that differ, other programs."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from tests.records import record
from tests.texts import held
from tests.waiting import wait_until

from trt_workbench.backends.measure.stability import (
    between_repetitions,
    instabilities,
    noise_interval,
    repetition_drift,
    window_drift,
)
from trt_workbench.backends.measure.telemetry import Contention, ContentionWatch, Telemetry, _Gpu
from trt_workbench.bench.ranking import rank
from trt_workbench.core.statistics.comparison import Interval

SPIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


def telemetry(**changes: Any) -> Telemetry:
    values: dict[str, Any] = dict.fromkeys(Telemetry.__dataclass_fields__)
    return Telemetry(**{**values, "throttles": (), "seconds": 1.0, "contention": Contention(), **changes})


def around(middle: float, share: float) -> Interval:
    return Interval(middle, middle * (1 - share), middle * (1 + share), 0.97)


def test_a_drift_is_found_in_ten_samples_and_noise_is_none() -> None:
    draw = np.random.default_rng(0)
    slowed = [*draw.normal(1.0, 0.01, 6), *draw.normal(1.5, 0.01, 6)]
    assert window_drift(slowed) == pytest.approx(0.4, abs=0.05)
    held(*instabilities(slowed, telemetry()))
    false = sum(window_drift(list(draw.lognormal(0, 0.3, 10 + trial % 15))) is not None for trial in range(1000))
    assert false <= 20  # at most one in a hundred is due
    assert window_drift(slowed[:9]) is None


def test_a_drift_over_the_repetitions_is_found() -> None:
    assert repetition_drift([1.0, 1.01, 1.02, 1.03, 1.2, 1.21, 1.22, 1.23]) == pytest.approx(0.18, abs=0.01)
    assert repetition_drift([1.0, 1.2, 1.01, 1.21, 1.02, 1.22, 1.03, 1.23]) is None
    creeping = [around(1 + number / 30, 0.5) for number in range(10)]
    held(*between_repetitions(creeping))


def test_repetitions_that_noise_does_not_explain() -> None:
    (reason,) = between_repetitions([around(ms, 0.02) for ms in (31.6, 50.0, 74.0)])
    held(reason)
    assert between_repetitions([around(ms, 0.6) for ms in (31.6, 50.0, 74.0)]) == []
    assert between_repetitions([around(ms, 0.001) for ms in (31.6, 31.9, 32.4)]) == []
    assert between_repetitions([around(31.6, 0.0)]) == []


def test_the_noise_within_a_repetition_covers_what_is_shared_by_neighbours() -> None:
    """Samples that move slowly say less than as many independent ones: windows of them say how much."""
    draw, held = np.random.default_rng(1), 0
    for _ in range(400):
        steps = draw.normal(0, 1, 500)
        slow = np.convolve(steps, np.ones(20) / np.sqrt(20), mode="valid")
        found = noise_interval((10 + slow).tolist())
        held += found.low <= 10 <= found.high
    assert held / 400 > 0.9
    one = noise_interval([3.0])
    assert (one.median, one.low, one.high, one.coverage) == (3.0, 3.0, 3.0, 0.0)


def test_a_point_whose_repetitions_differ_is_unstable() -> None:
    noisy = [
        record("a", number, ms, p50_interval_ms=(ms * 0.98, ms * 1.02)) for number, ms in enumerate((31.6, 50, 74))
    ]
    (standing,) = rank(noisy)
    assert standing.unstable == standing.repetitions == 3
    assert "31.600 to 74.000 ms" in standing.reasons[0]
    assert (standing.latency_ms.low, standing.latency_ms.high, standing.latency_ms.coverage) == (31.6, 74.0, 0.75)
    steady = [record("a", number, 50 + number / 10, p50_interval_ms=(49, 51)) for number in range(3)]
    assert rank(steady)[0].reasons == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"contention": Contention(cpu_wait_share=0.4, cpu_others=1.5)},
            "waited for a CPU 40 % of the time while",
        ),
        ({"contention": Contention(cpu_wait_share=0.4, cpu_others=0.01)}, None),  # more threads than processors
        ({"contention": Contention(cpu_wait_share=0.01, cpu_others=60.0)}, None),  # there are enough processors
        ({"contention": Contention(cpu_steal_share=0.07)}, "the hypervisor took 7 %"),
        ({"gpu_other_processes": 1, "gpu_others_percent": 30.0}, "1 other process held the GPU and used up to 30 %"),
        ({"gpu_other_processes": 2}, "2 other processes held the GPU"),
        ({"gpu_other_processes": 1, "gpu_others_percent": 0.0}, None),
    ],
)
def test_what_others_took_is_a_reason(changes: dict[str, Any], reason: str | None) -> None:
    found = instabilities([1.0] * 30, telemetry(**changes))
    assert len(found) == (reason is not None)
    assert reason is None or reason in found[0]


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count waiting")
def test_a_busy_machine_is_seen() -> None:
    """The measured program has one processor, which another shares that is none of the bench's: it is an orphan."""
    spinning = [sys.executable, "-c", SPIN, str(min(os.sched_getaffinity(0)))]
    shell = ["sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", *spinning]
    other = psutil.Process(int(subprocess.run(shell, capture_output=True, text=True, check=True).stdout))
    try:
        with subprocess.Popen(spinning) as measured:
            wait_until(lambda: all(one.cpu_times().user > 0.1 for one in (other, psutil.Process(measured.pid))))
            watch, began = ContentionWatch(measured.pid), time.monotonic()
            time.sleep(1.0)
            seen = watch.result(time.monotonic() - began)
            measured.kill()
    finally:
        other.kill()
    assert seen.cpu_wait_share is not None
    assert seen.cpu_wait_share > 0.2
    assert seen.cpu_others is not None
    assert seen.cpu_others > 0.2
    assert seen.load_average is not None
    assert any("waited for a CPU" in one for one in instabilities([1.0] * 30, telemetry(contention=seen)))


@pytest.mark.parametrize(
    ("low", "high", "found"), [(975, 1025, 0), (974, 1026, 1), (970, 1035, 1), (None, 1100, 0), (900, None, 0)]
)
def test_a_clock_may_move_by_a_twentieth(low: int | None, high: int | None, found: int) -> None:
    clocks = {"sm_clock_min_mhz": low, "sm_clock_max_mhz": high}
    assert len(instabilities([1.0] * 30, telemetry(sm_clock_mhz=1000, **clocks))) == found
    assert instabilities([1.0] * 30, telemetry(**clocks)) == []


def test_windows_are_equal_and_cover_what_they_can() -> None:
    """Five windows of five; the two samples that are left over are in none."""
    samples = [float(value) for window in (10, 11, 12, 13, 15) for value in [window] * 5] + [99.0] * 2
    assert window_drift(samples) == pytest.approx(5 / 12)
    assert window_drift([*range(1, 26)]) == pytest.approx(20 / 13)
    # 24 samples are two halves: all different, and the median of each
    assert window_drift([*range(1, 25)]) == pytest.approx(12 / 12.5)
    assert window_drift([1.0, 2.0] * 12) is None
    # 2 of 252 splits of five and five are as far out as this, 4 of them are too many: sure within a hundredth
    assert window_drift([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) == pytest.approx(5 / 5.5)
    assert window_drift([1, 2, 3, 4, 6, 5, 7, 8, 9, 10]) is None


def test_eight_repetitions_can_drift_and_seven_cannot() -> None:
    assert repetition_drift([1, 2, 3, 4, 5, 6, 7, 8]) == pytest.approx(4 / 4.5)
    assert repetition_drift([1, 2, 3, 4, 5, 6, 7]) is None
    assert repetition_drift([1, 2, 3, 4, 99, 5, 6, 7, 8]) == pytest.approx(4 / 5)  # the middle one is in neither half


def test_the_interval_of_noise_is_that_of_ten_windows() -> None:
    found = noise_interval([float(window * 10 + place) for window in range(10) for place in (3, 4, 5)] + [500.0])
    assert (found.median, found.low, found.high) == (53.0, 14.0, 84.0)
    assert found.coverage > 0.95
    assert noise_interval([1.0, 9.0, 2.0]).coverage == 0.75


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"contention": Contention(cpu_wait_share=0.05)}, 0),
        ({"contention": Contention(cpu_wait_share=0.051)}, 1),
        ({"contention": Contention(cpu_wait_share=0.4, cpu_others=0.1)}, 0),
        ({"contention": Contention(cpu_wait_share=0.4, cpu_others=0.11)}, 1),
        ({"contention": Contention(cpu_steal_share=0.02)}, 0),
        ({"contention": Contention(cpu_steal_share=0.021)}, 1),
        ({"throttles": ("hardware slowdown", "thermal (hardware)")}, 2),
    ],
)
def test_limits_are_what_they_are_said_to_be(changes: dict[str, Any], found: int) -> None:
    assert len(instabilities([1.0] * 30, telemetry(**changes))) == found
    assert len(instabilities([10.0] * 15 + [11.0] * 10, telemetry(**changes))) == found
    assert len(instabilities([10.0] * 15 + [11.01] * 10, telemetry(**changes))) == found + 1


def gpu(running: list[int], used: dict[int, int] | None) -> _Gpu:
    """A card beside pid 7, the measured process, as NVML tells of it."""

    class Failed(Exception):
        pass

    def utilisation(*_: object) -> list[SimpleNamespace]:
        if used is None:
            raise Failed
        return [SimpleNamespace(pid=pid, smUtil=share) for pid, share in used.items()]

    nvml = SimpleNamespace(
        NVMLError=Failed,
        nvmlDeviceGetComputeRunningProcesses=lambda _: [SimpleNamespace(pid=pid) for pid in running],
        nvmlDeviceGetProcessUtilization=utilisation,
    )
    return _Gpu(nvml, None, 7)


def test_other_programs_on_the_gpu() -> None:
    assert gpu([7, os.getpid()], {}).others(0) == (0, 0.0)  # the bench's own
    assert gpu([7, 8, 9], {7: 90, 8: 5, 9: 30}).others(0) == (2, 30.0)
    assert gpu([7, 8], None).others(0) == (1, None)
    assert gpu([8], {8: 5}).others(0) == (None, None)  # inside a container
