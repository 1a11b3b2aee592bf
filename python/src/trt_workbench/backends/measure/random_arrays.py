"""Random inputs for an engine: of its own shapes, or of those that are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.inputs import random_inputs
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.loading import LoadedEngine

Shapes = dict[str, tuple[int, ...]]
SHAPE_HINT = "give its shape, such as --shape {input}:{shape}"


def engine_shapes(loaded: LoadedEngine, asked: Mapping[str, tuple[int, ...]], profile: int | None) -> Shapes:
    """Return the shape of every input: what is asked for, else the one that the profile is tuned for.

    Raises:
        UsageProblem: a name is unknown, or the profile does not exist.
    """
    inputs = {tensor.name: tensor for tensor in loaded.engine.inputs}
    if unknown := sorted(asked.keys() - inputs.keys()):
        raise UsageProblem(f"The engine has no input {unknown[0]!r}; it takes {', '.join(inputs)}.")
    count = loaded.engine.num_profiles
    if profile is not None and not 0 <= profile < max(1, count):
        raise UsageProblem(f"The engine has {count} profiles, counted from 0; there is no profile {profile}.")
    shapes = {}
    for name, tensor in inputs.items():
        if name in asked:
            shapes[name] = asked[name]
        elif min(tensor.shape, default=0) >= 0:
            shapes[name] = tuple(tensor.shape)
        else:
            shapes[name] = tuple(tensor.profiles[profile or 0][1])
    return shapes


def engine_inputs(
    loaded: LoadedEngine, specs: Sequence[TensorSpec], shapes: Shapes, seed: int, profile: int | None = None
) -> dict[str, NDArray[Any]]:
    """Return one random array an input; a shape tensor gets the values that the profile is tuned for.

    Args:
        loaded: the engine.
        specs: the session's inputs.
        shapes: of every input.
        seed: the same seed gives the same arrays.
        profile: of the values; None for the first.

    Raises:
        UsageProblem: an input cannot be made at random.
    """
    names = {spec.name for spec in specs}
    values = {tensor.name: tensor for tensor in loaded.engine.inputs if tensor.is_shape_tensor and tensor.name in names}
    arrays = random_inputs([spec for spec in specs if spec.name not in values], shapes, seed)
    for name, tensor in values.items():
        arrays[name] = _shape_values(tensor, shapes[name], profile or 0)
    return {spec.name: arrays[spec.name] for spec in specs}


def _shape_values(tensor: Any, shape: tuple[int, ...], profile: int) -> NDArray[Any]:
    if len(tensor.values) <= profile:
        raise UsageProblem(
            f"The values of {tensor.name} decide shapes and cannot be drawn; give them with --input {tensor.name}=FILE."
        )
    return np.array(tensor.values[profile][1], tensor.dtype).reshape(shape)
