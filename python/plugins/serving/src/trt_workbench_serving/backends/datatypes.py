"""The protocol's names of element types, and tensors as it sends them: bytes, or lists of JSON numbers."""

from __future__ import annotations

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


def require_json(kind: np.dtype[Any]) -> None:
    """Raise UsageProblem for a type that JSON cannot hold."""
    if kind.name in _ONLY_BINARY:
        raise UsageProblem(
            f"The server takes tensors only as JSON, which has no form for {kind.name}; use its gRPC port."
        )


def from_numbers(name: str, data: Any, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    """Return an output that came as a list, flat or nested. Raises DeviceFailure if it is not what it says."""
    kind = numpy_dtype(dtype)
    try:
        came = np.array(data)
        if came.dtype.kind == "f" and kind.kind in "iu":  # whole numbers above 2^53 stay as they are
            came = np.array(data, object)
        if wrong := _no_numbers(came, kind):
            raise TypeError(f"it holds {wrong[0]!r}")
        with np.errstate(over="ignore", invalid="ignore"):  # infinity, which is looked for in every output
            found = came.astype(kind).reshape(tuple(shape))
    except (TypeError, ValueError, OverflowError) as error:
        raise _broken(name, dtype, shape, str(error)) from error
    if kind.kind in "biu" and (other := came.reshape(-1)[found.reshape(-1) != came.reshape(-1)]).size:
        raise _broken(name, dtype, shape, f"it holds {other[0]}")
    return found


def _no_numbers(came: NDArray[Any], kind: np.dtype[Any]) -> list[Any]:
    """Return what is no number among what JSON held: texts, nulls and objects, or truth values of another type."""
    if came.dtype.kind == "O":
        return [one for one in came.flat if type(one) not in (int, float)]
    return came.reshape(-1)[:1].tolist() if came.dtype.kind == "U" or (came.dtype.kind == "b" != kind.kind) else []


def _broken(name: str, dtype: str, shape: Sequence[int], reason: str) -> DeviceFailure:
    return DeviceFailure(f"The server's output {name} is not the {dtype} {list(shape)} that it says: {reason}.")
