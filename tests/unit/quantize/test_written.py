"""Candidates are loaded and run compared with their model before they are called written."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import held, refused

from trt_workbench.backends.registry import load_reference
from trt_workbench.core.errors import CheckFailed
from trt_workbench.model.low_precision.preparation import Lowered
from trt_workbench.model.opened import Model
from trt_workbench.quantize import candidates
from trt_workbench.quantize.candidates import evidence_path, make_candidate
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings
from trt_workbench.quantize.written import check_written

WEIGHTS = {"w": np.eye(8, dtype=np.float32) * 1e4, "k": np.float32(100), "s": np.float32(1e-6)}
# products of different tensors, of which no rule knows that they leave the range
HEAD = "a = MatMul(x, w) b = Abs(a) c = Add(b, k) "


@pytest.mark.parametrize("tail", ["d = Mul(a, c) y = Mul(d, s)", "d = Mul(b, c) q = Sqrt(d) y = Div(a, q)"])
def test_a_candidate_that_is_wrong_is_not_written(tmp_path: Path, tail: str) -> None:
    path = write_onnx(tmp_path / "m.onnx", f"g (float[N,8] x) => (float[N,8] y) {{ {HEAD} {tail} }}", WEIGHTS)
    output = tmp_path / "out" / "h.onnx"
    with refused(CheckFailed):
        make_candidate(Model.open(path), "fp16", output)
    assert not output.exists()
    assert not evidence_path(output).exists()
    assert list(output.parent.iterdir()) == []
    assert make_candidate(Model.open(path), "fp16", output, check=False).path == output
    assert not [note for note in make_candidate(Model.open(path), "bf16", output).evidence.notes if "off by" in note]


@pytest.mark.parametrize("made", ["a = EyeLike<dtype = 10>(w)", "a = Cast<to = 10>(w)", "a = NoSuchOperator(w)"])
def test_a_candidate_that_does_not_load_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    text = "g (float[N,8] x) => (float[N,8] y) { y = MatMul(x, w) }"
    path = write_onnx(tmp_path / "m.onnx", text, WEIGHTS)
    broken = parse_onnx("g (float[N,8] x) => (float[N,8] y) { " + made + " y = MatMul(x, a) }", WEIGHTS)
    monkeypatch.setattr(candidates, "lowered", lambda *_: Lowered(broken))
    with refused(CheckFailed):
        make_candidate(Model.open(path), "fp16", tmp_path / "h.onnx")
    assert not (tmp_path / "h.onnx").exists()


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    text = "g (float[N,8] x) => (float[5,K] y) { p = MatMul(x, w) y = Reshape(p, shape) }"
    path = write_onnx(tmp_path / "m.onnx", text, WEIGHTS | {"shape": np.array([5, -1])})
    (note,) = check_written(Model.open(path), path, "fp16")
    held(note)
    plugin = write_onnx(tmp_path / "p.onnx", "g (float[N,8] x) => (float[N,8] y) { y = MatMul(x, w) }", WEIGHTS)
    model = onnx.load(plugin)
    model.graph.node[0].op_type, model.graph.node[0].domain = "NoSuchPlugin", "no.such"
    model.opset_import.append(onnx.helper.make_opsetid("no.such", 1))
    onnx.save(model, plugin)
    (note,) = check_written(Model.open(plugin), plugin, "fp16")
    held(note)


def test_random_models_are_run_and_images_get_larger_sizes(tmp_path: Path) -> None:
    nodes = "r = RandomNormalLike(x) a = Add(x, r) y = MatMul(a, w)"
    path = write_onnx(tmp_path / "m.onnx", f"g (float[N,8] x) => (float[N,8] y) {{ {nodes} }}", WEIGHTS)
    assert check_written(Model.open(path), path, "fp16") == ()
    text = "g (float[N,3,h,w] x) => (float[N,4,a,b] y) { y = Conv<kernel_shape = [9, 9]>(x, k) }"
    image = write_onnx(tmp_path / "i.onnx", text, {"k": np.ones((4, 3, 9, 9), np.float32)})
    assert check_written(Model.open(image), image, "fp16") == ()


def test_a_model_that_declares_another_rank_than_it_returns_is_made_in_newer_operator_sets(tmp_path: Path) -> None:
    """ONNX's inference sees in operator set 19 what it does not in 12, and ONNX Runtime runs both."""
    nodes = """size = Shape(x) rows = Gather(size, zero) first = Unsqueeze<axes = [0]>(rows)
      target = Concat<axis = 0>(one, first, eight) p = MatMul(x, w) y = Reshape(p, target)"""
    constants = {"zero": np.int64(0), "one": np.array([1]), "eight": np.array([8])}
    text = f"g (float[N,8] x) => (float[1,length] y) {{ {nodes} }}"
    path = write_onnx(tmp_path / "m.onnx", text, WEIGHTS | constants, opset=12)
    data = tmp_path / "a.npy"
    np.save(data, np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32))
    placement = PlacementSettings(keep_sensitive=False)
    settings = CalibrationSettings(calibration=str(data))
    made = make_candidate(Model.open(path), "fp8", tmp_path / "f.onnx", calibration=settings, placement=placement)
    with load_reference(made.path) as session:
        assert session.run({"x": np.ones((2, 8), np.float32)})["y"].shape == (1, 2, 8)
    # nothing but the rank is forgiven: ONNX Runtime orders nodes by itself
    newer = onnx.load(made.path)
    newer.graph.node.append(newer.graph.node.pop(0))
    onnx.save(newer, tmp_path / "newer.onnx")
    with refused(CheckFailed):
        check_written(Model.open(path), tmp_path / "newer.onnx", "fp8")


def test_an_output_that_is_declared_as_a_scalar_stays_one(tmp_path: Path) -> None:
    """ONNX's converter of a Softmax drops its shape. Paddle's exporter declares what it does not know so."""
    nodes = "p = MatMul(x, w) size = Neg(minus) q = Reshape(p, size) y = Softmax(q)"
    text = f"g (float[N,8] x) => (float y) {{ {nodes} }}"
    path = write_onnx(tmp_path / "m.onnx", text, WEIGHTS | {"minus": np.array([1, -8])}, opset=11)
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.shape.SetInParent()
    onnx.save(model, path)
    data = tmp_path / "a.npy"
    np.save(data, np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32))
    settings, placement = CalibrationSettings(calibration=str(data)), PlacementSettings(keep_sensitive=False)
    made = make_candidate(Model.open(path), "int8", tmp_path / "i.onnx", calibration=settings, placement=placement)
    assert Model.open(made.path).facts.outputs[0].shape == ()
    assert made.evidence.notes == ()


def test_a_model_with_the_batch_of_its_trace_is_compared(tmp_path: Path) -> None:
    text = "g (float[batch,s,8] x) => (float[1,s,8] y) { p = Reshape(x, shape) y = MatMul(p, w) }"
    path = write_onnx(tmp_path / "m.onnx", text, WEIGHTS | {"shape": np.array([1, 64, 8])})
    assert check_written(Model.open(path), path, "fp16") == ()
