"""Models that are random by design, wherever the operator stands."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.onnxtools.randomness import random_operators

FLOAT = TensorProto.FLOAT


def value(name: str, kind: int = FLOAT, shape: tuple[int | str, ...] = ("N", 4)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(*nodes: onnx.NodeProto, constants: tuple[onnx.TensorProto, ...] = (), inputs: tuple = ()) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", [value("x"), *inputs], [value("y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(
    "operator",
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"],
)
@pytest.mark.parametrize("seeded", [{}, {"seed": 7.0}])
def test_random_operators_are_found_with_a_seed_and_without(operator: str, seeded: dict[str, float]) -> None:
    shape = {"shape": [2, 4]} if operator in ("RandomNormal", "RandomUniform") else {}
    node = helper.make_node(operator, [] if shape else ["x"], ["y"], **shape, **seeded)
    assert random_operators(model(node)) == [operator]


def test_in_a_branch() -> None:
    random = helper.make_graph([helper.make_node("RandomNormalLike", ["x"], ["a"])], "then", [], [value("a")])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "else", [], [value("b")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=random, else_branch=other)
    assert random_operators(model(node, inputs=(value("c", TensorProto.BOOL, ()),))) == ["RandomNormalLike"]


def test_in_a_loop() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["still"]), helper.make_node("Bernoulli", ["h"], ["after"])],
        "body",
        [value("i", TensorProto.INT64, ()), value("on", TensorProto.BOOL, ()), value("h")],
        [value("still", TensorProto.BOOL, ()), value("after")],
    )
    assert random_operators(model(helper.make_node("Loop", ["n", "", "x"], ["y"], body=body))) == ["Bernoulli"]


def test_in_a_function() -> None:
    made = model(helper.make_node("Noisy", ["x"], ["y"], domain="own"))
    inner = [helper.make_node("RandomUniformLike", ["a"], ["b"])]
    made.functions.append(helper.make_function("own", "Noisy", ["a"], ["b"], inner, [helper.make_opsetid("", 17)]))
    assert random_operators(made) == ["RandomUniformLike"]


def dropout(mode: bool | None, *, by: str = "initializer") -> onnx.ModelProto:
    inputs = ["x", "", "mode"] if mode is not None or by == "input" else ["x"]
    node = helper.make_node("Dropout", inputs, ["y"])
    if by == "input":
        return model(node, inputs=(value("mode", TensorProto.BOOL, ()),))
    tensor = numpy_helper.from_array(np.array(bool(mode)), "mode")
    if by == "node":
        return model(helper.make_node("Constant", [], ["mode"], value=tensor), node)
    return model(node, constants=(tensor,))


def test_dropout_counts_in_training_mode_alone() -> None:
    for by in ("initializer", "node"):
        assert random_operators(dropout(True, by=by)) == ["Dropout in training mode"]
        assert random_operators(dropout(False, by=by)) == []
    assert random_operators(dropout(None)) == []
    assert random_operators(dropout(None, by="input")) == ["Dropout in training mode"]  # a caller decides
