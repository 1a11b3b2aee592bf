"""What tests of contradictions share."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.streaming_models import (
    write_contract,
)

from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.model_tensors import ModelTensors
from trt_workbench.stream.contract.reading import Contradictions, read_contract

Edit = Callable[[dict[str, Any]], Any]


def problems(document: dict[str, Any], folder: Path, model: ModelTensors | None = None) -> list[str]:
    try:
        read_contract(write_contract(folder / "c.json", document), model)
    except Contradictions as error:
        return error.problems
    return []


def put(*path: Any) -> Edit:
    """Return what puts the last of `path` at the place that the others lead to."""

    def edit(document: Any) -> None:
        for key in path[:-2]:
            document = document[key]
        document[path[-2]] = path[-1]

    return edit


def drop(*path: Any) -> Edit:
    def edit(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return edit


def fixed(model: ModelTensors, **sizes: int) -> ModelTensors:
    """Return a model whose symbols of these names are numbers."""

    def of(many: Mapping[str, ModelTensor]) -> dict[str, ModelTensor]:
        return {
            name: ModelTensor(name, one.dtype, tuple(sizes.get(str(dim), dim) for dim in one.shape or ()))
            for name, one in many.items()
        }

    return ModelTensors(of(model.inputs), of(model.outputs), model.profiles, model.narrows, model.is_engine)
