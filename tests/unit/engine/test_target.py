"""What is told of a GPU or a TensorRT that cannot be used."""

from pathlib import Path
from typing import Any

import pytest

from trt_workbench.engine import native
from trt_workbench.engine.target import examine_target


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        ({"error": "no NVIDIA driver answers", "gpus": []}, "used: no NVIDIA driver answers. Install NVIDIA's driver"),
        (
            {"driver_version": "535.1", "cuda_driver_version": "12.2", "gpus": []},
            "the driver supports CUDA up to 12.2, but the native core was built with CUDA 13.0. "
            "Install NVIDIA's driver for CUDA 13.0 (580 or newer for CUDA 13).",
        ),
    ],
)
def test_cuda_has_one_error_for_no_driver_and_an_old_one(
    native_double: Any, monkeypatch: pytest.MonkeyPatch, driver: dict[str, Any], text: str
) -> None:
    native_double.cuda_status = lambda: {"ok": False, "error": "cudaErrorInsufficientDriver: CUDA driver version is"}
    monkeypatch.setattr("trt_workbench.engine.target.driver_report", lambda: driver)
    (missing,) = examine_target().missing
    assert text in str(missing)


def test_only_the_chosen_device_is_asked(native_double: Any) -> None:
    """A context on each of eight GPUs takes seconds."""
    asked: list[Any] = []
    native_double.cuda_status = lambda: {"ok": True, "device_count": 8, "error": None}
    native_double.devices = lambda only: (
        asked.append(only) or [{"name": "G", "uuid": "GPU-3", "compute_capability": "9.0"}] if only < 8 else []
    )
    assert examine_target(3).gpu_uuid == "GPU-3"
    assert asked == [3]
    (missing,) = examine_target(8).missing
    assert str(missing) == "CUDA device 8 does not exist; this process sees 8 devices. Use --device 0."


@pytest.mark.parametrize(
    ("library", "error", "text"),
    [
        (
            "libnvinfer.so.10",
            "libnvinfer (TensorRT) could not be opened: no such file. Run `setup-tensorrt`, or name the folder",
            "built for TensorRT 8.6.0 and must be rebuilt for {folder}/libnvinfer.so.10. Build it:",
        ),
        (
            "libnvinfer.so.8",
            "libnvinfer is TensorRT 8.6.1, but the core was built with 8.5.0. Rebuild the core (`build-native`).",
            "Rebuild the core (`build-native`). Build it: `pip install ./cpp`.",
        ),
        (
            "libnvinfer.so.8",
            "libnvinfer (TensorRT) could not be opened: libcudart. Run `setup-tensorrt`, or name the folder",
            "could not be opened: libcudart. Run `trtw setup-tensorrt`",
        ),
    ],
)
def test_the_mend_of_a_tensorrt_that_does_not_fit(
    native_double: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str, error: str, text: str
) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / library).touch()
    monkeypatch.setenv("TENSORRT_HOME", str(tmp_path))
    native_double.tensorrt_status = lambda _: {"available": False, "version": None, "headers": "8.6.0", "error": error}
    native_double.build_info = lambda: {"version": "0.1.0", "cuda": "13.0", "tensorrt_headers": "8.6.0"}
    (missing,) = examine_target().missing
    assert text.format(folder=folder) in str(missing)
    state, found, fix = native.examine_core()
    assert state == "problem"
    assert f"{found} {fix}".endswith(str(missing).removeprefix("TensorRT cannot be used: "))
