"""The grids that anchor-free YOLO heads predict on."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

# Three levels; with P6 for large inputs; with P2 for small objects.
_LEVELS = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32))


def cell_counts(height: int, width: int) -> dict[int, tuple[int, ...]]:
    """Return the strides that YOLO heads use, by the number of cells they give on an input of this size."""
    counts: dict[int, tuple[int, ...]] = {}
    for strides in _LEVELS:
        counts.setdefault(sum((height // stride) * (width // stride) for stride in strides), strides)
    return counts


@functools.lru_cache(maxsize=8)
def cells(height: int, width: int, strides: tuple[int, ...]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the top-left corner (x, y) of every cell in input pixels, float32 [A, 2], and its stride, float32 [A].

    Levels follow each other from the finest to the coarsest, each row by row. The arrays are shared: read-only.
    """
    corners, sizes = [], []
    for stride in strides:
        y, x = np.mgrid[: height // stride, : width // stride]
        corners.append(np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32) * stride)
        sizes.append(np.full(x.size, stride, np.float32))
    result = np.concatenate(corners), np.concatenate(sizes)
    for array in result:
        array.flags.writeable = False
    return result
