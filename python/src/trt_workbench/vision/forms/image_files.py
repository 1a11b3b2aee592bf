"""Which files of a folder are images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trt_workbench.engine.calibration import IMAGE_SUFFIXES


def is_image(name: str) -> bool:
    """Whether a file is an image by its name; hidden ones, as macOS leaves them in archives, are not."""
    return not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES


def images_below(folder: Path) -> Iterator[Path]:
    """Yield the images in a folder and below. Links are followed, each folder once."""
    seen = set()
    for here, below, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        below[:] = [name for name in below if not name.startswith(".")] if real not in seen else []
        if real not in seen:
            yield from (Path(here, name) for name in files if is_image(name))
        seen.add(real)
