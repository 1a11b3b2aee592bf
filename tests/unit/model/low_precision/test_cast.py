"""Models in fp16 and bf16: what is cast, what stays, and that the results are those of the float model."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from tests.in_onnxruntime import run
from tests.onnx_text import write_onnx
from tests.random_models import write_model
from tests.texts import held, refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.low_precision.cast import cast_model
from trt_workbench.model.low_precision.preparation import DoesNotApply, Lowered, raise_opset
from trt_workbench.model.low_precision.simulate import simulated
from trt_workbench.model.opened import Model

RNG = np.random.default_rng(0)
TYPES = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}


def weights(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: RNG.standard_normal(shape).astype(np.float32) * 0.3 for name, shape in shapes.items()}


def lowered(path: Path, to: Any = "fp16", keep: tuple[str, ...] = ()) -> Lowered:
    result = cast_model(Model.open(path).load(), to, keep)
    onnx.checker.check_model(result.model, full_check=True)
    return result


def input_types(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Return the element types that each named node reads."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.input, *graph.output)}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            types[node.output[0]] = node.attribute[0].t.data_type
    return {node.name: [types[name] for name in node.input if name] for node in graph.node}


NETWORK = """g (float[N,3,8,8] x) => (float[N,5] y, float[N,4,16,16] up) {
  [conv] a = Conv<pads=[1,1,1,1]>(x, w0, bias)
  [relu] b = Relu(a)
  [resize] up = Resize<mode="nearest">(b, , scales)
  [pool] c = GlobalAveragePool(up)
  [flat] d = Flatten(c)
  [last] y = Gemm(d, w1)
}"""


@pytest.mark.parametrize("to", ["fp16", "bf16"])
def test_a_network_with_its_inputs_and_outputs_in_fp32(tmp_path: Path, to: Any) -> None:
    given_weights = weights(w0=(4, 3, 3, 3), bias=(4,), w1=(4, 5)) | {"scales": np.float32([1, 1, 2, 2])}
    path = write_onnx(tmp_path / "a.onnx", NETWORK, given_weights, opset=13)
    model = raise_opset(Model.open(path).load(), to, path)
    result = cast_model(model, to)
    onnx.checker.check_model(result.model, full_check=True)
    assert {tensor.name: tensor.data_type for tensor in result.model.graph.initializer} == {
        f"w0_{to}": TYPES[to],
        f"bias_{to}": TYPES[to],
        f"w1_{to}": TYPES[to],
        "scales": TensorProto.FLOAT,
    }
    found = input_types(result.model)
    assert found["conv"] == [TYPES[to]] * 3
    assert found["resize"] == [TYPES[to], TensorProto.FLOAT]
    assert not result.kept
    assert not result.notes
    x = RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)
    ours = run(result.model if to == "fp16" else simulated(result.model), {"x": x})
    for expected, got in zip(run(Model.open(path).load(), {"x": x}), ours, strict=True):
        assert got.dtype == np.float32
        difference = np.abs(got - expected).max() / np.abs(expected).max()
        assert 0 < difference < {"fp16": 2e-3, "bf16": 2e-2}[to]


def test_bf16_rounds_every_result_and_sums_products_in_fp32(tmp_path: Path) -> None:
    text = "g (float[4,64] x) => (float[4,8] y) { a = MatMul(x, w) b = Relu(a) y = Mul(a, b) }"
    path = write_onnx(tmp_path / "a.onnx", text, weights(w=(64, 8)))
    x = RNG.standard_normal((4, 64)).astype(np.float32)

    def bf16(values: np.ndarray) -> np.ndarray:
        return values.astype(ml_dtypes.bfloat16).astype(np.float32)

    (weight,) = (onnx.numpy_helper.to_array(one) for one in Model.open(path).load().graph.initializer)
    product = bf16(bf16(x) @ bf16(weight))
    (found,) = run(simulated(lowered(path, "bf16").model), {"x": x})
    assert np.mean(found == bf16(product * np.maximum(product, 0))) > 0.95  # the sums' order is the runtime's


def test_positions_stay_in_fp32(tmp_path: Path) -> None:
    text = """g (int64[S] ids, float[S,4] x) => (float[S,4] y) {
      zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() shape = Shape(ids)
      first = Constant<value = int64[1] {0}>() size = Squeeze(shape, first)
      place = Range(zero, size, one) float_place = Cast<to=1>(place) last = Constant<value = int64[1] {1}>()
      column = Unsqueeze(float_place, last)
      [angle] angle = Mul(column, inverse) [cos] c = Cos(angle) [out] y = Mul(x, c)
    }"""
    path = write_onnx(tmp_path / "a.onnx", text, {"inverse": np.float32([1, 0.1, 0.01, 0.001])})
    result = lowered(path)
    found = input_types(result.model)
    assert found["angle"] == found["cos"][:1] * 2 == [TensorProto.FLOAT] * 2
    assert found["out"] == [TensorProto.FLOAT16] * 2
    inputs = {"ids": np.zeros(6001, np.int64), "x": np.ones((6001, 4), np.float32)}
    assert np.abs(run(result.model, inputs)[0] - run(Model.open(path).load(), inputs)[0]).max() < 1e-3


def test_a_normalisation_of_large_values_stays_finite(tmp_path: Path) -> None:
    text = """g (float[2,16] x) => (float[2,16] y) {
      two = Constant<value = float {2.0}>() [square] a = Pow(x, two) [mean] b = ReduceMean<axes=[-1]>(a)
      tiny = Constant<value = float {0.000001}>() [plus] c = Add(b, tiny) [root] d = Sqrt(c) [norm] e = Div(x, d)
      [scaled] y = Mul(e, w)
    }"""
    path = write_onnx(tmp_path / "a.onnx", text, weights(w=(16,)))
    x = RNG.uniform(500, 2000, (2, 16)).astype(np.float32)
    result = lowered(path)
    found = input_types(result.model)
    assert {found[name][0] for name in ("square", "mean", "plus", "root")} == {TensorProto.FLOAT}
    assert found["norm"] == [TensorProto.FLOAT] * 2  # both are there in fp32, and runtimes fuse them so
    assert found["scaled"] == [TensorProto.FLOAT16] * 2
    (got,), (expected,) = run(result.model, {"x": x}), run(Model.open(path).load(), {"x": x})
    assert np.allclose(got, expected, rtol=5e-3)


@pytest.mark.parametrize(
    ("operation", "value", "reason"),
    [
        ("Mul(x, w)", 1e6, "w has 1e+06, beyond 65504"),
        ("Add(x, w)", 70000.0, "w has 70000, beyond 65504"),
        ("Add(x, w)", 1e-12, "w is 1e-12, which is 0 in fp16"),
    ],
)
def test_constants_that_fp16_cannot_hold_keep_their_node_in_fp32(
    tmp_path: Path, operation: str, value: float, reason: str
) -> None:
    text = f"g (float[2] x) => (float[2] y) {{ [odd] a = {operation} [even] y = Neg(a) }}"
    result = lowered(write_onnx(tmp_path / "a.onnx", text, {"w": np.float32([value])}))
    assert result.kept == {"odd": reason}
    assert input_types(result.model)["odd"] == [TensorProto.FLOAT] * 2


def test_weights_beyond_the_range_are_named_and_stay(tmp_path: Path) -> None:
    values = weights(w=(4, 4))["w"]
    values[1, 2] = -3e38
    path = write_onnx(
        tmp_path / "a.onnx", "g (float[2,4] x) => (float[2,4] y) { [p] a = MatMul(x, w) y = Relu(a) }", {"w": values}
    )
    assert lowered(path).kept == {"p": "w has 3e+38, beyond 65504"}


def test_masks_become_the_largest_value_and_are_noted(tmp_path: Path) -> None:
    text = """g (float[2,3] x, bool[2,3] seen) => (float[2,3] y) {
      zero = Constant<value = float {0.0}>() [mask] m = Where(seen, zero, low) [plus] a = Add(x, m) y = Softmax(a)
    }"""
    path = write_onnx(tmp_path / "a.onnx", text, {"low": np.float32(np.finfo(np.float32).min)})
    result = lowered(path)
    held(*result.notes)
    hidden = np.array([[True, True, False], [False, False, False]])
    (found,) = run(result.model, {"x": np.zeros((2, 3), np.float32), "seen": hidden})
    assert np.allclose(found, [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-3)


@pytest.mark.parametrize("flag", [True, False])
def test_branches_and_what_they_capture(tmp_path: Path, *, flag: bool) -> None:
    text = """g (float[2,4] x, bool flag) => (float[2,4] y) {
      [before] a = MatMul(x, w)
      b = If (flag) <
        then_branch = t () => (float[2,4] t1) { [inner] t0 = MatMul(a, w) t1 = Relu(t0) },
        else_branch = e () => (float[2,4] e1) { e1 = Add(a, x) }
      >
      [after] y = MatMul(b, w)
    }"""
    path = write_onnx(tmp_path / "a.onnx", text, weights(w=(4, 4)))
    inputs = {"x": RNG.standard_normal((2, 4)).astype(np.float32), "flag": np.array(flag)}
    for to in ("fp16", "bf16"):
        model = lowered(path, to).model
        model = simulated(model) if to == "bf16" else model
        (got,), (expected,) = run(model, inputs), run(Model.open(path).load(), inputs)
        assert np.abs(got - expected).max() < 2e-2


def test_a_convolution_without_a_bf16_form_is_named(tmp_path: Path) -> None:
    text = "g (float[1,3,4,4] x) => (float[1,2,4,4] y) { [c] a = Conv(x, w) y = Relu(a) }"
    result = lowered(write_onnx(tmp_path / "a.onnx", text, weights(w=(2, 3, 1, 1))), "bf16")
    assert result.kept == {"c": "Conv has no form in bf16 in operator set 17"}


def test_what_cannot_be_cast_is_refused(tmp_path: Path) -> None:
    text = "g (float[2,4] x) => (float[2,4] y) { y = MatMul(x, w) }"
    old = Model.open(write_onnx(tmp_path / "a.onnx", text, weights(w=(4, 4)), opset=11)).load()
    with refused(UsageProblem):
        cast_model(old, "bf16")
    with refused(UsageProblem):
        cast_model(cast_model(old, "fp16").model, "fp16")
    whole = write_onnx(tmp_path / "b.onnx", "g (int64[2] x) => (int64[2] y) { y = Add(x, x) }")
    with refused(DoesNotApply):
        cast_model(Model.open(whole).load(), "fp16")


RMS = "s = Mul(x, x) m = ReduceMean<axes=[1]>(s) a = Add(m, eps) [root] q = Sqrt(a) [d] y = Div(x, q)"
VARIANCE = "m = ReduceMean<axes=[1]>(x) c = Sub(x, m) y = Mul(c, c)"
SIZES = "n = Shape(x) f = Cast<to=1>(n) y = Mul(f, f)"


@pytest.mark.parametrize("to", ["fp16", "bf16"])
@pytest.mark.parametrize("nodes", [RMS, VARIANCE, SIZES, "y = Pow(x, eps)"])
def test_what_stays_in_fp32_whole_is_said_to_stay_there(tmp_path: Path, nodes: str, to: Any) -> None:
    text = f"g (float[N,4] x) => (float[N,M] y) {{ {nodes} }}".replace("[N,M]", "[2]" if nodes == SIZES else "[N,4]")
    model = Model.open(write_onnx(tmp_path / "a.onnx", text, {"eps": np.float32([2])})).load()
    with refused(DoesNotApply):
        cast_model(model, to)


def test_reasons_for_which_all_stays_are_named(tmp_path: Path) -> None:
    text = "g (float[2,4] x) => (float[2,4] y) { [one] a = Relu(x) y = Pow(a, two) }"
    model = Model.open(write_onnx(tmp_path / "a.onnx", text, {"two": np.float32(2)})).load()
    with refused(DoesNotApply):
        cast_model(model, "fp16", keep=["one"])
    with refused(DoesNotApply):
        cast_model(model, "fp16", operators=["Relu", "Pow"])


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_any_model_stays_sound(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("random") / "model.onnx"
    write_model(seed, path)
    model = Model.open(path).load()
    try:
        result = cast_model(model, "fp16")
    except UsageProblem:
        return
    onnx.checker.check_model(result.model, full_check=True)
    random = np.random.default_rng(seed)
    inputs = {}
    for value in model.graph.input:
        shape = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
        dtype: Any = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        inputs[value.name] = (
            (random.standard_normal(shape) * 2).astype(dtype)
            if dtype == np.float32
            else random.integers(0, 2, shape).astype(dtype)
        )
    for expected, got in zip(run(model, inputs), run(result.model, inputs), strict=True):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
