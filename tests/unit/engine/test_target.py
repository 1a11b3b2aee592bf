"""What is told of a GPU that cannot be used. CUDA has one error for no driver and for one that is too old."""

from typing import Any

import pytest

from trt_workbench.engine.target import examine_target


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        ({"error": "no NVIDIA driver answers", "gpus": []}, "used: no NVIDIA driver answers. Install NVIDIA's driver"),
        (
            {"driver_version": "535.1", "cuda_driver_version": "12.2", "gpus": []},
            "the driver serves CUDA up to 12.2, and the native core was built with CUDA 13.0. Install a newer NVIDIA",
        ),
    ],
)
def test_a_driver_that_is_not_enough(
    native_double: Any, monkeypatch: pytest.MonkeyPatch, driver: dict[str, Any], text: str
) -> None:
    native_double.cuda_status = lambda: {"ok": False, "error": "cudaErrorInsufficientDriver: CUDA driver version is"}
    monkeypatch.setattr("trt_workbench.engine.target.driver_report", lambda: driver)
    (missing,) = examine_target().missing
    assert text in str(missing)
