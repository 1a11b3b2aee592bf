"""Simulation: standard operators give the formats' values bit for bit, at every optimisation level."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper, numpy_helper
from tests.in_onnxruntime import session
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import refused
from tests.unit.model.low_precision.test_formats import mxfp8_values, nvfp4_values

from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import FORMATS, Format
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.low_precision import formats
from trt_workbench.model.low_precision.blocks import quantize_blocks
from trt_workbench.model.low_precision.preparation import prepare, raise_opset
from trt_workbench.model.low_precision.simulate import simulated
from trt_workbench.model.narrow_formats import narrow_formats
from trt_workbench.model.opened import Model

RNG = np.random.default_rng(0)
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")
BLOCKED: tuple[Any, ...] = ("mxfp8", "nvfp4")


def bits(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).view(np.uint32)


def model_of(nodes: str, tensors: dict[str, Any] | None = None, opset: int = 23) -> onnx.ModelProto:
    model = parse_onnx(f"g (float[N,64] x) => (float[] y) {{ {nodes} }}", tensors, opset)
    if "trt." in nodes:
        model.opset_import.add(domain="trt", version=1)
    return model


def widened(to: str) -> onnx.ModelProto:
    """Return a model that quantises its input in blocks and widens it again."""
    if to == "mxfp8":
        block = "<axis = -1, block_size = 32>"
        nodes = f"q, s = trt.TRT_MXFP8DynamicQuantize{block}(x) y = trt.TRT_MXFP8DequantizeLinear{block}(q, s)"
        return model_of(nodes)
    block = "<axis = -1, block_size = 16>"
    nodes = f"""q, s = trt.TRT_FP4DynamicQuantize{block}(x, one) t = DequantizeLinear(s, one)
      y = DequantizeLinear{block}(q, t)"""
    return model_of(nodes, {"one": np.float32(1)})


SESSIONS = {to: session(simulated(widened(to))) for to in BLOCKED}


@np.errstate(over="ignore")  # the largest floats are rounded up
def expected(to: str, values: np.ndarray) -> np.ndarray:
    if to == "mxfp8":
        return mxfp8_values(values)
    return nvfp4_values(*formats.nvfp4(values, 1.0))


def every(dtype: Any) -> np.ndarray:
    """All finite values of a type of 16 bits, as rows of 64, neighbours together and apart."""
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    values = values[np.isfinite(values)]
    values = values[: len(values) // 64 * 64]
    return np.concatenate([values.reshape(-1, 64), values.reshape(64, -1).T])


@pytest.mark.parametrize("to", BLOCKED)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_value_of_16_bits_in_blocks(to: str, dtype: Any) -> None:
    values = every(dtype)
    (found,) = SESSIONS[to].run(None, {"x": values})
    assert np.array_equal(bits(found), bits(expected(to, values)))


@pytest.mark.parametrize("to", BLOCKED)
@settings(deadline=None, max_examples=150)
@given(values=hnp.arrays(np.float32, (2, 64), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_any_block(to: str, values: np.ndarray) -> None:
    (found,) = SESSIONS[to].run(None, {"x": values})
    assert np.array_equal(bits(found), bits(expected(to, values)))


@pytest.mark.parametrize("to", BLOCKED)
@pytest.mark.parametrize("level", LEVELS)
def test_powers_of_two_zeros_and_neighbours_of_448(to: str, level: str) -> None:
    powers = 2.0 ** np.arange(-149, 128)
    tops = np.concatenate([powers, powers * 1.75, np.nextafter(powers * np.float32(1.75), np.inf)])
    tops = tops[np.isfinite(tops.astype(np.float32))].astype(np.float32)
    values = np.zeros((len(tops) + 1, 64), np.float32)
    values[:-1, 3], values[:-1, 40] = tops, -tops
    (found,) = session(simulated(widened(to)), level).run(None, {"x": values})
    assert np.array_equal(bits(found), bits(expected(to, values)))


@pytest.mark.parametrize("to", BLOCKED)
def test_nan_is_seen(to: str) -> None:
    values = np.ones((1, 64), np.float32)
    values[0, 5] = np.nan
    (found,) = SESSIONS[to].run(None, {"x": values})
    assert np.isnan(found[0, 5])
    assert np.isfinite(found[0, 32:]).all()


@pytest.mark.parametrize("count", [(), 64])
@pytest.mark.parametrize("axis", ["", "<axis = 1>"])  # 1 is the default, too
def test_fp8_pairs_give_what_onnx_runtime_gives_where_it_can(axis: str, count: Any) -> None:
    # at the level basic, with the Q and DQ nodes themselves; with more it fails
    scales = np.asarray(RNG.uniform(0.01, 0.03, count), np.float32)
    codes = RNG.standard_normal((64, 8)).astype(ml_dtypes.float8_e4m3fn)
    nodes = f"""q = QuantizeLinear{axis}(x, s, z) d = DequantizeLinear{axis}(q, s, z)
      v = DequantizeLinear{axis}(w, t) y = MatMul(d, v)"""
    zeros = np.zeros(scales.shape, ml_dtypes.float8_e4m3fn)
    more = {"w": codes, "t": RNG.uniform(0.1, 0.2, 8).astype(np.float32)}
    model = model_of(nodes, {"s": scales, "z": zeros, **more}, opset=21)
    x = RNG.standard_normal((5, 64)).astype(np.float32)
    (theirs,) = session(model, "ORT_ENABLE_BASIC").run(None, {"x": x})
    with pytest.raises(Exception, match="float8e4m3fn"):
        session(model)
    assert narrow_formats(model) == ("fp8",)
    (ours,) = session(simulated(model)).run(None, {"x": x})
    assert np.allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("to", BLOCKED)
def test_a_quantised_model_multiplies_the_formats_values(tmp_path: Path, to: Any) -> None:
    text = """g (float[N,3,64] x, float[M,64] z) => (float[N,3,8] y, float[M,8] u) {
      [one] y = MatMul(x, w) [two] u = Gemm<transB=1>(z, v, bias)
    }"""
    w, v = (RNG.standard_normal(shape).astype(np.float32) for shape in ((64, 8), (8, 64)))
    path = write_onnx(tmp_path / "a.onnx", text, {"w": w, "v": v, "bias": np.arange(8, dtype=np.float32)})
    model, groups = prepare(Model.open(path))
    model = raise_opset(model, to, path)
    quantize_blocks(model, groups, to)
    assert narrow_formats(model) == (to,)
    rewritten = simulated(model)
    onnx.checker.check_model(rewritten, full_check=True)
    x, z = (RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 64), (5, 64)))
    y, u = session(rewritten).run(None, {"x": x, "z": z})

    def weight(values: np.ndarray) -> np.ndarray:
        if to == "mxfp8":
            return expected(to, values)
        return nvfp4_values(*formats.nvfp4(values))

    assert np.allclose(y, expected(to, x) @ weight(w.T).T, rtol=1e-5, atol=1e-5)
    assert np.allclose(u, expected(to, z) @ weight(v).T + np.arange(8), rtol=1e-5, atol=1e-5)


def rounded_by(row: Format, values: np.ndarray) -> np.ndarray:
    """Return values in a format, by the package that has it; a conversion of QuantizeLinear keeps the largest."""
    dtype = np.dtype(getattr(ml_dtypes, row.numpy, row.numpy))
    clipped = np.clip(values if row.is_float else np.rint(values), -row.largest - (not row.is_float), row.largest)
    return clipped.astype(dtype).astype(np.float32)


@pytest.mark.parametrize("row", [one for one in FORMATS if one.is_quantised and one.onnx], ids=lambda one: one.name)
def test_every_format_of_the_table_is_found_and_computed(row: Format, tmp_path: Path) -> None:
    kind = TensorProto.DataType.Value(row.onnx[0])
    half, opset = {"s": np.float32(0.5)}, max(21, row.since)
    pair = f"q = QuantizeLinear<output_dtype = {kind}>(x, s) y = DequantizeLinear(q, s)"
    model = model_of(pair, half, opset)
    assert narrow_formats(model) == (row.name,)
    product = model_of(pair.replace("y =", "d =") + " y = MatMul(d, d)", half, opset)
    assert read_precision(Model.open(write(tmp_path, product))).label == row.name
    x = np.clip(every(np.float16), -row.largest, row.largest) * np.float32(0.5)
    (found,) = session(model if row.cpu else simulated(model)).run(None, {"x": x})
    assert np.array_equal(found, rounded_by(row, x * 2) * np.float32(0.5))


def test_a_format_that_the_table_lacks_is_named(tmp_path: Path) -> None:
    kind = TensorProto.DataType.Value("FLOAT6E2M3")
    model = model_of(
        f"q = QuantizeLinear<output_dtype = {kind}>(x, s) y = DequantizeLinear(q, s)", {"s": np.float32(1)}, 28
    )
    assert narrow_formats(model) == ("float6e2m3",)
    with refused(UsageProblem):
        OrtCpuBackend().load(write(tmp_path, model))


def write(folder: Path, model: onnx.ModelProto) -> Path:
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def test_the_nodes_that_model_optimizer_writes() -> None:
    codes = RNG.standard_normal((64, 4)).astype(ml_dtypes.float8_e4m3fn)
    nodes = """q = trt.TRT_FP8QuantizeLinear(x, s) d = trt.TRT_FP8DequantizeLinear(q, s)
      w = Constant() v = trt.TRT_FP8DequantizeLinear(w, s) y = MatMul(d, v)"""
    model = model_of(nodes, {"s": np.float32(0.25)}, opset=17)
    model.graph.node[2].attribute.append(helper.make_attribute("value", numpy_helper.from_array(codes)))
    assert narrow_formats(model) == ("fp8",)
    x = RNG.standard_normal((3, 64)).astype(np.float32)
    (found,) = session(simulated(model)).run(None, {"x": x})
    activations = formats.e4m3(x / np.float32(0.25)).astype(np.float32) * np.float32(0.25)
    assert np.allclose(found, activations @ (codes.astype(np.float32) * 0.25), rtol=1e-5, atol=1e-6)


def test_the_given_model_is_unchanged() -> None:
    model = widened("nvfp4")
    before = model.SerializeToString(deterministic=True)
    simulated(model)
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    "nodes",
    [
        f"q = Cast<to = {TensorProto.FLOAT8E4M3FN}>(x) [active] r = Relu(q) y = Cast<to = 1>(r)",
        "[n] q, s = trt.TRT_MXFP8DynamicQuantize<axis = 0, block_size = 32>(x)"
        " y = trt.TRT_MXFP8DequantizeLinear<axis = 0, block_size = 32>(q, s)",
        f"[n] q = Cast<to = {TensorProto.FLOAT8E4M3FN}, saturate = 0>(x) y = Cast<to = 1>(q)",
    ],
)
def test_what_has_no_simulation_is_named(nodes: str) -> None:
    with refused(UsageProblem):
        simulated(model_of(nodes))


def test_inputs_in_such_a_format_are_refused() -> None:
    model = model_of("y = Cast<to = 1>(x)")
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    with refused(UsageProblem):
        simulated(model)


def test_a_constant_that_branches_read_too(tmp_path: Path) -> None:
    text = """g (float[4,4] x, bool flag) => (float[4,4] y, float[4,4] z) {
      wide = DequantizeLinear(codes, scale)
      z = Mul(x, wide)
      y = If(flag) <then_branch = t () => (float[4,4] then) { then = MatMul(x, wide) },
                    else_branch = e () => (float[4,4] other) { other = Add(x, wide) }>
    }"""
    codes = np.arange(16).reshape(4, 4).astype(ml_dtypes.float8_e4m3fn)
    path = write_onnx(tmp_path / "branch.onnx", text, {"codes": codes, "scale": np.float32(0.5)}, opset=19)
    loaded = session(simulated(onnx.load(path)))
    x, wide = np.eye(4, dtype=np.float32), codes.astype(np.float32) / 2
    for flag, expected in ((True, x @ wide), (False, x + wide)):
        y, z = loaded.run(None, {"x": x, "flag": np.array(flag)})
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(z, x * wide)


@pytest.mark.parametrize("to", ["mxfp8", "nvfp4"])
def test_what_stands_before_a_branch_keeps_its_constants(tmp_path: Path, to: Any) -> None:
    text = """g (float[4,64] x, bool flag) => (float[4,64] y) {
      a = MatMul(x, w)
      y = If(flag) <then_branch = t () => (float[4,64] then) { then = Abs(a) },
                    else_branch = e () => (float[4,64] other) { other = Neg(a) }>
    }"""
    path = write_onnx(tmp_path / "branch.onnx", text, {"w": np.eye(64, dtype=np.float32)})
    model, groups = prepare(Model.open(path))
    model = raise_opset(model, to, path)
    quantize_blocks(model, groups, to)
    loaded = session(simulated(model))
    x = np.tile(np.float32([1, 2, 3, 4]), (4, 16))
    for flag, expected in ((True, x), (False, -x)):
        (y,) = loaded.run(None, {"x": x, "flag": np.array(flag)})
        np.testing.assert_allclose(y, expected, rtol=0.1)


@pytest.mark.parametrize("taken", [True, False])
def test_a_constant_of_one_branch_is_none_of_the_other(taken: bool) -> None:
    """Both branches call their codes `k`: in the one they are a constant, in the other they are of the input."""
    codes = np.array([1, 2, 4], ml_dtypes.float8_e4m3fn)
    model = parse_onnx(
        """g (float[3] x, bool c) => (float[3] y) { y = If(c) <
        then_branch = t () => (float[3] p) { k = Identity(x) p = Neg(k) },
        else_branch = e () => (float[3] p) { k = QuantizeLinear(x, one, zero) p = DequantizeLinear(k, one) }> }""",
        {"one": np.float32(1)},
        opset=23,
    )
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((), ml_dtypes.float8_e4m3fn), "zero"))
    constant = onnx.helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(codes))
    then = next(one.g for one in model.graph.node[0].attribute if one.name == "then_branch")
    widened = onnx.helper.make_node("DequantizeLinear", ["k", "one"], ["p"])
    del then.node[:]
    then.node.extend([constant, widened])
    x = np.array([3, 5, 7], np.float32)
    (found,) = session(simulated(model)).run(None, {"x": x, "c": np.array(taken)})
    np.testing.assert_array_equal(found, codes.astype(np.float32) if taken else [3, 5, 7])
