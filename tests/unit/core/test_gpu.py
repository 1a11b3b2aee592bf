"""Which GPU of NVML is meant by a CUDA device number."""

import pytest

from trt_workbench.core.gpu import nvml_name


@pytest.mark.parametrize(
    ("device", "visible", "name"),
    [
        (0, None, 0),
        (3, None, 3),
        (0, "2", 2),
        (1, "2, 0", 0),
        (1, "GPU-ab,GPU-cd", "GPU-cd"),
        (0, "", None),
        (0, "-1", None),
        (1, "1,-1,0", None),
        (2, "0,1", None),
    ],
)
def test_cuda_devices_by_their_visible_list(device: int, visible: str | None, name: int | str | None) -> None:
    assert nvml_name(device, visible) == name
