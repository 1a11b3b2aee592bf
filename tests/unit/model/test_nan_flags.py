"""Which tensors are NaN, and which outputs are behind them."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from tests.onnx_text import parse_onnx

from trt_workbench.model.low_precision.watch import FLAGS, computed_floats, outputs_behind, with_flags

# t is NaN where x is negative, and u is not; ONNX Runtime's Max may pass over it.
GRAPH = """g (float[N,4] x, bool c) => (float[N,4] y, int64[K] n, float[N,4] z) {
  t = Sqrt(x) y = Max(t, x) n = Shape(t) d = Cast<to = 11>(x) h = Cast<to = 10>(d) u = Cast<to = 1>(h)
  z = If(c) <then_branch = a () => (float[N,4] p) { p = Neg(u) }, else_branch = b () => (float[N,4] q) { q = Abs(t) }>
}"""


@pytest.mark.parametrize("opset", [11, 17])
def test_the_flags_count_the_elements_that_are_nan(opset: int, tmp_path: Path) -> None:
    model = parse_onnx(GRAPH, opset=opset)
    names = computed_floats(model)
    assert names == ["t", "y", "d", "h", "u", "z"]
    onnx.save(with_flags(model, names), tmp_path / "m.onnx")
    session = ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    x = np.array([[1, -2, 3, -4]], np.float32)
    flags = session.run([FLAGS], {"x": x, "c": np.array(True)})[0]
    assert dict(zip(names, flags, strict=True)) | {"y": 0} == {"t": 2, "y": 0, "d": 0, "h": 0, "u": 0, "z": 0}
    assert session.run([FLAGS], {"x": x[:, :0].reshape(0, 4), "c": np.array(True)})[0].tolist() == [0] * 6


def test_without_an_operator_for_it_nothing_is_added() -> None:
    model = parse_onnx("g (float[N,4] x) => (float[N,4] y) { y = Sqrt(x) }", opset=8)
    assert with_flags(model, ["y"]) == model


def test_the_outputs_behind_a_tensor_are_those_computed_from_it() -> None:
    model = parse_onnx(GRAPH)
    assert outputs_behind(model, {"t"}) == {"y", "n", "z"}
    assert outputs_behind(model, {"u"}) == {"z"}
    assert outputs_behind(model, set()) == set()
