"""NVIDIA's libraries of CUDA, as packages of Python bring them."""

from __future__ import annotations

from pathlib import Path

# From this major version of CUDA on its packages have no suffix (nvidia-cublas); cuDNN's keeps it.
_WITHOUT_SUFFIX = 13


def cuda_package(name: str, major: int) -> str:
    """Return the name of a package for a major version of CUDA."""
    return name if major >= _WITHOUT_SUFFIX else f"{name}-cu{major}"


def file_in_package(package: str, name: str) -> str | None:
    """Return the file `name` of a package; where several are installed, of the one that an import would find."""
    from importlib.metadata import distributions

    for distribution in distributions(name=package):
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if path.name == name and path.is_file():
                return str(path)
    return None


def mapped_file(name: str) -> str | None:
    """Return the file of a library that this process has opened, by how its name begins; None where it has not."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    return next((f"/{line.partition('/')[2]}" for line in lines if f"/{name}" in line), None)
