"""Outputs of a model in a file, for another process to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.engine.array_files import load_arrays


def write_outputs(path: Path, outputs: Mapping[str, NDArray[Any]]) -> None:
    """Write outputs by name. Raises OSError."""
    plain = {f"{place}": np.asarray(array, _plain(array.dtype)) for place, array in enumerate(outputs.values())}
    with path.open("wb") as file:
        np.savez(file, names=np.array(list(outputs)), **plain)  # type: ignore[arg-type]


def read_outputs(path: Path) -> dict[str, NDArray[Any]]:
    """Return what `write_outputs` wrote. Raises UsageProblem if it cannot be read."""
    arrays = load_arrays(path)
    return {str(name): arrays[f"{place}"] for place, name in enumerate(arrays["names"])}


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type that numpy can write: ml_dtypes' become float32."""
    return dtype if dtype.kind in "biufc" else np.dtype(np.float32)
