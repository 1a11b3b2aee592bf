"""Small ONNX models for the tests of the backends."""

from pathlib import Path

import numpy as np
from tests.onnx_text import write_onnx


def linear(path: Path, batch: int | str = "batch", scale: float = 1.0) -> Path:
    """y = relu(x @ w + b)."""
    graph = f"""g (float[{batch},4] x) => (float[{batch},3] y) {{
      [multiply] xw = MatMul(x, w) [shift] s = Add(xw, b) [rectify] y = Relu(s)
    }}"""
    rng = np.random.default_rng(0)
    weights = {"w": rng.random((4, 3), np.float32) * np.float32(scale), "b": np.zeros(3, np.float32)}
    return write_onnx(path, graph, weights)


def reshaped(path: Path) -> Path:
    """Flatten by way of Shape, Gather and Concat, as exporters write it."""
    graph = """g (float[batch,2,3] x) => (float[batch,flat] y) {
      [shape_of_x] shape = Shape(x) [batch_of_x] batch_size = Gather(shape, zero)
      [as_vector] batch_dim = Unsqueeze(batch_size, axis) [new_shape] target = Concat<axis = 0>(batch_dim, rest)
      [data] s = Sigmoid(x) [flatten] y = Reshape(s, target)
    }"""
    return write_onnx(path, graph, {"zero": np.int64(0), "axis": np.array([0]), "rest": np.array([-1])})


def nonzero(path: Path) -> Path:
    """The indices of non-zero values: as many as the data say."""
    return write_onnx(path, "g (float[n] x) => (int64[1,found] y) { [find] y = NonZero(x) }")
