"""Reading `.npy` and `.npz` files, without pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.errors import UsageProblem

ARRAY_SUFFIXES = (".npy", ".npz")


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays in a `.npz` file, or the one in a `.npy` file under the name "".

    Raises:
        UsageProblem: it is neither, is truncated, or holds Python objects, which are never loaded.
    """
    if path.suffix not in ARRAY_SUFFIXES:
        msg = f"Arrays are read from .npy and .npz files, not from this one: {path}"
        raise UsageProblem(msg)
    try:
        # opened here: numpy leaves the file open where a damaged archive makes it fail
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            with loaded:
                return {name: loaded[name] for name in loaded.files}
    except Exception as error:  # zip, zlib, struct and numpy each have their own for a damaged file
        msg = f"The file cannot be read as arrays ({error}): {path}"
        raise UsageProblem(msg) from error


def count_rows(path: Path) -> int:
    """Return the length of the first axis of the array in a `.npy` file, or of the first one in a `.npz` file.

    Raises:
        UsageProblem: as `load_arrays`, or the array is a scalar.
    """
    first: NDArray[Any] | None
    try:
        first = np.lib.format.open_memmap(path, mode="r") if path.suffix == ".npy" else None
    except (ValueError, OSError, EOFError) as error:
        msg = f"The file cannot be read as arrays ({error}): {path}"
        raise UsageProblem(msg) from error
    if first is None:
        first = next(iter(load_arrays(path).values()), None)
    if first is None or first.ndim == 0:
        msg = f"The file holds no array with samples along its first axis: {path}"
        raise UsageProblem(msg)
    return len(first)
