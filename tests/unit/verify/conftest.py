"""Small models, and a backend that is wrong on demand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests import faulty_backend
from tests.in_process_worker import InProcessWorker

from trt_workbench.verify import isolation


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]) -> None:
    """Register the backend `faulty`."""
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    monkeypatch.setattr(faulty_backend.FaultySession, "opened", 0)


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers be in this process, where tests plant their faults; test_isolation.py has processes."""
    monkeypatch.setattr(isolation, "WorkerProcess", InProcessWorker)


@pytest.fixture
def masked_model(tmp_path: Path) -> Path:
    """x [N,6,6] and mask [N,6] to y [N,6,6]: attention of x over itself, with what the mask leaves."""
    weights = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32) / 2
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Unsqueeze", ["mask", "one"], ["wide"]),
        helper.make_node("Sub", ["wide", "unit"], ["bias"]),
        helper.make_node("Mul", ["bias", "much"], ["biases"]),
        helper.make_node("Add", ["scores", "biases"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "x"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(weights, "w"),
        numpy_helper.from_array(np.array([1]), "one"),
        numpy_helper.from_array(np.float32(1), "unit"),
        numpy_helper.from_array(np.float32(1e4), "much"),
    ]
    return save(
        tmp_path / "attention.onnx",
        nodes,
        {"x": (TensorProto.FLOAT, ["N", 6, 6]), "mask": (TensorProto.FLOAT, ["N", 6])},
        {"y": (TensorProto.FLOAT, ["N", 6, 6])},
        constants,
    )


@pytest.fixture
def index_model(tmp_path: Path) -> Path:
    """x [N,6] to the place [N,1] of its largest element."""
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=1)
    inputs = {"x": (TensorProto.FLOAT, ["N", 6])}
    return save(tmp_path / "index.onnx", [node], inputs, {"y": (TensorProto.INT64, ["N", 1])}, [])


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[int | str]]],
    outputs: dict[str, tuple[int, list[int | str]]],
    constants: list[onnx.TensorProto],
) -> Path:
    """Write a model."""
    values = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in several.items()]
        for several in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "small", *values, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path
