"""Random models in fp16, of the operators whose inner values leave its range and of those that optimisers fuse.

Layer norms in parts and as one operator, squares, softmax behind masks of -1e9, convolutions, recurrent layers,
branches and loops, local functions; some blocks multiply by a large number first and by its inverse afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, LENGTH, BATCH = 8, 4, 2
HALF = TensorProto.FLOAT16
_LARGEST = float(np.finfo(np.float16).max)
_DOMAIN = "local"


class Half:
    """A graph that grows; `x` names a tensor [N,T,C] in fp16."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.functions: list[onnx.FunctionProto] = []
        self.names = 0

    def fresh(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [self.fresh() for _ in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=f"{operator}_{names[0]}", **attributes))
        return names[0]

    def constant(self, value: Any, dtype: Any = np.float16) -> str:
        name = self.fresh()
        with np.errstate(over="ignore"):
            self.constants.append(numpy_helper.from_array(np.asarray(value).astype(dtype), name))
        return name

    def weights(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self.draw.standard_normal(shape) * scale / np.sqrt(shape[0]))


def linear(g: Half, x: str) -> str:
    return g.node("Add", g.node("MatMul", x, g.weights(WIDTH, WIDTH)), g.weights(WIDTH))


def up_and_down(g: Half, x: str) -> str:
    size = float(10 ** g.draw.uniform(2, 4.6))
    up = g.node("MatMul", x, g.weights(WIDTH, WIDTH, scale=size))
    bent = g.node(str(g.draw.choice(["Relu", "Identity", "Abs", "Neg"])), up)
    return g.node("Mul", bent, g.constant(1 / size))


def layer_norm_in_parts(g: Half, x: str) -> str:
    grown = g.node("Mul", x, g.constant(float(10 ** g.draw.uniform(0, 3))))
    centred = g.node("Sub", grown, g.node("ReduceMean", grown, axes=[-1], keepdims=1))
    power = g.node("Pow", centred, g.constant(2.0)) if g.draw.random() < 0.5 else g.node("Mul", centred, centred)
    root = g.node("Sqrt", g.node("Add", g.node("ReduceMean", power, axes=[-1], keepdims=1), g.constant(1e-5)))
    return g.node("Add", g.node("Mul", g.node("Div", centred, root), g.weights(WIDTH, scale=3.0)), g.weights(WIDTH))


def rms_norm_in_parts(g: Half, x: str) -> str:
    grown = g.node("Mul", x, g.constant(float(10 ** g.draw.uniform(0, 3))))
    square = g.node("Pow", grown, g.constant(2.0))
    root = g.node("Sqrt", g.node("Add", g.node("ReduceMean", square, axes=[-1], keepdims=1), g.constant(1e-5)))
    return g.node("Mul", g.node("Mul", grown, g.node("Reciprocal", root)), g.weights(WIDTH, scale=3.0))


def layer_norm(g: Half, x: str) -> str:
    return g.node("LayerNormalization", x, g.weights(WIDTH, scale=3.0), g.weights(WIDTH), axis=-1)


def gelu(g: Half, x: str) -> str:
    erf = g.node("Erf", g.node("Div", x, g.constant(np.sqrt(2))))
    return g.node("Mul", g.node("Mul", x, g.node("Add", erf, g.constant(1.0))), g.constant(0.5))


def gelu_by_tanh(g: Half, x: str) -> str:
    cube = g.node("Pow", x, g.constant(3.0))
    inner = g.node("Mul", g.node("Add", x, g.node("Mul", cube, g.constant(0.044715))), g.constant(np.sqrt(2 / np.pi)))
    return g.node("Mul", g.node("Mul", x, g.node("Add", g.node("Tanh", inner), g.constant(1.0))), g.constant(0.5))


def attention(g: Half, x: str) -> str:
    query, key, value = (linear(g, x) for _ in range(3))
    scores = g.node("MatMul", query, g.node("Transpose", key, perm=[0, 2, 1]))
    scores = g.node("Mul", scores, g.constant(float(10 ** g.draw.uniform(-0.5, 3))))
    mask = np.where(np.tri(LENGTH, dtype=bool), 0, -1e9 if g.draw.random() < 0.5 else -_LARGEST)
    masked = g.node("Add", scores, g.constant(mask))
    return g.node("MatMul", g.node("Softmax", masked, axis=-1), value)


def convolution(g: Half, x: str) -> str:
    across = g.node("Transpose", x, perm=[0, 2, 1])
    size = float(10 ** g.draw.uniform(0, 4))
    made = g.node("Conv", across, g.weights(WIDTH, WIDTH, 3, scale=size), g.weights(WIDTH), pads=[1, 1])
    return g.node("Transpose", g.node("Mul", g.node("Relu", made), g.constant(1 / size)), perm=[0, 2, 1])


