import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime as ort
import pytest
from tests.texts import held

from trt_workbench.backends.ort import libraries as ort_libraries
from trt_workbench.backends.ort.common import CUDA_PROVIDER, TENSORRT_PROVIDER

VERSIONS = {"onnxruntime": "1.31.1", "cuda_of_wheel": "13.0"}


@pytest.mark.skipif(CUDA_PROVIDER in ort.get_available_providers(), reason="this ONNX Runtime has the provider")
@pytest.mark.parametrize("provider", [CUDA_PROVIDER, TENSORRT_PROVIDER])
def test_the_cpu_wheel_is_told_from_the_gpu_wheel(provider: str, gpus: Callable[..., None]) -> None:
    gpus("9.0")
    found = ort_libraries.gpu_availability(provider)
    assert not found.ok
    assert ort_libraries.FILES[provider] in found.reason
    assert "onnxruntime-gpu[cuda,cudnn]==1.31.1" in found.fix


GONE = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    "found",
    [
        {"library": f"libcudart.so.13: {GONE}"},
        {"library": f"libcudart.so.11.0: {GONE}"},
        {"library": f"libcublasLt.so.13: {GONE}"},
        {"library": f"libcudnn.so.9: {GONE}"},
        {"library": f"libnvrtc.so.13: {GONE}"},
        {"library": f"libnvinfer.so.10: {GONE}"},
        {"library": f"libnvonnxparser.so.10: {GONE}"},
        {"library": f"libcuda.so.1: {GONE}"},
        {"library": "x.so: undefined symbol: abc"},
        {"library": "libonnxruntime.so.1: cannot enable executable stack as shared object requires: Invalid argument"},
        {"cuda_error": 35, "cuda_error_text": "CUDA driver version is insufficient for CUDA runtime version"},
        {"cuda_error": 100, "cuda_error_text": "no CUDA-capable device is detected", "devices": 0},
        {"cuda_error": 0, "devices": 0},
        {"error": "no answer within 120 s"},
    ],
    ids=lambda found: " ".join(map(str, found.values()))[:40],
)
def test_the_reason_follows_from_what_failed(found: dict[str, Any]) -> None:
    """A library that was not found is never told as hardware that is missing."""
    answer = ort_libraries._judged(found, CUDA_PROVIDER, dict(VERSIONS))
    assert not answer.ok
    held(f"{answer.reason} {answer.fix}")
    hardware = "library" not in found or "libcuda.so" in found["library"]
    assert hardware or not re.search("driver|device|GPU", answer.reason.replace(ort_libraries.FILES[CUDA_PROVIDER], ""))


def test_without_a_gpu_that_is_the_reason_not_a_library(
    gpus: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_workbench.core.gpu._DEVICE_FILES", ())
    gpus()
    found = ort_libraries.gpu_availability(CUDA_PROVIDER)
    held(found.reason)
    assert found.fix.startswith("Install NVIDIA's driver")


def test_a_gpu_that_answers_is_available() -> None:
    found = {"cuda_error": 0, "devices": 1, "tensorrt": 101601}
    answer = ort_libraries._judged(found, TENSORRT_PROVIDER, dict(VERSIONS))
    assert answer.ok
    assert answer.versions["tensorrt"] == "101601"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc to make a library")
def test_the_probe_reads_the_missing_library_from_the_loader(tmp_path: Path) -> None:
    (tmp_path / "empty.c").write_text("")
    gone = tmp_path / "libnvinfer.so.10"
    shared = ["gcc", "-shared", "-fPIC", str(tmp_path / "empty.c")]
    subprocess.run([*shared, "-Wl,-soname,libnvinfer.so.10", "-o", str(gone)], check=True)
    needs = ["-Wl,--no-as-needed", str(gone)]
    subprocess.run([*shared, *needs, "-o", str(tmp_path / "libonnxruntime_providers_tensorrt.so")], check=True)
    subprocess.run([*shared, "-o", str(tmp_path / "libonnxruntime_providers_shared.so")], check=True)
    gone.unlink()
    found = ort_libraries.probe_provider(tmp_path, TENSORRT_PROVIDER)
    answer = ort_libraries._judged(found, TENSORRT_PROVIDER, dict(VERSIONS))
    assert answer.reason.startswith("libnvinfer.so.10 is missing")
    assert "build-ort" in answer.fix
