"""What this machine offers, in the terms of conda's virtual packages: subdir, glibc, CUDA driver, GPU architecture."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{MAJOR,MINOR} of cuda.h
_ARCHITECTURES = {"x86_64": "64", "amd64": "64", "arm64": "arm64"}


@dataclass(frozen=True)
class Machine:
    """The facts that decide whether an environment can run here; None where there is no such thing."""

    subdir: str
    glibc: str | None = None
    cuda_driver: str | None = None
    cuda_arch: str | None = None


def this_machine() -> Machine:
    """Look at this machine; CONDA_OVERRIDE_{GLIBC,CUDA,CUDA_ARCH} replace what is found, an empty value hides it."""
    system = {"linux": "linux", "darwin": "osx", "win32": "win"}.get(sys.platform, sys.platform)
    processor = platform.machine().lower()
    if system == "linux" and processor in {"arm64", "aarch64"}:
        processor = "aarch64"
    library, version = platform.libc_ver()
    driver, arch = _cuda()
    return Machine(
        subdir=f"{system}-{_ARCHITECTURES.get(processor, processor)}",
        glibc=_overridden("GLIBC", version if library == "glibc" else None),
        cuda_driver=_overridden("CUDA", driver),
        cuda_arch=_overridden("CUDA_ARCH", arch),
    )


def _overridden(name: str, found: str | None) -> str | None:
    return os.environ.get(f"CONDA_OVERRIDE_{name}", found) or None


def _cuda() -> tuple[str | None, str | None]:
    """Ask the driver for the CUDA version that it serves and the first GPU's compute capability."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, None
    number = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None, None
    version = f"{number.value // 1000}.{number.value % 1000 // 10}"
    parts = []
    for attribute in (_MAJOR, _MINOR):
        if driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0) != 0:
            return version, None
        parts.append(number.value)
    return version, f"{parts[0]}.{parts[1]}"
