"""Tiny ONNX models whose answers are exact in every precision, and what they must answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
Engines = Callable[[str], Any]
WIDTH = 16
FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
# Small integers: their products and sums are exact in tf32 and fp16, too.
WEIGHTS = np.random.default_rng(1).integers(-3, 4, (WIDTH, 5)).astype(np.float32)


def integers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def _model(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: Mapping[str, Array]) -> bytes:
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(*item) for item in inputs],
        [helper.make_tensor_value_info(*item) for item in outputs],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def linear(batch: int | str) -> bytes:
    """Y = relu(x W), x [batch, 16], y [batch, 5]."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    return _model(nodes, [("x", FLOAT, [batch, WIDTH])], [("y", FLOAT, [batch, 5])], {"w": WEIGHTS})


def linear_answer(x: Array) -> Array:
    answer: Array = np.maximum(x @ WEIGHTS, 0)
    return answer


def pair() -> bytes:
    """Total = a + b and twice = c + c; a, b float32 [2, 3], c int32 [4]."""
    nodes = [helper.make_node("Add", ["a", "b"], ["total"]), helper.make_node("Add", ["c", "c"], ["twice"])]
    inputs = [("a", FLOAT, [2, 3]), ("b", FLOAT, [2, 3]), ("c", INT32, [4])]
    return _model(nodes, inputs, [("total", FLOAT, [2, 3]), ("twice", INT32, [4])], {})


def recurrent() -> bytes:
    """H_next = h / 2 + x and y = h_next + 1, all [1, 8]."""
    nodes = [
        helper.make_node("Mul", ["h", "half"], ["m"]),
        helper.make_node("Add", ["m", "x"], ["h_next"]),
        helper.make_node("Add", ["h_next", "one"], ["y"]),
    ]
    constants = {"half": np.full((1, 8), 0.5, np.float32), "one": np.ones((1, 8), np.float32)}
    inputs = [("x", FLOAT, [1, 8]), ("h", FLOAT, [1, 8])]
    return _model(nodes, inputs, [("h_next", FLOAT, [1, 8]), ("y", FLOAT, [1, 8])], constants)


def weighted_sum() -> bytes:
    """Y = 2 x + h, all [n]."""
    nodes = [helper.make_node("Mul", ["x", "two"], ["d"]), helper.make_node("Add", ["d", "h"], ["y"])]
    inputs = [("x", FLOAT, ["n"]), ("h", FLOAT, ["n"])]
    return _model(nodes, inputs, [("y", FLOAT, ["n"])], {"two": np.full(1, 2, np.float32)})


def nonzero() -> bytes:
    """Where = the indices of x's elements that are not zero, x [4, 8]; its shape depends on the data."""
    nodes = [helper.make_node("NonZero", ["x"], ["where"])]
    return _model(nodes, [("x", FLOAT, [4, 8])], [("where", INT64, [2, "count"])], {})


def elementwise() -> bytes:
    """Y = relu(x), x [n]."""
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    return _model(nodes, [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])], {})


def pictures() -> bytes:
    """Y = relu(images), images [n, 3, 32, 48]."""
    nodes = [helper.make_node("Relu", ["images"], ["y"])]
    shape = ["n", 3, 32, 48]
    return _model(nodes, [("images", FLOAT, shape)], [("y", FLOAT, shape)], {})


def expand() -> bytes:
    """Y = x repeated to the shape that the second input holds; x [1, 4]."""
    nodes = [helper.make_node("Expand", ["x", "shape"], ["e"]), helper.make_node("Relu", ["e"], ["y"])]
    return _model(nodes, [("x", FLOAT, [1, 4]), ("shape", INT64, [2])], [("y", FLOAT, ["n", "m"])], {})


