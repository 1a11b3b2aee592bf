"""Products count, and are quantised, wherever they stand: in functions, bodies, recurrent layers, shared weights."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.quantize.making import GENERATOR, made

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.opened import Model
from trt_workbench.quantize.settings import CalibrationSettings


def test_products_without_a_quantised_form_count(tmp_path: Path) -> None:
    """The share of the arithmetic is of all of it, and what stays is named."""
    text = """g (float[n,8,8] x) => (float[n,8,8] y) {
      turned = Sin(w) [left] a = MatMul(w, x) [right] b = MatMul(a, w) [made] y = MatMul(b, turned)
    }"""
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    found = made(path, CalibrationSettings(calibration="random")).evidence
    assert found.kept == {"left": "its constant comes first", "made": "its weights are computed"}
    assert (found.low_macs, found.low_weights) == pytest.approx((1 / 3, 1 / 3))


@pytest.mark.parametrize("to", ["fp16", "bf16"])
def test_a_product_of_a_tensor_with_itself_stays_in_fp32_and_does_not_count_as_lowered(tmp_path: Path, to: str) -> None:
    text = """g (float[n,8,8] x) => (float[n,8,8] y) {
      [dense] a = MatMul(x, w) [turned] b = Transpose<perm=[0,2,1]>(a) [square] c = MatMul(a, b) [last] y = MatMul(c, w)
    }"""
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    found = made(path, None, to).evidence
    node = next(one for one in onnx.load(path.with_name(f"m.{to}.onnx")).graph.node if one.name == "square")
    assert all(name.endswith("fp32") for name in node.input)
    assert "square" in found.kept
    assert found.low_macs == pytest.approx((3 - len(found.kept)) / 3)


def test_products_in_functions_of_the_model_are_quantised(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
      g (float[n,8] x) => (float[n,8] y) { a = own.block(x, w) b = own.block(a, w) y = MatMul(b, v) }
      <domain: "own", opset_import: ["" : 17]> block (x, w) => (y) { t = MatMul(x, w) y = Relu(t) }""")
    for name in "wv":
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(8, dtype=np.float32), name))
    onnx.save(model, tmp_path / "m.onnx")
    candidate = made(tmp_path / "m.onnx", CalibrationSettings(calibration="random"))
    assert (candidate.evidence.low_macs, read_precision(Model.open(candidate.path)).counted) == (1.0, 3)
    assert read_precision(Model.open(candidate.path)).text == "int8 (not calibrated)"


def test_weights_that_layers_share_count_once(tmp_path: Path) -> None:
    text = """g (float[n,8] x) => (float[n,2] y) {
      [first] a = MatMul(x, w) b = Relu(a) [second] c = MatMul(b, w) [third] d = MatMul(c, w) [last] y = MatMul(d, v)
    }"""
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32), "v": np.ones((8, 2), np.float32)})
    found = made(path, CalibrationSettings(calibration="random"), keep=("last",)).evidence
    assert (found.low_macs, found.low_weights) == pytest.approx((192 / 208, 64 / 80))


