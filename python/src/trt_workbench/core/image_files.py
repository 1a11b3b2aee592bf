"""Which files of a folder are images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
"""Of images, in upper or lower case."""


def is_image(name: str, others: frozenset[str] = frozenset()) -> bool:
    """Whether a file is an image, or of other suffixes, by its name; hidden ones, as macOS leaves them, are not."""
    return not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES | others


def images_below(folder: Path) -> Iterator[Path]:
    """Yield the images in a folder and below. Links are followed, each folder once."""
    seen = set()
    for here, below, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        below[:] = [name for name in below if not name.startswith(".")] if real not in seen else []
        if real not in seen:
            yield from (Path(here, name) for name in files if is_image(name))
        seen.add(real)
