import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pynvml
import pytest

from trt_workbench.core import environment, gpu
from trt_workbench.core.gpu import driver_report
from trt_workbench.setup.doctor import examine


def test_environment_is_json_and_names_the_command() -> None:
    document = environment.collect_environment(["eval-coco", "--limit", "3"])
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["command_line"] == ["eval-coco", "--limit", "3"]
    assert document["packages"]["numpy"]
    assert document["cpu"]["processors_available"] == len(os.sched_getaffinity(0))


def test_only_listed_variables_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("A_PASSWORD", "secret")
    document = environment.collect_environment([])
    assert document["variables"]["OMP_NUM_THREADS"] == "2"
    assert "secret" not in json.dumps(document)


def test_both_onnxruntime_packages_at_once_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.31.1"}
    monkeypatch.setattr("trt_workbench.setup.doctor.installed_packages", lambda: both)
    found = {finding.component: finding for finding in examine()}
    assert found["ONNX Runtime"].state == "problem"
    assert "overwrite" in found["ONNX Runtime"].fix


def test_every_problem_has_a_mend() -> None:
    assert all(finding.fix for finding in examine() if finding.state != "ok")


def test_a_lost_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    for name, value in (("Init", None), ("Shutdown", None), ("SystemGetCudaDriverVersion_v2", 13000)):
        monkeypatch.setattr(pynvml, f"nvml{name}", lambda value=value: value)
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: "580.1")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lost)
    report = driver_report()
    assert report["gpus"] == []
    assert "GPU is lost" in report["error"]
    assert {finding.component: finding.state for finding in examine()}["NVIDIA driver"] == "absent"


def test_the_age_of_a_process_includes_the_start_of_its_interpreter() -> None:
    code = "from trt_workbench.core.start import process_age_s as age; print(age())"
    started = time.perf_counter()
    age_s = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert 0.01 < age_s < time.perf_counter() - started + 0.02


def test_the_driver_says_its_version_without_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_ROOT", tmp_path)
    monkeypatch.setattr(gpu, "driver_report", lambda: {"driver_version": "580.1"})
    assert gpu.driver_version() == "580.1"
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("590.2\n")
    assert gpu.driver_version() == "590.2"
