"""The reference computes a graph as ONNX says (onnx.reference), also where ONNX Runtime rewrites it wrongly."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from tests.onnx_text import write_onnx

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.common import LEVELS
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.registry import load_reference

_RNG = np.random.default_rng(0)
PICTURE, ROWS, TOKENS = "float[N,4,6,6] x", "float[N,6] x", "float[N,5,8] x"
_FLOATS = {
    "conv": (4, 4, 3, 3),
    "conv1": (4, 4, 1, 1),
    "depth": (4, 1, 3, 3),
    "channel": (4, 1, 1),
    "vector": (4,),
    "six": (6,),
    "matrix": (6, 6),
    "eight": (8, 8),
    "of8": (8,),
    "matrix_t": (5, 6),
}
WEIGHTS = {name: _RNG.standard_normal(shape).astype(np.float32) / 2 for name, shape in _FLOATS.items()} | {
    "positive": np.array([0.5, 1, 2, 3], np.float32),
    "half": np.float32(0.5),
    "one": np.float32(1),
    "zero": np.float32(0),
    "two": np.float32(2),
    "root2": np.float32(2**0.5),
    "low": np.float32(-0.3),
    "high": np.float32(0.7),
    "eps": np.float32(1e-5),
    "around": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "before": np.array([0, 0, 1, 0, 0, 0, 0, 1]),
    "nothing": np.zeros(8, np.int64),
    "i0": np.array([0]),
    "i1": np.array([1]),
    "i2": np.array([2]),
    "i3": np.array([3]),
    "last": np.array([-1]),
    "end": np.array([2**31]),
    "flat": np.array([0, -1]),
    "heads": np.array([0, 5, 2, 4]),
    "whole": np.array([0, 0, 8]),
    "middle": np.array([2, 3, 0]),
    "parts": np.array([1, 3]),
    "doubled": np.array([1, 1, 2, 2], np.float32),
    "scale": np.float32(0.05),
    "point": np.int8(3),
    "place": np.int64(1),
    "pads3": np.array([0, 1, 0, 0, 1, 0]),
}
# zeros around a picture before a pool, whose own padding counts for nothing: ONNX Runtime 1.31 takes one for the other
WRONG = {"pad, max pool": ("basic", "extended", "all"), "pad before, max pool": ("basic", "extended", "all")}
GRAPHS = {
    "pad, max pool": (PICTURE, "p = Pad(x, around) y = MaxPool<kernel_shape = [3, 3]>(p)"),
    "pad before, max pool": (PICTURE, "p = Pad(x, before) y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(p)"),
    "pad of low, max pool": (PICTURE, "p = Pad(x, around, low) y = MaxPool<kernel_shape = [3, 3]>(p)"),
    "relu, pad, max pool": (PICTURE, "r = Relu(x) p = Pad(r, around) y = MaxPool<kernel_shape = [3, 3]>(p)"),
    "pad, average pool": (PICTURE, "p = Pad(x, around) y = AveragePool<kernel_shape = [3, 3]>(p)"),
    "pad, average pool with pads": (
        PICTURE,
        "p = Pad(x, around) y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(p)",
    ),
    "pad, conv": (PICTURE, "p = Pad(x, around) y = Conv(p, conv, vector)"),
    "pad before, conv with pads": (PICTURE, "p = Pad(x, before) y = Conv<pads = [1, 1, 1, 1]>(p, conv)"),
    "pad of low, conv": (PICTURE, "p = Pad(x, around, low) y = Conv(p, conv)"),
    "pad reflected, conv": (PICTURE, 'p = Pad<mode = "reflect">(x, around) y = Conv(p, conv)'),
    "pad of edges, conv": (PICTURE, 'p = Pad<mode = "edge">(x, around) y = Conv(p, conv)'),
    "pad by nothing": (PICTURE, "p = Pad(x, nothing) y = Relu(p)"),
    "two pads, conv": (PICTURE, "p = Pad(x, before) q = Pad(p, around) y = Conv(q, conv)"),
    "conv, norm": (PICTURE, "c = Conv(x, conv, vector) y = BatchNormalization(c, vector, vector, vector, positive)"),
    "norm, conv": (
        PICTURE,
        "c = BatchNormalization(x, vector, vector, vector, positive) y = Conv<pads = [1, 1, 1, 1]>(c, conv)",
    ),
    "norm alone": (PICTURE, "y = BatchNormalization<epsilon = 0.1>(x, vector, vector, vector, positive)"),
    "conv, mul": (PICTURE, "c = Conv(x, conv, vector) y = Mul(c, channel)"),
    "conv, add": (PICTURE, "c = Conv(x, conv, vector) y = Add(c, channel)"),
    "conv, add, relu": (PICTURE, "c = Conv<pads = [1, 1, 1, 1]>(x, conv) s = Add(c, x) y = Relu(s)"),
    "conv, clip": (PICTURE, "c = Conv(x, conv) y = Clip(c, low, high)"),
    "conv, leaky": (PICTURE, "c = Conv(x, conv) y = LeakyRelu<alpha = 0.3>(c)"),
    "conv, hard sigmoid": (PICTURE, "c = Conv(x, conv) y = HardSigmoid<alpha = 0.3, beta = 0.4>(c)"),
    "conv, sigmoid, mul": (PICTURE, "c = Conv(x, conv) s = Sigmoid(c) y = Mul(c, s)"),
    "hard swish": (PICTURE, "y = HardSwish(x)"),
    "depthwise": (PICTURE, "c = Conv<group = 4, pads = [1, 1, 1, 1]>(x, depth) y = Relu(c)"),
    "dilated": (PICTURE, "y = Conv<dilations = [2, 2], pads = [2, 1, 2, 1], strides = [2, 1]>(x, conv)"),
    "same upper": (PICTURE, 'y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, conv)'),
    "transposed": (
        PICTURE,
        "y = ConvTranspose<strides = [2, 2], pads = [1, 0, 0, 1], output_padding = [1, 1]>(x, conv)",
    ),
    "two convs": (PICTURE, "c = Conv(x, conv1) r = Relu(c) d = Conv(r, conv1) y = Add(d, x)"),
    "pool over everything": (PICTURE, "g = GlobalAveragePool(x) f = Flatten(g) y = Softmax(f)"),
    "ceil of pool": (PICTURE, "y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(x)"),
    "average without pads": (PICTURE, "y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)"),
    "nearest": (PICTURE, 'y = Resize<mode = "nearest">(x, , doubled)'),
    "linear": (
        PICTURE,
        'r = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(x, , doubled) y = Relu(r)',
    ),
    "nearest, conv": (PICTURE, 'r = Resize<mode = "nearest">(x, , doubled) y = Conv(r, conv)'),
    "depth to space": (PICTURE, "d = DepthToSpace<blocksize = 2>(x) y = Neg(d)"),
    "matmul, add": (ROWS, "m = MatMul(x, matrix) y = Add(m, six)"),
    "matmul, add of a matrix": (TOKENS, "m = MatMul(x, eight) y = Add(m, of8)"),
    "gemm, relu": (ROWS, "g = Gemm(x, matrix, six) y = Relu(g)"),
    "gemm, turned and scaled": (ROWS, "g = Gemm<transB = 1, alpha = 0.5, beta = 2.0>(x, matrix, six) y = Tanh(g)"),
    "gemm, sum": (ROWS, "g = Gemm(x, matrix) y = Sum(g, x, six)"),
    "matmul of a scaled": (ROWS, "s = Mul(x, half) m = MatMul(s, matrix) y = Div(m, two)"),
    "turned, matmul": (TOKENS, "t = Transpose<perm = [0, 2, 1]>(x) y = MatMul(t, x)"),
    "matmul, turned": (
        TOKENS,
        "t = Transpose<perm = [0, 2, 1]>(x) m = MatMul(x, t) s = Softmax<axis = -1>(m) y = MatMul(s, x)",
    ),
    "turned twice": (TOKENS, "t = Transpose<perm = [1, 2, 0]>(x) u = Transpose<perm = [2, 0, 1]>(t) y = Relu(u)"),
    "turned around relu": (TOKENS, "t = Transpose<perm = [0, 2, 1]>(x) r = Relu(t) y = Transpose<perm = [0, 2, 1]>(r)"),
    "turned around a sum": (
        TOKENS,
        "t = Transpose<perm = [1, 0, 2]>(x) s = ReduceSum<keepdims = 0>(t, i2) y = Transpose<perm = [1, 0]>(s)",
    ),
    "turned, joined": (TOKENS, "t = Transpose<perm = [0, 2, 1]>(x) n = Neg(t) y = Concat<axis = 1>(t, n)"),
    "heads": (
        TOKENS,
        "r = Reshape(x, heads) t = Transpose<perm = [0, 2, 1, 3]>(r) u = Transpose<perm = [0, 1, "
        "3, 2]>(t) "
        "m = MatMul(t, u) d = Mul(m, half) s = Softmax<axis = -1>(d) c = MatMul(s, t) b = "
        "Transpose<perm = [0, 2, 1, 3]>(c) y = Reshape(b, whole)",
    ),
    "reshaped twice": (TOKENS, "r = Reshape(x, flat) q = Reshape(r, whole_flat) y = Relu(q)"),
    "unsqueezed, squeezed": (TOKENS, "u = Unsqueeze(x, i1) s = Squeeze(u, i1) y = Neg(s)"),
    "shape folded": (
        TOKENS,
        "s = Shape(x) g = Gather(s, i0) c = Concat<axis = 0>(g, last) r = Reshape(x, c) y = Relu(r)",
    ),
    "expanded": (ROWS, "s = Shape(x) e = Expand(six, s) y = Add(x, e)"),
    "gelu": (ROWS, "d = Div(x, root2) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"),
    "gelu with bias": (
        TOKENS,
        "b = Add(x, of8) d = Div(b, root2) e = Erf(d) p = Add(e, one) m = Mul(b, p) y = Mul(m, half)",
    ),
    "layer norm of parts": (
        TOKENS,
        "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean<axes = "
        "[-1]>(q) "
        "e = Add(v, eps) r = Sqrt(e) n = Div(d, r) s = Mul(n, of8) y = Add(s, of8)",
    ),
    "root mean square norm": (
        TOKENS,
        "q = Pow(x, two) v = ReduceMean<axes = [-1]>(q) e = Add(v, eps) r = Sqrt(e) n = Div(x, r) y = Mul(n, of8)",
    ),
    "layer norm": (TOKENS, "a = Add(x, x) y = LayerNormalization<axis = -1>(a, of8, of8)"),
    "softmax of a sum": (TOKENS, "a = Add(x, of8) y = Softmax<axis = -1>(a)"),
    "log of softmax": (TOKENS, "s = Softmax<axis = -1>(x) y = Log(s)"),
    "by one and zero": (ROWS, "a = Mul(x, one) b = Add(a, zero) c = Div(b, one) d = Sub(c, zero) y = Neg(d)"),
    "relu, clip": (ROWS, "r = Relu(x) y = Clip(r, low, high)"),
    "clip, relu": (ROWS, "r = Clip(x, low, high) y = Relu(r)"),
    "clipped twice": (ROWS, "r = Clip(x, low, one) y = Clip(r, zero, high)"),
    "not of less": (ROWS, "g = Greater(x, zero) n = Not(g) y = Where(n, x, half)"),
    "cast there and back": (ROWS, "i = Cast<to = 7>(x) f = Cast<to = 1>(i) y = Add(f, x)"),
    "cast through half": (ROWS, "i = Cast<to = 10>(x) y = Cast<to = 1>(i)"),
    "dropped": (ROWS, "d = Dropout(x) i = Identity(d) y = Neg(i)"),
    "sliced twice": (TOKENS, "a = Slice(x, i1, end, i1) b = Slice(a, i0, i2, i1) y = Neg(b)"),
    "slice by slice": (PICTURE, "a = Slice(x, i0, i1, i1) b = Slice(x, i1, end, i1) y = Concat<axis = 1>(b, a)"),
    "split, joined": (PICTURE, "a, b = Split<axis = 1>(x, parts) n = Neg(a) y = Concat<axis = 1>(b, n)"),
    "gathered": (TOKENS, "g = Gather<axis = 1>(x, place) y = Neg(g)"),
    "reduced without axes": (TOKENS, "r = ReduceMax<axes = [1, 2], keepdims = 0>(x) y = Neg(r)"),
    "same sum twice": (ROWS, "a = Add(x, six) b = Add(x, six) m = Mul(a, b) y = Tanh(m)"),
    "rounded": (ROWS, "q = QuantizeLinear(x, scale, point) d = DequantizeLinear(q, scale, point) y = Relu(d)"),
    "rounded around relu": (
        ROWS,
        "q = QuantizeLinear(x, scale, point) d = DequantizeLinear(q, scale, point) r = Relu(d) "
        "p = QuantizeLinear(r, scale, point) y = DequantizeLinear(p, scale, point)",
    ),
    "rounded, reshaped": (
        TOKENS,
        "q = QuantizeLinear(x, scale, point) d = DequantizeLinear(q, scale, point) r = Reshape(d, "
        "flat) "
        "p = QuantizeLinear(r, scale, point) y = DequantizeLinear(p, scale, point)",
    ),
}
WEIGHTS["whole_flat"] = np.array([0, 8, 5])


def _model(tmp_path: Path, name: str) -> tuple[Path, dict[str, np.ndarray]]:
    given, nodes = GRAPHS[name]
    used = {key: WEIGHTS[key] for key in set(re.findall(r"\w+", nodes)) & WEIGHTS.keys()}
    path = write_onnx(
        tmp_path / "m.onnx", f"g ({given}) => (float[] y) {{ {nodes} }}", used, 19 if "QuantizeLinear" in nodes else 17
    )
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    shape = [dim.dim_value or 2 for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return path, {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_reference_is_what_onnx_says(name: str, tmp_path: Path) -> None:
    path, inputs = _model(tmp_path, name)
    wanted = ReferenceEvaluator(str(path)).run(None, inputs)[0]

    def agrees(found: np.ndarray) -> bool:
        return found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-4, atol=1e-5)

    with load_reference(path) as session:
        assert session.provenance["graph_optimization_level"] == "disable"
        assert agrees(session.run(inputs)["y"])
    far = []
    for level in LEVELS:
        with OrtCpuBackend().load(path, SessionOptions(extra={"graph_optimization_level": level})) as session:
            if not agrees(session.run(inputs)["y"]):
                far.append(level)
    assert tuple(far) == WRONG.get(name, ())