STEPS = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def streaming(input_axis: int, output_axis: int, batch: int | str = "b", steps: int | str = "t") -> bytes:
    """Y = scale x + h[0, 0], h_next = h / 2 + sum(x) STEPS, k_next = k + 1 for each row of a batch.

    x, y [batch, steps], scale [1], k int64 [batch]; h is [2, 3] a row, with the batch as axis 0 or 1, in h_next as axis
    0 or 1 of its own.
    """

    def shape(axis: int) -> list[int | str]:
        return [batch, 2, 3] if axis == 0 else [2, batch, 3]

    nodes = [
        helper.make_node("ReduceSum", ["x", "one"], ["sum"], keepdims=1),
        helper.make_node("Unsqueeze", ["sum", "zero" if input_axis else "one"], ["spread"]),
        helper.make_node("Mul", ["spread", "steps"], ["news"]),
        helper.make_node("Mul", ["h", "half"], ["old"]),
        helper.make_node("Gather", ["h", "first"], ["layer"], axis=0 if input_axis else 1),
        helper.make_node("Slice", ["layer", "zero", "one", "one"], ["read"]),
        helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "read"], ["y"]),
        helper.make_node("Add", ["k", "one"], ["k_next"]),
    ]
    if input_axis == output_axis:
        nodes.append(helper.make_node("Add", ["old", "news"], ["h_next"]))
    else:
        nodes.append(helper.make_node("Add", ["old", "news"], ["own"]))
        nodes.append(helper.make_node("Transpose", ["own"], ["h_next"], perm=[1, 0, 2]))
    constants = {
        "zero": np.array([0]),
        "one": np.array([1]),
        "first": np.array(0),
        "steps": np.expand_dims(STEPS, input_axis),
        "half": np.array(0.5, np.float32),
    }
    chunk, rows = (FLOAT, [batch, steps]), (INT64, [batch])
    inputs = [("x", *chunk), ("scale", FLOAT, [1]), ("h", FLOAT, shape(input_axis)), ("k", *rows)]
    outputs = [("y", *chunk), ("h_next", FLOAT, shape(output_axis)), ("k_next", *rows)]
    return _model(nodes, inputs, outputs, constants)


def streaming_profiles(input_axis: int) -> list[dict[str, Any]]:
    """First chunks of 7 steps in batches of up to 4, later ones of 4 steps in batches of up to 8."""

    def profile(steps: int, most: int) -> dict[str, Any]:
        sizes = (1, most, most)
        h = {size: (size, 2, 3) if input_axis == 0 else (2, size, 3) for size in sizes}
        return {
            "x": tuple((size, steps) for size in sizes),
            "h": tuple(h[size] for size in sizes),
            "k": tuple((size,) for size in sizes),
        }

    return [profile(7, 4), profile(4, 8)]


LARGE = 600_000  # more words of 16 bytes a row than the threads of one grid


def large_state() -> bytes:
    """H_next = h + x and y = x, h [2, batch, LARGE], x [batch, 1]."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "zero"], ["spread"]),
        helper.make_node("Add", ["h", "spread"], ["h_next"]),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    small, large = (FLOAT, ["b", 1]), (FLOAT, [2, "b", LARGE])
    return _model(nodes, [("x", *small), ("h", *large)], [("y", *small), ("h_next", *large)], {"zero": np.array([0])})


def build(
    native: Any,
    folder: Path,
    name: str,
    model: bytes,
    profiles: Sequence[Mapping[str, Any]] = (),
    values: Mapping[str, Any] | None = None,
    preview_features: Mapping[str, bool] | None = None,
    refit: str = "none",
) -> bytes:
    """Build a plan with the native builder; `profiles` hold (min, opt, max) by input."""
    path = folder / f"{name}.onnx"
    path.write_bytes(model)
    options = native.BuildOptions()
    options.optimization_level = 0
    options.profiling_verbosity = "detailed"
    options.refit = refit
    options.profiles = [native.Profile(shapes=dict(shapes), values=dict(values or {})) for shapes in profiles]
    known = native.option_names()["preview_features"]
    options.preview_features = {name: on for name, on in (preview_features or {}).items() if name in known}
    plan: bytes = native.build_engine(str(path), options).plan
    return plan


# Two ranges of batches; the second follows the first without overlap.
TWO_PROFILES = (
    {"x": ((1, WIDTH), (4, WIDTH), (8, WIDTH))},
    {"x": ((9, WIDTH), (32, WIDTH), (64, WIDTH))},
)
SHARING = {"profile_sharing": True}  # TensorRT 8.6 has it as a preview, later versions always
