"""A small transformer with a mask for each row, as exporters write it: computed shapes, reshapes, transposes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, HEADS = 5, 16, 4


def attention_model(path: Path, layers: int = 2) -> Path:
    """Write a model of x [N,5,16] and mask [N,5] to y [N,5,16]; every node has a name."""
    rng = np.random.default_rng(3)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(value: Any, dtype: Any = np.float32) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(constants)}"))
        return constants[-1].name

    def node(operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"/{operator.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(operator, list(inputs), [f"t{len(nodes)}"], name=name, **attributes))
        return str(nodes[-1].output[0])

    def linear(x: str, fan_in: int, fan_out: int) -> str:
        weights = constant(rng.standard_normal((fan_in, fan_out)) / np.sqrt(fan_in))
        return node("Add", node("MatMul", x, weights), constant(rng.standard_normal(fan_out) / 10))

    def norm(x: str) -> str:
        centred = node("Sub", x, node("ReduceMean", x, axes=[-1]))
        variance = node("ReduceMean", node("Mul", centred, centred), axes=[-1])
        return node("Div", centred, node("Sqrt", node("Add", variance, constant(1e-5))))

    def of_heads(x: str, perm: list[int]) -> str:
        rest = constant([TOKENS, HEADS, WIDTH // HEADS], np.int64)
        batch = node("Slice", node("Shape", x), constant([0], np.int64), constant([1], np.int64))
        shape = node("Concat", batch, rest, axis=0)
        return node("Transpose", node("Reshape", linear(x, WIDTH, WIDTH), shape), perm=perm)

    wide = node("Unsqueeze", "mask", constant([1, 2], np.int64))
    bias = node("Mul", node("Sub", wide, constant(1.0)), constant(1e4))
    x = "x"
    for _ in range(layers):
        y = norm(x)
        scores = node("MatMul", of_heads(y, [0, 2, 1, 3]), of_heads(y, [0, 2, 3, 1]))
        share = node("Softmax", node("Add", node("Mul", scores, constant(0.5)), bias), axis=-1)
        mixed = node("Transpose", node("MatMul", share, of_heads(y, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        x = node("Add", x, linear(node("Reshape", mixed, constant([0, 0, WIDTH], np.int64)), WIDTH, WIDTH))
        h = linear(norm(x), WIDTH, 2 * WIDTH)
        h = node("Mul", h, node("Add", node("Erf", h), constant(1.0)))
        x = node("Add", x, linear(h, 2 * WIDTH, WIDTH))
    nodes.append(helper.make_node("Identity", [x], ["y"], name="/end"))
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", TOKENS, WIDTH]),
        helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["N", TOKENS]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", TOKENS, WIDTH])]
    graph = helper.make_graph(nodes, "attention", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path
