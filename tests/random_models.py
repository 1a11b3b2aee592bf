"""Random ONNX models of the operators around which compilers go wrong, all of them healthy.

Transposes, reshapes, expands, gathers and wheres beside matrix products; layer norms and reductions, over the batch
too; attention with head dimensions of 4 to 128, with masks and transposed inputs; convolutions, TopK, softmax, casts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEAD_DIMENSIONS = (4, 8, 9, 16, 24, 32, 64, 80, 128)


class Graph:
    """A graph that grows; `x` names a float tensor [N,T,C]."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.length = int(self.draw.integers(3, 9))
        self.width = int(self.draw.choice([8, 12, 16, 24]))
        self.used: list[str] = []

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"t{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def weights(self, *shape: int) -> str:
        return self.constant(self.draw.standard_normal(shape) / np.sqrt(shape[-2] if len(shape) > 1 else 1.0))

    def input(self, name: str, kind: int, shape: list[int | str]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, tensor: str, kind: int, rank: int, *, batched: bool = True) -> None:
        name = f"out{len(self.outputs)}"
        self.nodes.append(helper.make_node("Identity", [tensor], [name]))
        shape: list[str] = ["N" if batched and axis == 0 else f"{name}_{axis}" for axis in range(rank)]
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def linear(self, x: str, to: int) -> str:
        made = self.node("MatMul", x, self.weights(self.width, to))
        return str(self.node("Add", made, self.constant(self.draw.standard_normal(to) / 4)))

    def save(self, name: str, path: Path) -> None:
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def _mlp(g: Graph, x: str) -> str:
    wide = g.linear(x, 2 * g.width)
    bent = g.node(str(g.draw.choice(["Relu", "Tanh", "Sigmoid", "Erf"])), wide)
    back = g.node("MatMul", bent, g.weights(2 * g.width, g.width))
    return str(g.node("Add", x, back))


def _layer_norm(g: Graph, x: str) -> str:
    scale, bias = g.constant(1 + g.draw.standard_normal(g.width) / 4), g.constant(g.draw.standard_normal(g.width) / 4)
    if g.draw.random() < 0.5:
        return str(g.node("LayerNormalization", x, scale, bias, axis=-1))
    mean = g.node("ReduceMean", x, axes=[-1], keepdims=1)
    centred = g.node("Sub", x, mean)
    variance = g.node("ReduceMean", g.node("Mul", centred, centred), axes=[-1], keepdims=1)
    deviation = g.node("Sqrt", g.node("Add", variance, g.constant(1e-5)))
    return str(g.node("Add", g.node("Mul", g.node("Div", centred, deviation), scale), bias))


def _attention(g: Graph, x: str) -> str:
    size, heads = int(g.draw.choice(HEAD_DIMENSIONS)), int(g.draw.integers(1, 4))
    parts = []
    for part in "qkv":
        split = g.node("Reshape", g.linear(x, size * heads), g.ints(0, 0, heads, size))
        perm = [0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]
        parts.append(g.node("Transpose", split, perm=perm))
    scores = g.node("Mul", g.node("MatMul", parts[0], parts[1]), g.constant(size**-0.5))
    if g.draw.random() < 0.6:
        if "mask" not in {value.name for value in g.inputs}:
            g.input("mask", TensorProto.INT64, ["N", g.length])
        seen = g.node("Unsqueeze", g.node("Cast", "mask", to=TensorProto.BOOL), g.ints(1, 2))
        scores = g.node("Where", seen, scores, g.constant(-1e4))
    mixed = g.node("MatMul", g.node("Softmax", scores, axis=-1), parts[2])
    joined = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), g.ints(0, 0, size * heads))
    return str(g.node("Add", x, g.node("MatMul", joined, g.weights(size * heads, g.width))))


def _shuffle(g: Graph, x: str) -> str:
    """Reshape, transpose and back: the same elements in another order."""
    half = g.width // 4
    split = g.node("Reshape", x, g.ints(0, 0, 4, half))
    return str(g.node("Reshape", g.node("Transpose", split, perm=[0, 1, 3, 2]), g.ints(0, 0, g.width)))


def _mix_time(g: Graph, x: str) -> str:
    turned = g.node("Transpose", x, perm=[0, 2, 1])
    return str(g.node("Transpose", g.node("MatMul", turned, g.weights(g.length, g.length)), perm=[0, 2, 1]))


def _gather(g: Graph, x: str) -> str:
    order = g.draw.integers(0, g.length, g.length)
    return str(g.node("Gather", x, g.constant(order, np.int64), axis=1))


