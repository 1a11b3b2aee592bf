"""TensorRT 8.6.0 from PyPI: the newest version whose complete libraries are one plain wheel there."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path, PurePosixPath
from typing import Literal

from trt_workbench.errors import ComponentMissing
from trt_workbench.system.interpreter import python_command
from trt_workbench.system.tensorrt_sources import Source

WHEEL_KIND: Literal["pypi-8.6.0"] = "pypi-8.6.0"
WHEEL_VERSION = "8.6.0"
WHEEL = f"tensorrt=={WHEEL_VERSION}"
LIBRARIES = (
    "libnvinfer.so.8",
    "libnvinfer_builder_resource.so.8.6.0",
    "libnvinfer_plugin.so.8",
    "libnvonnxparser.so.8",
)


def download_wheel(folder: Path) -> Source:
    """Download the wheel with pip and unpack its four libraries into `folder`.

    Raises:
        ComponentMissing: pip is absent or could not download, or the wheel lacks a library.
    """
    download = folder / "wheel"
    # The wheel is for CPython 3.10; only its shared libraries are used, so any Python may download it.
    target = ["--python-version", "3.10", "--implementation", "cp", "--abi", "none"]
    command = python_command("-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", *target)
    command += ["--platform", "manylinux_2_17_x86_64", "-d", str(download), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(download.glob("tensorrt-*.whl"))
    if done.returncode or not wheels:
        lines = done.stderr.strip().splitlines() or ["no wheel arrived"]
        msg = f"pip could not download {WHEEL} ({lines[-1]}). Name an installed TensorRT with --from DIR instead."
        raise ComponentMissing(msg)
    unpack_libraries(wheels[0], folder / "lib")
    shutil.rmtree(download)
    return Source(WHEEL_KIND, folder / "lib", copy=True)


def unpack_libraries(wheel: Path, destination: Path) -> None:
    """Unpack the libraries from `wheel` into `destination`, by file name alone.

    Raises:
        ComponentMissing: one of them is not in the wheel.
    """
    destination.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        members = {PurePosixPath(name).name: name for name in archive.namelist()}
        if missing := [name for name in LIBRARIES if name not in members]:
            msg = f"The wheel lacks {', '.join(missing)}: {wheel}"
            raise ComponentMissing(msg)
        for name in LIBRARIES:
            with archive.open(members[name]) as source, (destination / name).open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
