"""JPEG files decoded on the GPU: NVIDIA's nvJPEG, found here and opened by the native core."""

from __future__ import annotations

from typing import Any

from trt_workbench.core.cuda_libraries import cuda_package, file_in_package
from trt_workbench.core.errors import ComponentMissing
from trt_workbench.engine import native

_MAJORS = (13, 12)
_PACKAGE = "nvidia-nvjpeg"


class GpuJpegDecoder:
    """Decodes on one GPU. Thread-safe.

    Attributes:
        version: such as "nvJPEG 12.4.0".
    """

    def __init__(self, device: int) -> None:
        """Open the first nvJPEG that serves the GPU.

        Raises:
            ComponentMissing: there is none, or the native core is absent or was built without CUDA.
            DeviceFailure: the device failed.
        """
        self._decoder = _opened(device)
        self.version = f"nvJPEG {self._decoder.version}"

    def __call__(self, file: bytes) -> Any:
        """Return the core's array, uint8 [height, width, 3] in BGR; None of a file that nvJPEG does not decode.

        Raises:
            DeviceFailure: the device failed.
        """
        with native.translated():
            return self._decoder(file)


def _opened(device: int) -> Any:
    decoder, refusals = native.require("JpegDecoder"), list[str]()
    major = _major_of_core()
    for library in _libraries(major):
        try:
            with native.translated():
                return decoder(library, device=device)
        except ComponentMissing as refusal:
            refusals.append(str(refusal).rstrip("."))
    raise ComponentMissing(
        f"JPEG files cannot be decoded on the device: {'; '.join(refusals)}. Run `pip install "
        f"{cuda_package(_PACKAGE, major)}`, or add the folder of libnvjpeg.so.{major} to LD_LIBRARY_PATH."
    )


def _major_of_core() -> int:
    return int(str(native.native().build_info().get("cuda") or _MAJORS[0]).partition(".")[0])


def _libraries(first: int) -> list[str]:
    """Return what to open, in order: files of Python's packages, then names for the loader to look up."""
    majors = sorted(_MAJORS, key=lambda major: major != first)
    names = [(cuda_package(_PACKAGE, major), f"libnvjpeg.so.{major}") for major in majors]
    found = [file for package, name in names if (file := file_in_package(package, name))]
    return [*found, *(name for _, name in names)]
