"""Small models of many kinds of operators, healthy ones, and copies that compute one thing wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from tests.onnx_text import parse_onnx

Arrays = dict[str, NDArray[Any]]
SEQUENCE, IMAGE, ROW = "float[N,6,8] x", "float[N,4,10,10] x", "float[N,12] x"


def _draw(seed: int, **shapes: tuple[int, ...]) -> Arrays:
    draw = np.random.default_rng(seed)
    return {name: (draw.standard_normal(shape) / 2).astype(np.float32) for name, shape in shapes.items()}


def _ints(**values: Any) -> Arrays:
    return {name: np.array(value, np.int64) for name, value in values.items()}


# By kind: the input, the nodes in which [it] names the one that can be wrong, and the constants for a seed.
KINDS: Mapping[str, tuple[str, str, Callable[[int], Arrays]]] = {
    "gru": (
        SEQUENCE,
        "s = Transpose<perm=[1,0,2]>(x) [it] h, l = GRU<hidden_size=5,linear_before_reset=1>(s, w, r) y = Neg(h)",
        lambda seed: _draw(seed, w=(1, 15, 8), r=(1, 15, 5)),
    ),
    "lstm": (
        SEQUENCE,
        "s = Transpose<perm=[1,0,2]>(x) "
        '[it] h, l, c = LSTM<hidden_size=5,direction="bidirectional">(s, w, r) y = Tanh(h)',
        lambda seed: _draw(seed, w=(2, 20, 8), r=(2, 20, 5)),
    ),
    "transposed convolution": (
        IMAGE, "[it] a = ConvTranspose<strides=[2,2],output_padding=[1,1],pads=[1,1,1,1]>(x, w) y = Relu(a)",
        lambda seed: _draw(seed, w=(4, 3, 3, 3)),
    ),
    "dilated groups": (
        IMAGE, "[it] a = Conv<group=2,dilations=[2,2],pads=[2,2,2,2]>(x, w, b) y = HardSigmoid<alpha=0.3>(a)",
        lambda seed: _draw(seed, w=(6, 2, 3, 3), b=(6,)),
    ),
    "resize nearest": (
        IMAGE, '[it] a = Resize<mode="nearest",nearest_mode="floor">(x, , s) y = Mul(a, k)',
        lambda seed: {**_draw(seed, k=(4, 1, 1)), "s": np.array([1, 1, 1.5, 2], np.float32)},
    ),
    "resize cubic": (
        IMAGE, '[it] a = Resize<mode="cubic",coordinate_transformation_mode="align_corners">(x, , , z) y = Neg(a)',
        lambda _: {},
    ),
    "grid sample": (
        IMAGE, '[it] y = GridSample<align_corners=1,padding_mode="border">(x, g)',
        lambda _: {},
    ),
    "instance norm": (
        IMAGE, "[it] a = InstanceNormalization(x, s, b) y = Elu(a)", lambda seed: _draw(seed, s=(4,), b=(4,)),
    ),
    "local response": (IMAGE, "[it] a = LRN<size=3,alpha=0.5>(x) y = Mul(a, k)", lambda seed: _draw(seed, k=(4, 1, 1))),
    "pool without pads": (
        IMAGE, "[it] a = AveragePool<kernel_shape=[3,3],strides=[2,2],ceil_mode=1>(x) y = Mul(a, k)",
        lambda seed: _draw(seed, k=(4, 1, 1)),
    ),
    "lp pool": (IMAGE, "[it] a = LpPool<kernel_shape=[2,2],p=2>(x) y = Log(a)", lambda _: {}),
    "depth to space": (
        IMAGE, '[it] a = DepthToSpace<blocksize=2,mode="CRD">(x) y = Mul(a, k)',
        lambda seed: _draw(seed, k=(1, 20, 20)),
    ),
    "reflected": (
        IMAGE, '[it] a = Pad<mode="reflect">(x, p) y = Conv(a, w)',
        lambda seed: {**_draw(seed, w=(2, 4, 3, 3)), **_ints(p=[0, 0, 2, 1, 0, 0, 1, 2])},
    ),
    "running sum": (SEQUENCE, "[it] a = CumSum<exclusive=1>(x, k) y = Mul(a, x)", lambda _: _ints(k=1)),
    "einsum": (SEQUENCE, '[it] a = Einsum<equation="nij,nkj->nik">(x, x) y = Sin(a)', lambda _: {}),
    "gather nd": (
        SEQUENCE, "[it] a = GatherND<batch_dims=0>(t, i) b = MatMul(x, a) y = Softplus(b)",
        lambda seed: {**_draw(seed, t=(5, 7)), **_ints(i=np.random.default_rng(seed).integers(0, 5, (8, 1)))},
    ),
    "scatter": (
        ROW, '[it] a = ScatterElements<axis=1,reduction="add">(x, i, u) y = Mul(a, a)',
        lambda _: {},
    ),
    "log softmax": (ROW, "a = MatMul(x, w) [it] y = LogSoftmax<axis=-1>(a)", lambda seed: _draw(seed, w=(12, 9))),
    "log sum exp": (
        SEQUENCE, "a = Mul(x, k) [it] y = ReduceLogSumExp<axes=[2],keepdims=0>(a)", lambda seed: _draw(seed, k=(8,)),
    ),
    "slopes": (IMAGE, "[it] a = PRelu(x, s) y = Conv(a, w)", lambda seed: _draw(seed, s=(4, 1, 1), w=(3, 4, 1, 1))),
}  # fmt: skip
EXTRA: Mapping[str, Callable[[int], Arrays]] = {
    "grid sample": lambda seed: {"flat": np.random.default_rng(seed).uniform(-1.2, 1.2, (1, 5, 6, 2)).astype("f4")},
    "scatter": lambda seed: {
        "places": np.random.default_rng(seed).permutation(12)[None, :4].astype("i8"),
        "more": np.random.default_rng(seed).standard_normal((1, 4)).astype("f4"),
    },
}
# Constants that every row has, as wide as the batch.
WIDENED = {
    "grid sample": "n = Shape<start=0,end=1>(x) e = Concat<axis=0>(n, rest) g = Expand(flat, e) ",
    "scatter": "n = Shape<start=0,end=1>(x) e = Concat<axis=0>(n, rest) i = Expand(places, e) u = Expand(more, e) ",
}
REST = {"grid sample": [5, 6, 2], "scatter": [4]}
# What a wrong kernel makes of a result `r` of rank k.
FAULTS = ("scaled", "clipped", "signs", "last row", "neighbour")


def write(kind: str, seed: int, path: Path) -> Path:
    """Write the healthy model of a kind."""
    given, nodes, constants = KINDS[kind]
    arrays = {**constants(seed), **EXTRA.get(kind, lambda _: {})(seed)}
    if kind in REST:
        arrays |= _ints(rest=REST[kind])
    if kind == "resize cubic":
        nodes = "n = Shape<start=0,end=1>(x) e = Concat<axis=0>(n, rest) " + nodes.replace(", z)", ", e)")
        arrays = _ints(rest=[4, 15, 13])
    model = parse_onnx(f"g ({given}) => (float[] y) {{ {WIDENED.get(kind, '')}{nodes} }}", arrays)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model = onnx.shape_inference.infer_shapes(model)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def altered(model: onnx.ModelProto, fault: str) -> onnx.ModelProto:
    """Return a copy in which the node `it` computes one thing wrong."""
    made = copy.deepcopy(model)
    graph = made.graph
    place, node = next((place, one) for place, one in enumerate(graph.node) if one.name == "it")
    right, wrong = f"{node.output[0]}_right", node.output[0]
    node.output[0] = right

    def constant(name: str, value: Any, kind: Any = np.float32) -> str:
        graph.initializer.append(numpy_helper.from_array(np.array(value, kind), f"fault_{name}"))
        return f"fault_{name}"

    match fault:
        case "scaled":
            more = [helper.make_node("Mul", [right, constant("by", 1.01)], [wrong])]
        case "clipped":
            more = [helper.make_node("Clip", [right, constant("low", -0.3), constant("high", 0.3)], [wrong])]
        case "signs":
            more = [helper.make_node("Abs", [right], [wrong])]
        case "last row":  # of whatever comes first
            more = [
                helper.make_node("Slice", [right, constant("a", [-1], np.int64), constant("b", [9999], np.int64),
                                           constant("c", [0], np.int64)], ["tail"]),
                helper.make_node("Slice", [right, constant("d", [0], np.int64), "fault_a", "fault_c"], ["head"]),
                helper.make_node("Mul", ["tail", constant("half", 0.5)], ["less"]),
                helper.make_node("Concat", ["head", "less"], [wrong], axis=0),
            ]  # fmt: skip
        case _:  # every value is its neighbour's
            more = [
                helper.make_node("Slice", [right, constant("a", [0], np.int64), constant("b", [1], np.int64),
                                           constant("c", [-1], np.int64)], ["head"]),
                helper.make_node("Slice", [right, "fault_b", constant("d", [9999], np.int64), "fault_c"], ["tail"]),
                helper.make_node("Concat", ["tail", "head"], [wrong], axis=-1),
            ]  # fmt: skip
    for number, one in enumerate(more):
        graph.node.insert(place + 1 + number, one)
    return made
