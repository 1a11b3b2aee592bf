"""The protocol's names of element types, and tensors as it sends them: bytes, or lists of JSON numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.array_files import numpy_dtype
from trt_workbench.core.errors import DeviceFailure, UsageProblem

_KINDS = (
    np.dtype(np.bool_),
    *(np.dtype(f"{kind}{size}") for kind in "ui" for size in (1, 2, 4, 8)),
    *(np.dtype(f"f{size}") for size in (2, 4, 8)),
    numpy_dtype("bfloat16"),
)
NUMPY = {kind.name.upper().replace("FLOAT", "FP").replace("BFP", "BF"): kind.name for kind in _KINDS}
"""NumPy's name of each type that holds numbers."""
PROTOCOL = {name: datatype for datatype, name in NUMPY.items()}
"""The protocol's name of each of NumPy's."""
# JSON has no form for floats of two bytes.
_ONLY_BINARY = tuple(kind.name for kind in _KINDS if kind.kind not in "biu" and kind.itemsize == 2)


def as_numbers(array: NDArray[Any]) -> list[Any]:
    """Return an array as JSON's flat list. Raises UsageProblem for a type that JSON cannot hold."""
    if array.dtype.name in _ONLY_BINARY:
        raise UsageProblem(
            f"The server takes tensors as JSON alone, which has no form for {array.dtype.name}; use its gRPC port."
        )
    found: list[Any] = array.reshape(-1).tolist()
    return found


def from_numbers(name: str, data: Any, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    """Return an output that came as a list, flat or nested. Raises DeviceFailure if it is not what it says."""
    try:
        with np.errstate(over="ignore"):  # infinity, which is looked for in every output
            found = np.array(data, numpy_dtype(dtype)).reshape(tuple(shape))
    except (TypeError, ValueError, OverflowError) as error:
        raise _broken(name, dtype, shape, str(error)) from error
    return found


def from_bytes(name: str, data: bytes | memoryview, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    """Return an output that came as bytes, as an array of its own. Raises DeviceFailure if it is not what it says."""
    kind = numpy_dtype(dtype)
    if min(shape, default=0) < 0 or len(data) != math.prod(shape) * kind.itemsize:
        raise _broken(name, dtype, shape, f"{len(data)} bytes came")
    return np.frombuffer(data, kind).reshape(tuple(shape)).copy()


def _broken(name: str, dtype: str, shape: Sequence[int], reason: str) -> DeviceFailure:
    return DeviceFailure(f"The server's output {name} is not the {dtype} {list(shape)} that it says: {reason}.")
