"""Opening the CUDA libraries that came as Python packages, which are on no search path of the loader.

ONNX Runtime's own `preload_dlls` looks beside itself alone. Where packages lie in several folders it misses them and
takes the system's cuDNN, and a PyTorch that is imported later refuses to work with an older one than its own.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from trt_workbench.backends.ort.common import cuda_major

# From this major version of CUDA on its packages have no suffix (nvidia-cublas); cuDNN's keeps it.
_WITHOUT_SUFFIX = 13


def preload(ort: Any) -> None:
    """Open the libraries that the CUDA provider of the module onnxruntime `ort` links, unless they are open already.

    A library that is nowhere is left to the loader's own message, which `availability` reports.
    """
    for file in library_files(ort):
        try:
            # another copy of a library that is open would be a second runtime in the process
            ctypes.CDLL(Path(file).name, mode=os.RTLD_NOLOAD)
        except OSError:
            try:
                ctypes.CDLL(file)
            except OSError:
                continue


def library_files(ort: Any) -> list[str]:
    """Return what to open, in order: the file in a Python package, else the name for the loader to look up."""
    major = cuda_major(ort)
    if major is None:
        return []
    return [_in_package(package, name) or name for package, name in _wanted(major)]


def _wanted(major: int) -> Iterator[tuple[str, str]]:
    """Yield the package and name of each library, those that others need first."""
    suffix = "" if major >= _WITHOUT_SUFFIX else f"-cu{major}"
    yield f"nvidia-cuda-runtime{suffix}", f"libcudart.so.{major}"
    yield f"nvidia-nvjitlink{suffix}", f"libnvJitLink.so.{major}"
    yield f"nvidia-cublas{suffix}", f"libcublasLt.so.{major}"
    yield f"nvidia-cublas{suffix}", f"libcublas.so.{major}"
    yield f"nvidia-cuda-nvrtc{suffix}", f"libnvrtc.so.{major}"
    yield f"nvidia-curand{suffix}", "libcurand.so.10"
    yield f"nvidia-cufft{suffix}", f"libcufft.so.{major - 1}"
    # its other libraries are opened by this one, from its own folder
    yield f"nvidia-cudnn-cu{major}", "libcudnn.so.9"


def _in_package(package: str, name: str) -> str | None:
    """Return the file `name` of a package; where several are installed, of the one that an import would find."""
    for distribution in distributions(name=package):
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if path.name == name and path.is_file():
                return str(path)
    return None
