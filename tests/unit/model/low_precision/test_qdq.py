"""Q/DQ pairs: where they stand, and what they make of weights."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from tests.in_onnxruntime import Samples, run
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.constants import constants
from trt_workbench.model.low_precision.preparation import prepare, raise_opset
from trt_workbench.model.low_precision.qdq import insert_pairs, quantised_weight, ranged_tensors
from trt_workbench.model.opened import Model

GENERATOR = np.random.default_rng(0)
BLOCK = """g (float[1,4,8,8] x) => (float[1,3] y, float[1,12,8,8] joined) {
  [first] a = Conv<pads=[1,1,1,1]>(x, w0)
  [second] b = Conv<pads=[1,1,1,1]>(a, w1, bias)
  [sum] c = Add(b, a)
  [up] d = ConvTranspose(c, w2)
  [join] joined = Concat<axis=1>(c, d)
  [pool] e = GlobalAveragePool(joined)
  [flat] f = Flatten(e)
  [gemm] g1 = Gemm<transB=1>(f, w3)
  [last] y = MatMul(g1, w4)
}"""


def weights() -> dict[str, np.ndarray]:
    shapes = {"w0": (4, 4, 3, 3), "w1": (4, 4, 3, 3), "bias": (4,), "w2": (4, 8, 1, 1), "w3": (5, 12), "w4": (5, 3)}
    return {name: GENERATOR.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def quantised(path: Path, to: Any = "int8", *, low: set[str] | None = None, compact: bool = False) -> onnx.ModelProto:
    model, groups = prepare(Model.open(path))
    groups = tuple(group for group in groups if low is None or group.name in low)
    thresholds = dict.fromkeys(ranged_tensors(model, groups), 4.0)
    model = raise_opset(model, to, path)
    insert_pairs(model, groups, thresholds, to, compact=compact)
    onnx.checker.check_model(model, full_check=True)
    return model


def feeders(model: onnx.ModelProto) -> dict[str, list[str]]:
    """Return, by node, what makes each of its inputs: an operator, or "" for inputs and constants."""
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    return {node.name: [makers.get(name, "") for name in node.input] for node in model.graph.node}


@pytest.fixture
def block(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "block.onnx", BLOCK, weights())


def test_pairs_stand_in_front_of_what_multiplies_and_of_a_residual(block: Path) -> None:
    found = feeders(quantised(block))
    pair = "DequantizeLinear"
    assert found["first"] == [pair, pair]
    assert found["second"] == [pair, pair, ""]  # no pair on the bias
    assert found["sum"] == ["Conv", pair]  # the convolution is fused, the other input is int8
    assert found["up"] == [pair, pair]
    assert found["join"] == ["Add", "ConvTranspose"]  # stays float
    assert found["gemm"] == [pair, pair]
    assert found["last"] == [pair, pair]
    assert found["pool"] == ["Concat"]


def test_a_convolution_behind_pairs_says_the_size_of_its_kernel(block: Path) -> None:
    """TensorRT's parser takes it from constants alone: "shape misaligns with the input kernel shape" on an H200."""
    said = {
        node.name: [*one.ints]
        for node in quantised(block).graph.node
        for one in node.attribute
        if one.name == "kernel_shape"
    }
    assert said == {"first": [3, 3], "second": [3, 3], "up": [1, 1]}


def test_a_residual_stays_float_where_its_convolution_does(block: Path) -> None:
    found = feeders(quantised(block, low={"first", "up"}))
    assert found["sum"] == ["Conv", "Conv"]
    assert found["second"] == ["Conv", "", ""]


@pytest.mark.parametrize(("name", "axis", "length"), [("w0", 0, 4), ("w2", 1, 8), ("w3", 0, 5), ("w4", 1, 3)])
def test_weights_have_a_scale_for_every_output_channel(block: Path, name: str, axis: int, length: int) -> None:
    model = quantised(block)
    values = constants(model.graph)
    nodes = [node for node in model.graph.node if node.name.startswith(f"{name}_")]
    assert [node.op_type for node in nodes] == ["QuantizeLinear", "DequantizeLinear"]
    assert nodes[0].input[0] == name  # float weights under QuantizeLinear, as TensorRT 8.6 wants
    for node in nodes:
        assert {entry.name: entry.i for entry in node.attribute}["axis"] == axis
        scale, zero = (values[one] for one in node.input[1:])
        assert scale.shape == zero.shape == (length,)
        assert zero.dtype == np.int8
        assert not zero.any()
    others = tuple(one for one in range(values[name].ndim) if one != axis)
    np.testing.assert_allclose(values[nodes[0].input[1]] * 127, np.abs(values[name]).max(axis=others), rtol=1e-6)


