"""State of an engine: outputs that stay on the device and feed an input of the next call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.array_files import numpy_dtype
from trt_workbench.core.errors import UsageProblem


def initial_state(specs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
    """Return the zeros that state inputs start from, by name.

    Args:
        specs: the session's state inputs.

    Raises:
        UsageProblem: a state has a dynamic shape, so that how it starts is unknown.
    """
    zeros: dict[str, NDArray[Any]] = {}
    for spec in specs:
        shape = tuple(dim for dim in spec.shape if dim is not None)
        if len(shape) != len(spec.shape):
            raise UsageProblem(
                f"State starts from zeros here, and the shape of input {spec} is dynamic. "
                "Build the engine with a fixed shape of it."
            )
        zeros[spec.name] = np.zeros(shape, numpy_dtype(spec.dtype))
    return zeros
