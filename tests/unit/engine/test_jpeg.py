"""nvJPEG is found in Python's packages or by the loader, and a decoder says what is missing."""

from typing import Any

import cv2
import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.core.errors import ComponentMissing, OutOfMemory
from trt_workbench.engine import jpeg, native
from trt_workbench.engine.jpeg import GpuJpegDecoder

pytestmark = pytest.mark.usefixtures("doubled_core")


def test_a_library_that_is_not_there_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg, "file_in_package", lambda *_: None)
    with refused(ComponentMissing):
        GpuJpegDecoder(0)


def test_packages_come_before_the_loader_and_the_cores_version_of_cuda_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Picky(native.require("JpegDecoder")):  # type: ignore[misc]
        def __init__(self, library: str, *, device: int) -> None:
            asked.append(library)
            if len(asked) < 4:
                raise native.require("ComponentMissing")(f"{library} does not serve this GPU.")
            self.device = device

    monkeypatch.setattr(native.native(), "JpegDecoder", Picky)
    monkeypatch.setattr(jpeg, "file_in_package", lambda package, name: f"/{package}/{name}")
    monkeypatch.setattr(native.native(), "build_info", lambda: {"cuda": "12.8"})
    decoder = GpuJpegDecoder(3)
    assert asked == [
        "/nvidia-nvjpeg-cu12/libnvjpeg.so.12",
        "/nvidia-nvjpeg/libnvjpeg.so.13",
        "libnvjpeg.so.12",
        "libnvjpeg.so.13",
    ]
    assert (decoder.version, decoder._decoder.device) == ("nvJPEG 12.4.0", 3)


def test_pixels_come_back_and_failures_are_the_workbenchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_JPEG", "0")
    decoder = GpuJpegDecoder(0)
    pixels = np.full((9, 7, 3), 100, np.uint8)
    np.testing.assert_array_equal(decoder(cv2.imencode(".jpg", pixels)[1].tobytes()).numpy(), pixels)

    def fail(*_: Any) -> None:
        raise native.require("OutOfMemory")("nvjpegDecode: out of memory")

    monkeypatch.setattr(decoder, "_decoder", fail)
    with pytest.raises(OutOfMemory):
        decoder(b"")