def recurrent(g: Half, x: str) -> str:
    kind, gates = [("GRU", 3), ("LSTM", 4), ("RNN", 1)][int(g.draw.integers(3))]
    steps = g.node("Transpose", x, perm=[1, 0, 2])
    weights = g.weights(1, gates * WIDTH, WIDTH, scale=0.5), g.weights(1, gates * WIDTH, WIDTH, scale=0.5)
    bias = g.weights(1, 2 * gates * WIDTH, scale=0.3)
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    made = g.node(kind, steps, *weights, bias, outputs=1, hidden_size=WIDTH, **more)
    return g.node("Transpose", g.node("Squeeze", made, g.constant([1], np.int64)), perm=[1, 0, 2])


def branch(g: Half, x: str) -> str:
    size = g.constant(float(10 ** g.draw.uniform(1, 4)))
    down = g.constant(1e-3)

    def body(operator: str) -> onnx.GraphProto:
        one, two, three = (g.fresh() for _ in range(3))
        nodes = [
            helper.make_node("Mul", [x, size], [one], name=f"grow_{one}"),
            helper.make_node(operator, [one], [two], name=f"bend_{two}"),
            helper.make_node("Mul", [two, down], [three], name=f"shrink_{three}"),
        ]
        return helper.make_graph(nodes, f"body_{one}", [], [helper.make_tensor_value_info(three, HALF, None)])

    mean = g.node("ReduceMean", x, keepdims=0)
    flag = g.node("Greater", mean, g.constant(0.0))
    return g.node("If", flag, then_branch=body("Relu"), else_branch=body("Abs"))


def loop(g: Half, x: str) -> str:
    factor, down = g.constant(float(g.draw.uniform(1, 60))), g.constant(1e-3)
    carried, made, going, kept, number = (g.fresh() for _ in range(5))
    body = helper.make_graph(
        [
            helper.make_node("Mul", [carried, factor], [made], name=f"grow_{made}"),
            helper.make_node("Identity", [going], [kept]),
        ],
        f"loop_{made}",
        [
            helper.make_tensor_value_info(number, TensorProto.INT64, []),
            helper.make_tensor_value_info(going, TensorProto.BOOL, []),
            helper.make_tensor_value_info(carried, HALF, None),
        ],
        [helper.make_tensor_value_info(kept, TensorProto.BOOL, []), helper.make_tensor_value_info(made, HALF, None)],
    )
    trips, start = g.constant(int(g.draw.integers(0, 4)), np.int64), g.constant(True, np.bool_)
    return g.node("Mul", g.node("Loop", trips, start, x, body=body), down)


def function(g: Half, x: str) -> str:
    name, size = f"Grown{len(g.functions)}", g.constant(float(10 ** g.draw.uniform(1, 4)))
    down = g.constant(1e-3)
    nodes = [
        helper.make_node("Mul", ["a", "b"], ["c"], name="grow"),
        helper.make_node("Relu", ["c"], ["d"], name="bend"),
        helper.make_node("Mul", ["d", "e"], ["f"], name="shrink"),
    ]
    opsets = [helper.make_opsetid("", 17)]
    g.functions.append(helper.make_function(_DOMAIN, name, ["a", "b", "e"], ["f"], nodes, opsets))
    return g.node(name, x, size, down, domain=_DOMAIN)


def reductions(g: Half, x: str) -> str:
    kind = str(g.draw.choice(["ReduceL2", "ReduceSumSquare", "ReduceMean", "ReduceMax", "ReduceL1"]))
    grown = g.node("Mul", x, g.constant(float(10 ** g.draw.uniform(0, 3))))
    found = g.node(kind, grown, axes=[-1], keepdims=1)
    return g.node("Div", grown, g.node("Add", found, g.constant(1.0)))


def exponential(g: Half, x: str) -> str:
    grown = g.node("Exp", g.node("Mul", x, g.constant(float(g.draw.uniform(0.5, 8)))))
    return g.node("Div", grown, g.node("Add", grown, g.constant(1.0)))


BLOCKS: tuple[Callable[[Half, str], str], ...] = (
    linear, up_and_down, layer_norm_in_parts, rms_norm_in_parts, layer_norm, gelu, gelu_by_tanh, attention, convolution,
    recurrent, branch, loop, function, reductions, exponential,
)  # fmt: skip


def half_model(seed: int, blocks: int = 3, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """Return a random model in fp16; its input and output are of type `kind`."""
    g = Half(seed)
    x = g.node("Cast", "x", to=HALF) if kind != HALF else "x"
    for place in g.draw.integers(len(BLOCKS), size=blocks):
        x = BLOCKS[place](g, x)
    g.nodes.append(helper.make_node("Cast", [x], ["y"], to=kind, name="out"))
    shape = ["N", LENGTH, WIDTH]
    graph = helper.make_graph(
        g.nodes,
        f"half_{seed}",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, shape)],
        g.constants,
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(_DOMAIN, 1)] if g.functions else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=g.functions)


def half_input(seed: int, dtype: Any = np.float32) -> np.ndarray:
    """Return an input for it."""
    return np.random.default_rng(seed).standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float16).astype(dtype)
