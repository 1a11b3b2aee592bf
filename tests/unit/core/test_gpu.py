"""Which GPU of NVML is meant by a CUDA device number, and what the kernel says of a card that NVML does not show."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.in_app import trtw
from tests.texts import held

from trt_workbench.core import gpu
from trt_workbench.core.gpu import driver_report, no_gpu, nvml_name, why_no_gpu
from trt_workbench.setup.doctor import examine

# /proc/driver/nvidia/version as machines have it: Ubuntu 22.04 on a rented card, and an RTX 50 laptop whose kernel said
# "installed in this system requires use of the NVIDIA open kernel modules".
OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3-B17-02-5)  \
Tue Sep 23 09:55:41 UTC 2025
GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04.2)
"""
PROPRIETARY = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08  Wed Oct 29 23:15:11 UTC 2025
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""
NO_LIBRARY = {"error": "no NVIDIA driver answers (NVML Shared Library Not Found)", "gpus": []}
NO_MODULE = {"error": "no NVIDIA driver answers (Driver Not Loaded)", "gpus": []}
OTHER_VERSION = {"error": "no NVIDIA driver answers (Driver/library version mismatch)", "gpus": []}
NONE_SHOWN = {"driver_version": "580.105.08", "cuda_driver_version": "13.0", "gpus": []}


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


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The files of a kernel: an Intel and an NVIDIA card with its sound, and what the test asks for."""
    monkeypatch.setattr(gpu, "_ROOT", tmp_path)

    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="latin-1")

    def set_up(module: str = "", driver: str = "", secure_boot: int | None = None, card: str = "0x030000") -> None:
        for address, vendor, kind in (
            ("0000:00:02.0", "0x8086", "0x030000"),
            ("0000:01:00.1", "0x10de", "0x040300"),
            ("0000:02:00.0", "0x10de", card),
        ):
            write(f"sys/bus/pci/devices/{address}/vendor", f"{vendor}\n")
            write(f"sys/bus/pci/devices/{address}/class", f"{kind}\n")
        if module:
            write("proc/driver/nvidia/version", module)
        if driver:
            (tmp_path / "sys/bus/pci/drivers" / driver).mkdir(parents=True)
            (tmp_path / "sys/bus/pci/devices/0000:02:00.0/driver").symlink_to(f"../../drivers/{driver}")
        if secure_boot is not None:
            name = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
            write(f"sys/firmware/efi/efivars/{name}", f"\x06\0\0\0{chr(secure_boot)}")

    return set_up


@pytest.mark.parametrize(
    ("report", "more"),
    [
        pytest.param(NONE_SHOWN, {"module": PROPRIETARY}, id="wrong flavour"),
        pytest.param(NONE_SHOWN, {"module": OPEN, "card": "0x030200"}, id="right flavour, and no card answers"),
        pytest.param(OTHER_VERSION, {"module": PROPRIETARY}, id="library of an update"),
        pytest.param(NO_LIBRARY, {"module": OPEN}, id="container without access"),
        pytest.param(NO_LIBRARY, {"driver": "nouveau"}, id="nothing installed"),
        pytest.param(NO_MODULE, {"secure_boot": 1}, id="module refused by Secure Boot"),
        pytest.param(NO_MODULE, {"secure_boot": 0}, id="module of another kernel"),
        pytest.param(NO_LIBRARY, {"card": "0x040300"}, id="no card"),
    ],
)
def test_why_no_card_answers(kernel: Callable[..., None], report: dict[str, object], more: dict[str, object]) -> None:
    kernel(**more)
    held("\n".join(no_gpu(report)))


def test_doctor_and_backends_say_it(
    kernel: Callable[..., None], gpus: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus()
    kernel(PROPRIETARY)
    (row,) = [one for one in examine() if one.component == "NVIDIA driver"]
    assert (row.state, trtw("doctor").exit_code) == ("problem", 3)
    assert "proprietary kernel module 580.105.08" in row.found
    assert "nvidia:580-open" in row.fix
    found = why_no_gpu(driver_report())
    assert found is not None
    assert "nvidia:580-open" in found[1]
    assert "nvidia:580-open" in trtw("backends").stdout.replace("\n", " ")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = why_no_gpu(driver_report())
    assert found is not None
    assert "CUDA_VISIBLE_DEVICES" in found[0]
    assert "driver" not in found[1]