def _where(g: Graph, x: str) -> str:
    return str(g.node("Where", g.node("Greater", x, g.constant(0.3)), x, g.node("Mul", x, g.constant(0.1))))


def _expand(g: Graph, x: str) -> str:
    mean = g.node("ReduceMean", x, axes=[1], keepdims=1)
    return str(g.node("Mul", g.node("Expand", mean, g.node("Shape", x)), x))


def _over_batch(g: Graph, x: str) -> str:
    """Rows that depend on each other by design."""
    mean = g.node("ReduceMean", x, axes=[0], keepdims=1)
    return str(g.node("Add", x, g.node("Mul", mean, g.constant(float(g.draw.choice([0.01, 0.5]))))))


def _flat_batch(g: Graph, x: str) -> str:
    """Rows and times as one dimension around a product, as exporters write it."""
    flat = g.node("Reshape", x, g.ints(-1, g.width))
    return str(g.node("Reshape", g.node("MatMul", flat, g.weights(g.width, g.width)), g.ints(-1, g.length, g.width)))


def _convolution(g: Graph, x: str) -> str:
    turned = g.node("Transpose", x, perm=[0, 2, 1])
    made = g.node("Conv", turned, g.weights(g.width, g.width, 3), pads=[1, 1])
    made = g.node("Mul", made, g.constant(0.2))
    return str(g.node("Add", x, g.node("Transpose", made, perm=[0, 2, 1])))


def _image(g: Graph, x: str) -> str:
    image = g.node("Unsqueeze", x, g.ints(1))
    made = g.node("Relu", g.node("Conv", image, g.weights(4, 1, 3, 3), pads=[1, 1, 1, 1]))
    pooled = g.node("MaxPool", made, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    return str(g.node("ReduceMean", pooled, axes=[1], keepdims=0))


def _softmax(g: Graph, x: str) -> str:
    return str(g.node("Mul", x, g.node("Softmax", x, axis=int(g.draw.choice([1, 2])))))


def _cast(g: Graph, x: str) -> str:
    steps = g.node("Cast", g.node("Mul", x, g.constant(50.0)), to=TensorProto.INT32)
    return str(g.node("Mul", g.node("Cast", steps, to=TensorProto.FLOAT), g.constant(0.02)))


def _split(g: Graph, x: str) -> str:
    a, b = g.node("Split", x, axis=2, outputs=2)
    return str(g.node("Concat", g.node("Mul", b, g.node("Sigmoid", a)), a, axis=2))


_BLOCKS: tuple[Callable[[Graph, str], str], ...] = (
    _mlp, _layer_norm, _attention, _attention, _shuffle, _mix_time, _gather, _where, _expand, _over_batch, _flat_batch,
    _convolution, _image, _softmax, _cast, _split,
)  # fmt: skip


def write_model(seed: int, path: Path) -> tuple[str, ...]:
    """Write the model of a seed, with a dynamic batch `N`, and return the names of its blocks."""
    g = Graph(seed)
    if g.draw.random() < 0.2:
        ids = g.input("input_ids", TensorProto.INT64, ["N", g.length])
        x = str(g.node("Gather", g.weights(256, g.width), ids))
    elif g.draw.random() < 0.3:
        x = str(g.node("Transpose", g.input("x", TensorProto.FLOAT, ["N", g.width, g.length]), perm=[0, 2, 1]))
    else:
        x = g.input("x", TensorProto.FLOAT, ["N", g.length, g.width])
    blocks = [_BLOCKS[int(g.draw.integers(len(_BLOCKS)))] for _ in range(int(g.draw.integers(3, 9)))]
    for block in blocks:
        x = block(g, x)
    g.output(x, TensorProto.FLOAT, 3)
    if g.draw.random() < 0.25:
        values, places = g.node("TopK", g.node("ReduceMax", x, axes=[1], keepdims=0), g.ints(3), axis=-1, outputs=2)
        g.output(values, TensorProto.FLOAT, 2)
        g.output(places, TensorProto.INT64, 2)
    if g.draw.random() < 0.25:
        g.output(g.node("ArgMax", x, axis=-1, keepdims=0), TensorProto.INT64, 2)
    if g.draw.random() < 0.2:
        g.output(g.node("ReduceSum", x, g.ints(0, 1), keepdims=0), TensorProto.FLOAT, 1, batched=False)
    g.save(f"random{seed}", path)
    return tuple(block.__name__.lstrip("_") for block in blocks)
