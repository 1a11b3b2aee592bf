"""Which inner values leave the range of fp16 or bf16: named, with the range that they have before they are rounded."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from tests.half_models import half_input, half_model
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.overflow import explained, explained_of, overflows
from trt_workbench.backends.registry import get_backend

HALF = "g (float16[N,2] x) => (float16[N,2] y) {{ {} }}"


def found(path: Path, x: Any, precision: str = "fp32") -> list[tuple[str, str, float, float]]:
    given = [{"x": np.asarray(one)} for one in (x if isinstance(x, list) else [x])]
    return [(one.watched.tensor, one.watched.node, one.low, one.high) for one in overflows(path, precision, given)]


def test_the_first_that_leaves_the_range_is_named(tmp_path: Path) -> None:
    nodes = "[grow] a = Mul(x, big) [bend] b = Relu(a) [more] c = Mul(b, big) y = Div(c, c)"
    path = write_onnx(tmp_path / "m.onnx", HALF.format(nodes), {"big": np.float16(300)})
    assert found(path, np.float16([[-1000, 0.5]])) == [("a", "Mul grow", -300000.0, 150.0)]
    assert found(path, np.float16([[-1, 20]])) == [("c", "Mul more", 0.0, 1_800_000.0)]
    assert found(path, np.float16([[-1, 0.5]])) == []
    # over all samples
    both = found(path, [np.float16([[-1000, 20]]), np.float16([[800, 20]])])
    assert both == [("a", "Mul grow", -300000.0, 240000.0), ("c", "Mul more", 0.0, 1_800_000.0)]
    reason = explained(path, "fp32", [{"x": np.float16([[-1000, 0.5]])}])
    held(reason)


def test_what_is_rounded_to_the_largest_value_does_not_leave_it(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", HALF.format("y = Add(x, more)"), {"more": np.float16(15)})
    assert found(path, np.float16([[65504, 0]])) == []
    path = write_onnx(tmp_path / "m.onnx", HALF.format("y = Add(x, more)"), {"more": np.float16(16)})
    assert found(path, np.float16([[65504, 0]])) == [("y", "Add", 0.0, 65520.0)]


def test_a_float_model_that_is_asked_for_in_fp16(tmp_path: Path) -> None:
    text = "g (float[N,2] x) => (float[N,2] y) { [up] a = Mul(x, big) y = Div(a, big) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"big": np.float32(1e5)})
    x = np.float32([[1, -2]])
    assert found(path, x, "fp16") == [("a", "Mul up", -200000.0, 100000.0)]
    assert found(path, x, "fp32") == found(path, x, "bf16") == []
    assert found(path, np.float32([[1e34, 1]]), "bf16") == [("a", "Mul up", 0.0, 100000.0)]
    reason = explained(path, "bf16", [{"x": np.float32([[1e34, 1]])}])
    held(reason)


def test_bf16(tmp_path: Path) -> None:
    text = "g (float[N,2] x) => (float[N,2] y) { a = Cast<to = 16>(x) [up] b = Mul(a, big) y = Cast<to = 1>(b) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"big": np.array(3e38, ml_dtypes.bfloat16)}, 22)
    (one,) = overflows(path, "fp32", [{"x": np.float32([[1.2, 0]])}])
    assert (one.watched.node, one.name) == ("Mul up", "bf16")


RMS = "[sq] s = Mul(x, x) m = ReduceMean<axes=[1], keepdims=1>(s) q = Sqrt(m) "


@pytest.mark.parametrize(
    ("nodes", "x"),
    [
        ("[m] d = Mul(x, small) [d] y = Div(x, d)", [[1e-4, 1]]),
        ("d = Mul(x, small) e = Neg(d) y = Div(x, e)", [[-1e-4, 1]]),
        ("d = Mul(x, small) y = Reciprocal(d)", [[1e-4, 1]]),
        ("d = Mul(x, small) y = Log(d)", [[1e-4, 1]]),
        ("d = Mul(x, small) y = Pow(d, minus)", [[1e-4, 1]]),
    ],
)
def test_a_divisor_that_underflows_is_named(tmp_path: Path, nodes: str, x: Any) -> None:
    more = {"small": np.float16(1e-4), "minus": np.float16(-1)}
    path = write_onnx(tmp_path / "m.onnx", HALF.format(nodes), more)
    reason = explained(path, "fp32", [{"x": np.float16(x)}, {"x": np.float16([[1, 1]])}])
    held(reason)


def test_squares_of_a_norm_that_underflow_are_named(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", HALF.format(RMS + "[d] y = Div(x, q)"))
    x = np.float16([[1e-4, -1e-4]])
    found = explained(path, "fp32", [{"x": x}])
    assert found.startswith(": y (Div d) is infinite because s (Mul sq) underflows to 0: ")
    assert explained(path, "fp32", [{"x": np.float16([[0.5, 1e-4]])}]) == ""


def test_bodies_of_branches_and_loops(tmp_path: Path) -> None:
    text = """g (float16[N,2] x, bool flag, int64 trips) => (float16[N,2] y, float16[N,2] z) {
      y = If(flag) <then_branch = t () => (float16[N,2] then) { [inside] then = Mul(x, big) },
                    else_branch = e () => (float16[N,2] other) { [half] a = Mul(x, small) other = Mul(a, a) }>
      z = Loop(trips, yes, x) <body = b (int64 i, bool c, float16[N,2] h) => (bool d, float16[N,2] k) {
        d = Identity(c) [growth] k = Mul(h, h) }>
    }"""
    more = {"big": np.float16(300), "small": np.float16(0.5), "yes": np.array(True)}
    path = write_onnx(tmp_path / "m.onnx", text, more)
    given = {"x": np.float16([[300, -16]]), "flag": np.array(True), "trips": np.array(0)}
    names = [str(one.watched.node) for one in overflows(path, "fp32", [given])]
    assert names == ["Mul inside"]
    given |= {"flag": np.array(False), "trips": np.array(1)}
    assert [one.watched.node for one in overflows(path, "fp32", [given])] == ["Mul growth"]
    given |= {"x": np.float16([[2, -3]]), "trips": np.array(5)}
    (one,) = overflows(path, "fp32", [given])
    assert (one.watched.tensor, one.watched.node, one.low) == ("k", "Mul growth", 0.0)
    assert one.high == np.float32(np.float16(3**8)) ** 2


@pytest.mark.long
def test_random_models_that_overflow_have_a_name_for_it(tmp_path: Path) -> None:
    for seed in range(30):
        path = tmp_path / f"{seed}.onnx"
        onnx.save(half_model(seed), path)
        x = half_input(seed)
        with OrtCpuBackend().load(path) as session:
            if not np.isfinite(session.run({"x": x})["y"]).all():
                assert "beyond fp16's 65504" in explained_of(session, [{"x": x}]), seed


def test_pytorch_in_fp16_is_explained_too(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from trt_workbench.backends.base import SessionOptions

    text = "g (float[N,2] x) => (float[N,2] y) { [up] a = Mul(x, big) y = Div(a, big) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"big": np.float32(60000)})
    with get_backend("torch").load(path, SessionOptions(precision="fp16")) as session:
        assert np.isinf(session.run({"x": np.float32([[2, 3]])})["y"]).all()
        reason = explained_of(session, [{"x": np.float32([[2, 3]])}])
        held(reason)


def test_what_cannot_be_explained_is_silent(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", HALF.format("y = Mul(x, x)"))
    assert explained(path, "fp16", [{"other": np.float16([1])}]) == ""
    assert explained(tmp_path / "engine.plan", "fp16", [{}]) == ""
    plain = write_onnx(tmp_path / "f.onnx", "g (float[N] x) => (float[N] y) { y = Exp(x) }")
    assert explained(plain, "fp32", [{"x": np.float32([1000])}]) == ""