def test_compact_weights_are_the_integers_and_compute_the_same(block: Path) -> None:
    feed = {"x": GENERATOR.standard_normal((1, 4, 8, 8)).astype(np.float32)}
    made = [quantised(block), quantised(block, compact=True)]
    results = [run(model, feed, "ORT_ENABLE_BASIC") for model in made]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    initial = [{tensor.name for tensor in model.graph.initializer} for model in made]
    assert "w0" in initial[0]
    assert "w0" not in initial[1]


@pytest.mark.parametrize("to", ["int8", "fp8"])
def test_the_result_is_near_the_float_model(block: Path, to: str) -> None:
    feeds = [{"x": GENERATOR.uniform(-1, 1, (1, 4, 8, 8)).astype(np.float32)} for _ in range(8)]
    model, groups = prepare(Model.open(block))
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    names = [name for name in ranged_tensors(model, groups) if name != "x"]
    wide.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in names)
    expected = [run(wide, feed, "ORT_ENABLE_BASIC") for feed in feeds]
    largest = {name: max(float(np.abs(one[place]).max()) for one in expected) for place, name in enumerate(names, 2)}
    model = raise_opset(model, to, block)  # type: ignore[arg-type]
    insert_pairs(model, groups, {"x": 1.0, **largest}, to)  # type: ignore[arg-type]
    found = [run(model, feed, "ORT_ENABLE_BASIC") for feed in feeds]
    for place in range(2):
        one, other = (np.stack([each[place] for each in runs]) for runs in (found, expected))
        assert 0 < np.linalg.norm(one - other) / np.linalg.norm(other) < (0.04 if to == "int8" else 0.15)


@given(
    hnp.arrays(
        np.float32, hnp.array_shapes(min_dims=2, max_dims=4, max_side=5), elements=st.floats(-1e6, 1e6, width=32)
    ),
    st.data(),
)
@settings(deadline=None, max_examples=80)
def test_a_weight_comes_back_within_half_a_step(values: np.ndarray, data: st.DataObject) -> None:
    axis = data.draw(st.one_of(st.none(), st.integers(0, values.ndim - 1)))
    codes, scales = quantised_weight(values, axis, "int8")
    assert codes.dtype == np.int8
    assert codes.shape == values.shape
    assert np.abs(codes.astype(int)).max(initial=0) <= 127
    shape = [-1 if one == axis else 1 for one in range(values.ndim)]
    steps = scales.reshape(shape) if axis is not None else scales
    assert (np.abs(codes * steps.astype(np.float64) - values) <= steps * 0.5001).all()


def test_integers_and_scales_are_those_of_onnx_runtimes_quantiser(tmp_path: Path) -> None:
    text = "g (float[1,4,8,8] x) => (float[1,4,8,5] y) { [c] a = Conv<pads=[1,1,1,1]>(x, w) [m] y = MatMul(a, v) }"
    arrays = {"w": weights()["w0"], "v": GENERATOR.standard_normal((8, 5)).astype(np.float32)}
    path = write_onnx(tmp_path / "m.onnx", text, arrays)

    samples = Samples([{"x": np.ones((1, 4, 8, 8), np.float32)}])
    symmetric = {"ActivationSymmetric": True, "WeightSymmetric": True}
    quantize_static(
        path, tmp_path / "ort.onnx", samples, quant_format=QuantFormat.QDQ, per_channel=True,
        weight_type=QuantType.QInt8, activation_type=QuantType.QInt8, extra_options=symmetric,
    )  # fmt: skip
    theirs = {one.name: numpy_helper.to_array(one) for one in onnx.load(tmp_path / "ort.onnx").graph.initializer}
    ours = constants(quantised(path, compact=True).graph)
    for name in arrays:
        np.testing.assert_array_equal(ours[f"{name}_codes"], theirs[f"{name}_quantized"])
        np.testing.assert_allclose(ours[f"{name}_scale"], theirs[f"{name}_scale"], rtol=1e-6)


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    arrays = weights() | {"w1": np.full((4, 4, 3, 3), np.nan, np.float32)}
    path = write_onnx(tmp_path / "m.onnx", BLOCK, arrays)
    with refused(UsageProblem):
        quantised(path)


