"""Whether a contract contradicts the model or engine that it is about: every contradiction in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trt_workbench.engine.profiles import Profile
from trt_workbench.onnxtools.preflight import ModelTensor
from trt_workbench.pipeline.streaming.contract import Contract
from trt_workbench.pipeline.streaming.model_tensors import ModelTensors
from trt_workbench.pipeline.streaming.parts import TensorOf
from trt_workbench.pipeline.streaming.static_check import chunk_points, corners, near

Points = list[tuple[str, dict[str, int]]]
_NARROWED = {"int64": "int32", "float64": "float32"}


def disagreements(contract: Contract, model: ModelTensors) -> list[str]:
    """Return where a contract and a model contradict one another.

    Sizes are compared at the smallest, best-tuned and largest symbols of every profile, and at both chunks; at symbols
    that contradict one another nothing is.
    """
    try:
        points = [*corners(contract), *((f"the {word}", values) for word, _, values in chunk_points(contract))]
        for _, values in points:
            for name in contract.tensors:
                contract.shape(name, values)
    except (ValueError, LookupError):
        points = []  # the contract contradicts itself, which is said by itself
    found = [
        *_names(contract.inputs, model.inputs, "input"),
        *_names(contract.outputs, model.outputs, "output"),
        *_tensors(contract, model, points),
        *_same_symbols(contract, model, points),
        *_profiles(contract, model, points),
    ]
    return list(dict.fromkeys(found))


def _names(said: Mapping[str, TensorOf], there: Mapping[str, ModelTensor], kind: str) -> Iterator[str]:
    for name in said:
        if name not in there:
            yield f"the model has no {kind} {name}{near(name, there)}"
    for name in there:
        if name not in said:
            yield f"the contract lacks the model's {kind} {name}{near(name, said)}"


def _tensors(contract: Contract, model: ModelTensors, points: Points) -> Iterator[str]:
    for name, there in {**model.inputs, **model.outputs}.items():
        if (said := contract.tensors.get(name)) is None:
            continue
        allowed = {said.dtype, _NARROWED.get(said.dtype, said.dtype)} if model.narrows else {said.dtype}
        if there.dtype not in allowed:
            yield f"{name} is {there.dtype} in the model and {said.dtype} in the contract"
        if there.shape is None:
            continue
        if len(there.shape) != len(said.shape):
            yield f"{name} has {len(there.shape)} dimensions in the model and {len(said.shape)} in the contract"
            continue
        for axis, (dim, size) in enumerate(zip(said.shape, there.shape, strict=True)):
            if isinstance(size, int):
                for where, values in points:
                    if (wanted := dim.whole(values)) != size:
                        said_so = f"{dim}, which is {wanted} at {where}" if dim.names else f"{wanted}"
                        yield f"dimension {axis} of {name} is {size} in the model, the contract says {said_so}"
                        break


def _same_symbols(contract: Contract, model: ModelTensors, points: Points) -> Iterator[str]:
    """Yield where dimensions that the model gives one name have different sizes in the contract."""
    first: dict[str, tuple[str, int]] = {}
    for name, there in {**model.inputs, **model.outputs}.items():
        said = contract.tensors.get(name)
        if said is None or there.shape is None or len(there.shape) != len(said.shape):
            continue
        for axis, symbol in enumerate(there.shape):
            if not isinstance(symbol, str):
                continue
            other, place = first.setdefault(symbol, (name, axis))
            for where, values in points:
                one, two = contract.tensors[other].shape[place].whole(values), said.shape[axis].whole(values)
                if one != two:
                    yield (
                        f"the model calls dimension {place} of {other} and dimension {axis} of {name} {symbol}, the "
                        f"contract says {one} and {two} at {where}"
                    )
                    break


def _profiles(contract: Contract, model: ModelTensors, points: Points) -> Iterator[str]:
    for where, values in points if model.profiles else ():
        shapes = {name: contract.shape(name, values) for name in contract.inputs}
        if not any(_accepts(profile, shapes) for profile in model.profiles):
            written = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items())
            yield f"the engine has no profile that accepts {where} ({written})"


def _accepts(profile: Profile, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether shapes lie within a profile, which has ranges of dynamic inputs alone."""
    return all(
        len(shape.min) == len(shapes[name])
        and all(low <= size <= high for low, size, high in zip(shape.min, shapes[name], shape.max, strict=True))
        for name, shape in profile.shapes.items()
        if name in shapes
    )
