"""Which files of a folder are images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trt_workbench.core.input_files import files_below

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
"""Of images, in upper or lower case."""


def is_image(name: str, others: frozenset[str] = frozenset()) -> bool:
    """Whether a file is an image, or of other suffixes, by its name; hidden ones, as macOS leaves them, are not."""
    return not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES | others


def images_below(folder: Path) -> Iterator[Path]:
    """Yield the images in a folder and below, as `files_below` finds them."""
    return (path for path in files_below(folder) if is_image(path.name))