def test_recurrent_layers_and_einsum_count(tmp_path: Path) -> None:
    """Of a model that is one LSTM with a small layer behind it, nothing like 100 % becomes int8."""
    text = """g (float[5,n,8] x) => (float[1,n,12] y) {
      [cell] all, h, c = LSTM<hidden_size=16>(x, w, r, b)
      [dense] d = MatMul(h, v)
      [einsum] y = Einsum<equation="abc, cd -> abd">(d, e)
    }"""
    shapes = {"w": (1, 64, 8), "r": (1, 64, 16), "b": (1, 128), "v": (16, 10), "e": (10, 12)}
    arrays = {name: GENERATOR.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    path = write_onnx(tmp_path / "m.onnx", text, arrays)
    found = made(path, CalibrationSettings(calibration="random")).evidence
    assert found.kept == {"cell": "LSTM has no quantised form", "einsum": "Einsum has no quantised form"}
    matrices = 64 * (8 + 16)
    # 5 steps
    assert found.low_macs == pytest.approx(160 / (5 * matrices + 160 + 120))
    assert found.low_weights == pytest.approx(160 / (matrices + 160 + 120))


LOOPS = {
    # five steps of 8 x 8, as nothing ends the loop before
    "Loop(five, go, x) <body = b (int64 i, bool c, float[n,8] s) => (bool c2, float[n,8] s2) "
    "{ [mul] t = MatMul(s, w) s2 = Relu(t) c2 = Identity(c) }>": 5,
    "Loop(five, go, x) <body = b (int64 i, bool c, float[n,8] s) => (bool c2, float[n,8] s2) "
    "{ [mul] s2 = MatMul(s, w) c2 = Identity(go) }>": 5,
    # how many is not known: it may end at any step
    "Loop(five, go, x) <body = b (int64 i, bool c, float[n,8] s) => (bool c2, float[n,8] s2) "
    "{ [mul] s2 = MatMul(s, w) m = ReduceMax<keepdims=0>(s2) c2 = Less(m, most) }>": 1,
    # no shape of what is carried on is told; what the loop begins with has one
    "Loop(, go, x) <body = b (int64 i, bool c, float[] s) => (bool c2, float[] s2) "
    "{ [mul] s2 = MatMul(s, w) c2 = Not(c) }>": 1,
    # of two branches one runs
    "If(go) <then_branch = t () => (float[n,8] a) { [mul] b = MatMul(x, w) a = MatMul(b, w) }, "
    "else_branch = e () => (float[n,8] d) { d = MatMul(x, w) }>": 2,
    "Loop(five, go, x) <body = b (int64 i, bool c, float[n,8] s) => (bool c2, float[n,8] s2) "
    "{ s2 = If(c) <then_branch = t () => (float[n,8] a) { [mul] a = MatMul(s, w) }, "
    "else_branch = e () => (float[n,8] d) { d = Identity(s) }> c2 = Identity(c) }>": 5,
}


@pytest.mark.parametrize(("body", "times"), LOOPS.items())
def test_products_in_bodies_count(tmp_path: Path, body: str, times: int) -> None:
    """A model whose work is in a Loop or an If is not said to be int8."""
    weights = {
        "w": np.eye(8, dtype=np.float32),
        "v": np.eye(8, dtype=np.float32),
        "five": np.array(5),
        "go": np.array(True),
        "most": np.array(1e9, np.float32),
    }
    text = f"g (float[n,8] x) => (float[n,8] y) {{ [outer] z = {body} [last] y = MatMul(z, v) }}"
    path = write_onnx(tmp_path / "m.onnx", text, weights)
    found = made(path, CalibrationSettings(calibration="random"), keep_sensitive=False).evidence
    assert found.low_macs == pytest.approx(1 / (1 + times))
    assert all("it is in the body of a" in reason for reason in found.kept.values())
    assert any(name.startswith("outer.") and name.endswith("/mul") for name in found.kept)
    assert found.low_weights == pytest.approx(1 / (1 + len(found.kept)))


def test_a_model_of_which_bodies_hold_all_products_is_refused_with_that(tmp_path: Path) -> None:
    text = """g (float[n,8] x, bool go) => (float[n,8] y) {
      y = If(go) <then_branch = t () => (float[n,8] a) { a = MatMul(x, w) },
                  else_branch = e () => (float[n,8] d) { d = Identity(x) }>
    }"""
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    with refused(UsageProblem):
        made(path, CalibrationSettings(calibration="random"))


def test_what_a_scan_goes_over_is_as_long_as_it_is(tmp_path: Path) -> None:
    text = """g (float[n,8] h, float[n,6,8] x) => (float[n,8] y) {
      [scan] z, all = Scan<num_scan_inputs=1, scan_input_axes=[1], body =
        b (float[n,8] s, float[n,8] e) => (float[n,8] s2, float[n,8] o)
        { p = MatMul(e, w) q = MatMul(s, w) s2 = Add(p, q) o = Identity(s2) }>(h, x)
      [last] y = MatMul(z, w)
    }"""
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    found = made(path, CalibrationSettings(calibration="random"), keep_sensitive=False).evidence
    assert found.low_macs == pytest.approx(1 / (1 + 6 * 2))
