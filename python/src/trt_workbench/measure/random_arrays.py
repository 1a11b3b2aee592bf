"""Random inputs for an engine or a model: of its own shapes, or of those that are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.engine.loading import LoadedEngine
from trt_workbench.errors import UsageProblem
from trt_workbench.measure.inputs import random_inputs

Shapes = dict[str, tuple[int, ...]]


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
    arrays = drawn([spec for spec in specs if spec.name not in values], shapes, seed)
    for name, tensor in values.items():
        arrays[name] = _shape_values(tensor, shapes[name], profile or 0)
    return {spec.name: arrays[spec.name] for spec in specs}


def model_shapes(specs: Sequence[TensorSpec], asked: Mapping[str, tuple[int, ...]]) -> Shapes:
    """Return the shape of every input of a model: what is asked for, else its own, a dynamic batch being 1.

    Raises:
        UsageProblem: a name is unknown, or a dimension other than the first is dynamic and no shape is asked for.
    """
    names = [spec.name for spec in specs]
    if unknown := sorted(asked.keys() - set(names)):
        raise UsageProblem(f"The model has no input {unknown[0]!r}; it takes {', '.join(names)}.")
    shapes = {}
    for spec in specs:
        if spec.name not in asked and None in spec.shape[1:]:
            example = "x".join("8" if dim is None else str(dim) for dim in spec.shape)
            raise UsageProblem(
                f"Input {spec} is dynamic; give its shape, such as --shape {spec.name}:{example}, or an array."
            )
        shapes[spec.name] = asked.get(spec.name) or tuple(1 if dim is None else dim for dim in spec.shape)
    return shapes


def drawn(specs: Sequence[TensorSpec], shapes: Shapes, seed: int) -> dict[str, NDArray[Any]]:
    """Return one random array an input, as `random_inputs`, also of the types that numpy lacks."""
    arrays = random_inputs([_drawable(spec) for spec in specs], shapes, seed)
    for spec in specs:
        if arrays[spec.name].dtype.name != spec.dtype:
            import ml_dtypes

            arrays[spec.name] = arrays[spec.name].astype(getattr(ml_dtypes, spec.dtype))
    return arrays


def _drawable(spec: TensorSpec) -> TensorSpec:
    is_extension = spec.dtype.startswith(("bfloat", "float8"))
    return TensorSpec(spec.name, "float32", spec.shape) if is_extension else spec


def _shape_values(tensor: Any, shape: tuple[int, ...], profile: int) -> NDArray[Any]:
    if len(tensor.values) <= profile:
        raise UsageProblem(
            f"The values of {tensor.name} decide shapes and cannot be drawn; give them with --input {tensor.name}=FILE."
        )
    return np.array(tensor.values[profile][1], tensor.dtype).reshape(shape)
