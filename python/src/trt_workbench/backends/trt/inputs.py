"""Inputs to run an engine with: random, of the requested shapes, else of those that a profile is tuned for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.inputs import limited, random_inputs
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.loading import LoadedEngine


def engine_inputs(
    loaded: LoadedEngine,
    specs: Sequence[TensorSpec],
    model: Path,
    seed: int,
    *,
    asked: Mapping[str, tuple[int, ...]] | None = None,
    profile: int | None = None,
) -> dict[str, NDArray[Any]]:
    """Return one random array an input; a shape tensor gets the values that the profile is tuned for.

    Args:
        loaded: the engine.
        specs: the session's inputs.
        model: what was named: the ONNX file limits whole numbers, which a plan does not.
        seed: the same seed gives the same arrays.
        asked: shapes by input; those that the profile is tuned for by default.
        profile: of shapes and values; None for the first.

    Raises:
        UsageProblem: a name is unknown, the profile does not exist, or an input cannot be made at random.
    """
    shapes = _shapes(loaded, asked or {}, profile)
    names = {spec.name for spec in specs}
    values = {tensor.name: tensor for tensor in loaded.engine.inputs if tensor.is_shape_tensor and tensor.name in names}
    arrays = random_inputs([spec for spec in limited(specs, model) if spec.name not in values], shapes, seed)
    for name, tensor in values.items():
        arrays[name] = _shape_values(tensor, shapes[name], profile or 0)
    return {spec.name: arrays[spec.name] for spec in specs}


def _shapes(
    loaded: LoadedEngine, asked: Mapping[str, tuple[int, ...]], profile: int | None
) -> dict[str, tuple[int, ...]]:
    inputs = {tensor.name: tensor for tensor in loaded.engine.inputs}
    if unknown := sorted(asked.keys() - inputs.keys()):
        raise UsageProblem(f"The engine has no input {unknown[0]!r}; it takes {', '.join(inputs)}.")
    count = loaded.engine.num_profiles
    if profile is not None and not 0 <= profile < max(1, count):
        raise UsageProblem(
            f"Profile {profile} does not exist: the engine has {counted(count, 'profile')}, counted from 0."
        )
    shapes = {}
    for name, tensor in inputs.items():
        if name in asked:
            shapes[name] = asked[name]
        elif min(tensor.shape, default=0) >= 0:
            shapes[name] = tuple(tensor.shape)
        else:
            shapes[name] = tuple(tensor.profiles[profile or 0][1])
    return shapes


def _shape_values(tensor: Any, shape: tuple[int, ...], profile: int) -> NDArray[Any]:
    if len(tensor.values) <= profile:
        raise UsageProblem(
            f"The values of {tensor.name} decide shapes and cannot be random; pass them with --input "
            f"{tensor.name}=FILE."
        )
    return np.array(tensor.values[profile][1], tensor.dtype).reshape(shape)
