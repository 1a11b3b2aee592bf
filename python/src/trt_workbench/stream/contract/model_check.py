"""Whether a contract contradicts the model or engine that it is about: every contradiction in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.model_tensors import ModelTensors
from trt_workbench.stream.contract.parts import TensorOf
from trt_workbench.stream.contract.size_check import sizes
from trt_workbench.stream.contract.static_check import near
from trt_workbench.stream.contract.static_sizes import chunk_points, corners

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
        *_names(contract.inputs, model.inputs, "input", model.kind),
        *_names(contract.outputs, model.outputs, "output", model.kind),
        *_tensors(contract, model),
        *sizes(contract, model, points),
    ]
    return list(dict.fromkeys(found))


def _names(said: Mapping[str, TensorOf], there: Mapping[str, ModelTensor], kind: str, file: str) -> Iterator[str]:
    for name in said:
        if name not in there:
            yield f"the {file} has no {kind} {name}{near(name, there)}"
    for name in there:
        if name not in said:
            yield f"the contract lacks the {file}'s {kind} {name}{near(name, said)}"


def _tensors(contract: Contract, model: ModelTensors) -> Iterator[str]:
    for name, there in {**model.inputs, **model.outputs}.items():
        if (said := contract.tensors.get(name)) is None:
            continue
        allowed = {said.dtype, _NARROWED.get(said.dtype, said.dtype)} if model.narrows else {said.dtype}
        if there.dtype not in allowed:
            yield f"{name} is {there.dtype} in the {model.kind} and {said.dtype} in the contract"
        if there.shape is not None and len(there.shape) != len(said.shape):
            yield f"{name} has {len(there.shape)} dimensions in the {model.kind} and {len(said.shape)} in the contract"
