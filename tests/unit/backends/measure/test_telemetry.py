"""What the sampler makes of a card's answers, which NVML's double gives."""

import os
import sys
import time
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from pynvml import NVML_ERROR_GPU_IS_LOST, NVMLError
from tests.fake_nvml import fake_nvml

from trt_workbench.backends.measure.telemetry import (
    THROTTLES,
    Contention,
    Telemetry,
    TelemetrySampler,
    _Gpu,
)
from trt_workbench.backends.registry import gpu_in_use

ME = os.getpid()


@pytest.mark.parametrize(
    ("backend", "options", "provenance", "device"),
    [
        ("trt", {}, {}, 0),
        ("trt", {"device": 2}, {}, 2),
        ("torch", {"device": "cuda:13"}, {"device": "cuda"}, 13),
        ("ort-cuda", {"device_id": "1", "device": 3}, {"providers": ["CUDAExecutionProvider"]}, 1),
        ("torch", {"device": "cuda"}, {}, 0),
        ("ort-cpu", {"device_id": 1}, {}, None),
        ("torch", {"device": "cuda:1"}, {"device": "cpu"}, None),
        ("torch", {"device": "cpu"}, {}, None),
        ("ort-cuda", {}, {"providers": ["CPUExecutionProvider"]}, None),
        ("ort-cuda", {}, {"providers": ["CUDAExecutionProvider", "CPUExecutionProvider"]}, 0),
    ],
)
def test_which_gpu_is_watched(backend: str, options: dict[str, Any], provenance: dict[str, Any], device: int) -> None:
    assert gpu_in_use(backend, options, provenance) == device


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A driver with two cards, of which the second answers: another figure at every question, the first again last."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    module: Any = fake_nvml("9.0", "9.0")
    clocks, powers, heat = [1500, 900, 1800], [200_000, 400_000, 300_000], [50, 70, 60]
    memory, reasons, energy = [2**30, 3 * 2**30, 2**29], [0x4, 0x1, 0x40], [5_000, 12_500]
    module.clock, module.kind = 17, 4
    module.NVML_CLOCK_SM, module.NVML_TEMPERATURE_GPU = module.clock, module.kind

    def turn(figures: list[int]) -> int:
        return figures.pop(0) if len(figures) > 1 else figures[0]

    def only(wanted: int, figures: list[int]) -> Any:
        def answer(card: int, what: int) -> int:
            if (card, what) != (1, wanted):
                raise NVMLError(NVML_ERROR_GPU_IS_LOST)
            return turn(figures)

        return answer

    module.nvmlDeviceGetClockInfo = only(17, clocks)
    module.nvmlDeviceGetTemperature = only(4, heat)
    module.nvmlDeviceGetPowerUsage = lambda _: turn(powers)
    module.nvmlDeviceGetCurrentClocksThrottleReasons = lambda _: turn(reasons)
    module.nvmlDeviceGetTotalEnergyConsumption = lambda _: turn(energy)
    module.nvmlDeviceGetComputeRunningProcesses = lambda _: [
        SimpleNamespace(pid=1, usedGpuMemory=9 * 2**30),
        SimpleNamespace(pid=ME, usedGpuMemory=turn(memory)),
    ]
    module.since = []
    module.nvmlDeviceGetProcessUtilization = lambda _, since: (
        module.since.append(since) or [SimpleNamespace(pid=1, smUtil=35), SimpleNamespace(pid=ME, smUtil=90)]
    )
    module.shut = 0

    def shutdown() -> None:
        module.shut += 1

    module.nvmlShutdown = shutdown
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def test_every_figure_of_a_card(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trt_workbench.backends.measure.telemetry._INTERVAL_S", 0.001)
    host = [5 * 2**20, 7 * 2**20]
    monkeypatch.setattr(
        psutil.Process, "memory_info", lambda _: SimpleNamespace(rss=host.pop(0) if len(host) > 1 else 2**20)
    )
    began = time.time()
    with TelemetrySampler(ME, 1) as sampler:
        while len(sampler._device) < 3:
            time.sleep(0.005)
        sampler._stop.set()
        sampler._thread.join()
        del sampler._device[3:]
        time.sleep(0.03)
    seen = sampler.result
    assert (seen.sm_clock_mhz, seen.sm_clock_min_mhz, seen.sm_clock_max_mhz) == (1500, 900, 1800)
    assert (seen.temperature_max_c, seen.power_mean_w, seen.energy_j) == (70, 300.0, 7.5)
    assert seen.throttles == ("power cap (software)", "thermal (hardware)")
    assert (seen.device_memory_bytes, seen.host_memory_bytes) == (3 * 2**30, 5 * 2**20)
    assert (seen.gpu_other_processes, seen.gpu_others_percent) == (1, 35.0)
    assert seen.contention.load_average is not None
    assert 0.03 <= seen.seconds < 30
    assert nvml.since == [pytest.approx(began * 1e6, abs=30e6)]
    assert nvml.since[0] >= int(began * 1e6) - 1
    assert nvml.shut == 1


def test_a_card_that_tells_little(nvml: Any) -> None:
    """Inside a container the driver knows other processes: the memory is the whole card's, nobody is told apart."""

    def refused(*_: object) -> None:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)

    for name in ("PowerUsage", "TotalEnergyConsumption", "CurrentClocksThrottleReasons", "ClockInfo"):
        setattr(nvml, f"nvmlDeviceGet{name}", refused)
    nvml.nvmlDeviceGetComputeRunningProcesses = lambda _: [SimpleNamespace(pid=1, usedGpuMemory=5)]
    nvml.nvmlDeviceGetMemoryInfo = lambda _: SimpleNamespace(used=123)
    with TelemetrySampler(ME, 1) as sampler:
        while not sampler._device:
            time.sleep(0.005)
    seen = sampler.result
    assert (seen.sm_clock_mhz, seen.sm_clock_min_mhz, seen.sm_clock_max_mhz) == (None, None, None)
    assert (seen.power_mean_w, seen.energy_j, seen.throttles) == (None, None, ())
    assert (seen.temperature_max_c, seen.device_memory_bytes) == (50, 123)
    assert (seen.gpu_other_processes, seen.gpu_others_percent) == (None, None)