def test_a_shared_weight_stays_float_for_its_other_reader(tmp_path: Path) -> None:
    text = (
        "g (int64[2] i, float[2,3] x) => (float[2,3] e, float[2,6] y) { e = Gather(w, i) [p] y = Gemm<transB=1>(x, w) }"
    )
    path = write_onnx(tmp_path / "m.onnx", text, {"w": GENERATOR.standard_normal((6, 3)).astype(np.float32)})
    model = quantised(path, compact=True)
    assert "w" in {tensor.name for tensor in model.graph.initializer}
    assert next(node for node in model.graph.node if node.op_type == "Gather").input[0] == "w"


def test_of_two_convolutions_in_a_sum_one_is_fused_and_the_other_quantised(tmp_path: Path) -> None:
    text = """g (float[1,4,8,8] x) => (float[1,4,8,8] y) {
      [one] a = Conv<pads=[1,1,1,1]>(x, w0)
      [two] b = Conv<pads=[1,1,1,1]>(x, w1)
      [sum] y = Add(a, b)
    }"""
    path = write_onnx(tmp_path / "m.onnx", text, {name: weights()[name] for name in ("w0", "w1")})
    assert feeders(quantised(path))["sum"] == ["Conv", "DequantizeLinear"]
    assert feeders(quantised(path, low={"two"}))["sum"] == ["DequantizeLinear", "Conv"]
    model, groups = prepare(Model.open(path))
    assert ranged_tensors(model, groups) == ("x", "b")
    assert ranged_tensors(model, groups, every_choice=True) == ("x", "b", "a")


def test_weights_among_the_inputs_are_weights(tmp_path: Path) -> None:
    text = "g (float[1,4] x) => (float[1,3] y) { [p] y = MatMul(x, w) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": GENERATOR.standard_normal((4, 3)).astype(np.float32)})
    old = onnx.load(path)
    old.ir_version = 3
    old.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [4, 3]))
    onnx.save(old, path)
    assert feeders(quantised(path))["p"] == ["DequantizeLinear"] * 2


def test_a_transposed_weight_is_folded(tmp_path: Path) -> None:
    text = "g (float[2,3] x) => (float[2,6] y) { t = Transpose<perm=[1,0]>(w) [p] y = MatMul(x, t) }"
    arrays = {"w": GENERATOR.standard_normal((6, 3)).astype(np.float32)}
    model = quantised(write_onnx(tmp_path / "m.onnx", text, arrays))
    assert feeders(model)["p"] == ["DequantizeLinear"] * 2
    np.testing.assert_array_equal(constants(model.graph)["t"], arrays["w"].T)
    assert "w" not in constants(model.graph)


def test_products_of_activations_are_groups_of_their_own(tmp_path: Path) -> None:
    text = """g (float[1,8,4] x) => (float[1,8,4] y) {
      [q] q = MatMul(x, w)
      t = Transpose<perm=[0,2,1]>(x)
      [scores] s = MatMul(q, t)
      p = Softmax(s)
      [mix] y = MatMul(p, x)
    }"""
    path = write_onnx(tmp_path / "m.onnx", text, {"w": GENERATOR.standard_normal((4, 4)).astype(np.float32)})
    _, groups = prepare(Model.open(path))
    assert [(group.name, group.op_type, group.macs) for group in groups] == [
        ("q", "MatMul", 128),
        ("scores", "attention", 256),
        ("mix", "attention", 256),
    ]
    found = feeders(quantised(path))
    assert found["scores"] == found["mix"] == ["DequantizeLinear"] * 2


@pytest.mark.parametrize("to", ["int8", "fp8"])
def test_a_weight_that_a_branch_reads_stays_for_it(tmp_path: Path, to: Any) -> None:
    text = """g (float[N,4] x, bool flag) => (float[N,4] y) {
      [product] a = MatMul(x, w)
      y = If(flag) <then_branch = t () => (float[N,4] then) { then = MatMul(a, w) },
                    else_branch = e () => (float[N,4] other) { other = Identity(a) }>
    }"""
    path = write_onnx(tmp_path / "branch.onnx", text, {"w": GENERATOR.standard_normal((4, 4)).astype(np.float32)})
    assert "w" in {tensor.name for tensor in quantised(path, to, compact=True).graph.initializer}


def test_a_weight_behind_an_identity_is_a_weight(tmp_path: Path) -> None:
    """Exporters write one where two layers share a weight."""
    text = "g (float[N,4] x) => (float[N,4] y) { same = Identity(w) [a] h = MatMul(x, w) [b] y = MatMul(h, same) }"
    path = write_onnx(tmp_path / "shared.onnx", text, {"w": np.eye(4, dtype=np.float32)})
    model = quantised(path)
    assert feeders(model)["b"] == ["DequantizeLinear", "DequantizeLinear"]
    assert not any(node.op_type == "Identity" for node in model.graph.node)
