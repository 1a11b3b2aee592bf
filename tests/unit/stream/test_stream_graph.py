"""Which axes of a signal hold no frames, and outputs' shapes at sizes that nobody ran."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.onnx_text import write_onnx
from tests.streaming_models import attention

from trt_workbench.model.opened import Model
from trt_workbench.stream.contract.graph import StreamGraph

_WEIGHTS = {
    "w3": np.zeros((4, 8, 3), np.float32),
    "w4": np.zeros((4, 1, 3, 3), np.float32),
    "m": np.zeros((8, 5), np.float32),
    "scale": np.ones((8,), np.float32),
    "one": np.asarray([1], np.int64),
    "wi": np.zeros((1, 12, 8), np.float32),
    "wr": np.zeros((1, 12, 3), np.float32),
}


@pytest.mark.parametrize(
    ("shape", "nodes", "expected"),
    [
        ("1,8,20", "y = Conv(x, w3)", {1}),
        ("1,20,8", "t = Transpose <perm = [0, 2, 1]> (x) y = Conv(t, w3)", {2}),
        ("1,20,8", "a = Mul(x, scale) b = Log(a) y = MatMul(b, m)", {2}),
        ("1,20,8", "t = Transpose <perm = [1, 0, 2]> (x) y = GRU <hidden_size = 3> (t, wi, wr)", {0, 2}),
        ("1,20,8", "y = GRU <hidden_size = 3, layout = 1> (x, wi, wr)", {0, 2}),
        ("1,8,1,20", "s = Squeeze(x, two) y = Conv(s, w3)", {1}),
        ("1,20,8", "u = Unsqueeze(x, one) y = Conv(u, w4)", set()),
        ("1,20,8", "y = MatMul(x, x2)", set()),
        ("1,20,8", "r = Reshape(x, flat) y = MatMul(r, m)", set()),
    ],
)
def test_axes_that_layers_sum_over_hold_no_frames(shape: str, nodes: str, expected: set[int], tmp_path: Path) -> None:
    text = f"g (float[{shape}] x, float[1,8,8] x2) => (float[A,B,C] y) {{ {nodes} }}"
    weights = {**_WEIGHTS, "two": np.asarray([2], np.int64), "flat": np.asarray([-1, 8], np.int64)}
    path = write_onnx(tmp_path / "m.onnx", text, weights)
    assert StreamGraph(Model.open(path)).without_frames("x", shape.count(",") + 1) == expected


def test_shapes_of_outputs_at_sizes(tmp_path: Path) -> None:
    graph = StreamGraph(Model.open(attention(tmp_path)))
    assert graph.output_shapes({"B": 2, "T": 9})["encoded"] == (2, 4, 4)
    assert graph.output_shapes({"B": 2, "T": 15})["encoded"] == (2, 4, 7)
    assert graph.output_shapes({"B": 2})["encoded"][2] != 4


def test_operators_that_nobody_knows_tell_no_shape(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[1,T,8] x) => (float[1,T,8] y) { y = Relu(x) }", {})
    model = onnx.load(path)
    model.graph.node[0].domain = "vendor"
    onnx.save(model, path)
    graph = StreamGraph(Model.open(path))
    assert graph.output_shapes({"T": 7}) == {}
    assert graph.without_frames("x", 3) == set()


def test_weights_are_not_needed(tmp_path: Path) -> None:
    text = "g (float[1,T,600] x) => (float[1,T,600] y) { y = MatMul(x, w) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.ones((600, 600), np.float32)})
    graph = StreamGraph(Model.open(path))
    assert graph.without_frames("x", 3) == {2}
    assert graph.output_shapes({"T": 7})["y"] == (1, 7, 600)
