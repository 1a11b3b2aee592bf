"""Small ONNX models for the tests of the backends."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, Dims],
    outputs: dict[str, tuple[int, Dims]],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def linear(path: Path, batch: int | str = "batch", scale: float = 1.0) -> Path:
    """y = relu(x @ w + b)."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.random((4, 3), np.float32) * np.float32(scale), "b": np.zeros(3, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"], "multiply"),
        helper.make_node("Add", ["xw", "b"], ["s"], "shift"),
        helper.make_node("Relu", ["s"], ["y"], "rectify"),
    ]
    return save(path, nodes, {"x": (batch, 4)}, {"y": (TensorProto.FLOAT, (batch, 3))}, weights)


def reshaped(path: Path) -> Path:
    """Flatten by way of Shape, Gather and Concat, as exporters write it."""
    weights = {"zero": np.array(0, np.int64), "axis": np.array([0], np.int64), "rest": np.array([-1], np.int64)}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], "shape_of_x"),
        helper.make_node("Gather", ["shape", "zero"], ["batch_size"], "batch_of_x"),
        helper.make_node("Unsqueeze", ["batch_size", "axis"], ["batch_dim"], "as_vector"),
        helper.make_node("Concat", ["batch_dim", "rest"], ["target"], "new_shape", axis=0),
        helper.make_node("Sigmoid", ["x"], ["s"], "data"),
        helper.make_node("Reshape", ["s", "target"], ["y"], "flatten"),
    ]
    return save(path, nodes, {"x": ("batch", 2, 3)}, {"y": (TensorProto.FLOAT, ("batch", "flat"))}, weights)


def nonzero(path: Path) -> Path:
    """The indices of non-zero values: as many as the data say."""
    return save(
        path,
        [helper.make_node("NonZero", ["x"], ["y"], "find")],
        {"x": ("n",)},
        {"y": (TensorProto.INT64, (1, "found"))},
    )


@pytest.fixture(scope="session")
def onnx_models() -> SimpleNamespace:
    """The makers of small models."""
    return SimpleNamespace(save=save, linear=linear, reshaped=reshaped, nonzero=nonzero)
