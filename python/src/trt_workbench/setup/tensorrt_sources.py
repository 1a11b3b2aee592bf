"""Where an installed TensorRT may lie: unpacked archives, Debian packages, NGC containers, conda-forge, wheels."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_there
from trt_workbench.engine.tensorrt import find_library

# Below the folder that the user names: tar archives, Debian's multiarch folders, NGC containers, conda-forge.
_LIBRARY_FOLDERS = (
    "lib",
    "lib64",
    "targets/x86_64-linux-gnu/lib",
    "targets/x86_64-linux/lib",
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "",
)
_HEADER_FOLDERS = (
    "include",
    "targets/x86_64-linux-gnu/include",
    "targets/x86_64-linux/include",
    "include/x86_64-linux-gnu",
    "usr/include/x86_64-linux-gnu",
    "usr/include",
    "",
)
_TOOL_FOLDERS = ("bin", "targets/x86_64-linux-gnu/bin", "src/tensorrt/bin", "usr/src/tensorrt/bin", "tensorrt/bin", "")
# Folders of wheels that hold shared libraries; `tensorrt` itself did up to 8.6.0.
_WHEEL_FOLDERS = ("tensorrt_libs", "tensorrt_cu13_libs", "tensorrt_cu12_libs", "tensorrt")


@dataclass(frozen=True)
class Source:
    """A place that holds TensorRT's libraries, and perhaps headers and trtexec.

    Attributes:
        kind: "folder", "conda-forge", "wheels", "pinned" or "pypi-8.6.0".
        libraries: folder with `libnvinfer.so.N`.
        headers: folder with `NvInferVersion.h`; None where there is none.
        trtexec: the tool; None where there is none.
        copy: whether files must be copied because the place does not last.
    """

    kind: str
    libraries: Path
    headers: Path | None = None
    trtexec: Path | None = None
    copy: bool = False


def source_in(folder: Path, kind: str = "folder", *, copy: bool = False) -> Source | None:
    """Return the TensorRT under `folder`, whatever its layout; None if there is no libnvinfer."""
    libraries = _first(folder, _LIBRARY_FOLDERS, lambda path: find_library(path, "libnvinfer") is not None)
    if libraries is None:
        return None
    headers = _first(folder, _HEADER_FOLDERS, lambda path: (path / "NvInferVersion.h").is_file())
    tools = _first(folder, _TOOL_FOLDERS, lambda path: os.access(path / "trtexec", os.X_OK))
    return Source(kind, libraries, headers, tools / "trtexec" if tools else None, copy)


def require_source(folder: Path) -> Source:
    """Return the TensorRT under the folder that the user named.

    Raises:
        UsageProblem: there is no libnvinfer in any known layout.
    """
    require_there("folder", folder)
    if found := source_in(folder):
        return found
    places = ", ".join(place or "." for place in _LIBRARY_FOLDERS)
    raise UsageProblem(
        f"No libnvinfer.so.N was found (searched {places}); name the folder that TensorRT was unpacked to: {folder}"
    )


def installed_sources() -> Iterator[Source]:
    """Yield what the active environment holds: conda-forge's packages, then TensorRT's wheels."""
    if prefix := os.environ.get("CONDA_PREFIX"):
        root = Path(prefix)
        libraries = _first(root, _LIBRARY_FOLDERS[:3], lambda path: find_library(path, "libnvinfer") is not None)
        if libraries:
            yield source_in(root, "conda-forge") or Source("conda-forge", libraries)
    for entry in dict.fromkeys(sys.path):
        for name in _WHEEL_FOLDERS:
            folder = Path(entry) / name
            if entry and find_library(folder, "libnvinfer"):
                yield Source("wheels", folder)


def _first(folder: Path, places: tuple[str, ...], fits: Callable[[Path], bool]) -> Path | None:
    return next((folder / place for place in places if fits(folder / place)), None)