def test_a_process_that_ended_is_sampled_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: object) -> None:
        raise psutil.NoSuchProcess(ME)

    monkeypatch.setattr(psutil.Process, "memory_info", gone)
    with TelemetrySampler(ME, None) as sampler:
        pass
    assert sampler.result.host_memory_bytes is None


def test_a_card_is_opened_by_its_number_or_its_name(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _Gpu.open(1, ME)
    assert found._handle == 1
    nvml.nvmlDeviceGetHandleByUUID = lambda name: f"by {name}"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-abc,GPU-def")
    found = _Gpu.open(1, ME)
    assert found._handle == "by GPU-def"
    assert _Gpu.open(5, ME) is None

    def without_driver() -> None:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)

    nvml.nvmlInit = without_driver
    assert _Gpu.open(0, ME) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert _Gpu.open(0, ME) is None


def test_the_document_is_flat() -> None:
    values: dict[str, Any] = dict.fromkeys(Telemetry.__dataclass_fields__)
    seen = Telemetry(**{**values, "throttles": ("a",), "contention": Contention(load_average=2.0)}).as_dict()
    assert (seen["throttles"], seen["load_average"]) == (["a"], 2.0)
    assert "contention" not in seen


def test_throttling_bits_are_nvmls() -> None:
    """nvmlClocksThrottleReason… of nvml.h; the others do not mean that the card is held back."""
    pynvml = pytest.importorskip("pynvml")
    names = ("SwPowerCap", "HwSlowdown", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown")
    held = {
        getattr(pynvml, f"nvmlClocksThrottleReason{name}", getattr(pynvml, f"nvmlClocksEventReason{name}", None))
        for name in names
    }
    assert set(THROTTLES) == held
