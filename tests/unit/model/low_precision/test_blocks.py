"""Blocks of MXFP8, NVFP4 and 4-bit integers: the graph forms, the values of weights, and what has no form."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.constants import constants
from trt_workbench.model.low_precision.blocks import heads, quantize_blocks, without_form
from trt_workbench.model.low_precision.preparation import prepare, raise_opset
from trt_workbench.model.opened import Model

RNG = np.random.default_rng(0)
BLOCKED: tuple[Any, ...] = ("mxfp8", "nvfp4", "int4-weights")
MODEL = """g (float[N,64] x, float[1,3,4,4] image) => (float[N,16] y, float[1,2,4,4] z, float[N,N] s) {
  [conv] z = Conv(image, kernel)
  [one] a = MatMul(x, w0)
  [two] b = Gemm<transB=1>(a, w1)
  [three] c = Gemm(b, w2, bias)
  [again] d = MatMul(x, w0)
  [odd] e = MatMul(a, w3)
  turned = Transpose(a)
  [attention] s = MatMul(a, turned)
  [last] f = MatMul(d, w4)
  y = Add(f, f)
}"""


def weights() -> dict[str, np.ndarray]:
    shapes = {"kernel": (2, 3, 1, 1), "w0": (64, 64), "w1": (32, 64), "w2": (32, 20), "bias": (20,), "w3": (64, 3)}
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in (shapes | {"w4": (64, 16)}).items()}


def made(path: Path, to: Any) -> tuple[onnx.ModelProto, dict[str, str]]:
    model, groups = prepare(Model.open(path))
    kept = without_form(model, groups, to)
    model = raise_opset(model, to, path)
    quantize_blocks(model, [group for group in groups if group.name not in kept], to)
    onnx.checker.check_model(model)
    return model, kept


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "model.onnx", MODEL, weights())


def producers(model: onnx.ModelProto, name: str) -> list[str]:
    """Return the operators from a tensor back to where it comes from, by first inputs."""
    makers = {output: node for node in model.graph.node for output in node.output}
    found = []
    while name in makers:
        found.append(makers[name].op_type)
        name = makers[name].input[0]
    return [*found, name]


def node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(one for one in model.graph.node if one.name == name)


def test_mxfp8_in_the_form_that_tensorrt_reads(path: Path) -> None:
    model, _ = made(path, "mxfp8")
    one, two = node(model, "one"), node(model, "two")
    assert producers(model, one.input[0]) == ["TRT_MXFP8DequantizeLinear", "TRT_MXFP8DynamicQuantize", "x"]
    assert producers(model, one.input[1]) == ["Transpose", "TRT_MXFP8DequantizeLinear", "w0_codes"]
    assert producers(model, two.input[1]) == ["TRT_MXFP8DequantizeLinear", "w1_codes"]
    values = constants(model.graph)
    assert values["w0_codes"].dtype.name == "float8_e4m3fn"
    assert (values["w0_scale"].dtype, values["w0_scale"].shape) == (np.uint8, (64, 2))
    quantiser = next(one for one in model.graph.node if one.op_type == "TRT_MXFP8DynamicQuantize")
    attributes = {entry.name: entry.i for entry in quantiser.attribute}
    assert quantiser.domain == "trt"
    assert attributes == {"axis": -1, "block_size": 32, "output_dtype": TensorProto.FLOAT8E4M3FN}
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 19, "trt": 1}


def test_nvfp4_in_the_form_that_tensorrt_reads(path: Path) -> None:
    model, _ = made(path, "nvfp4")
    one = node(model, "one")
    assert producers(model, one.input[0]) == ["DequantizeLinear", "TRT_FP4DynamicQuantize", "x"]
    assert producers(model, one.input[1]) == ["Transpose", "DequantizeLinear", "w0_codes"]
    values = constants(model.graph)
    assert values["w0_codes"].dtype.name == "float4_e2m1fn"
    assert (values["w0_scale"].dtype.name, values["w0_scale"].shape) == ("float8_e4m3fn", (64, 4))
    assert values["w0_tensor_scale"].shape == ()
    quantiser = next(one for one in model.graph.node if one.op_type == "TRT_FP4DynamicQuantize")
    attributes = {entry.name: entry.i for entry in quantiser.attribute}
    assert attributes == {"axis": -1, "block_size": 16, "scale_type": TensorProto.FLOAT8E4M3FN}
    widened = {one.output[0]: one for one in model.graph.node if one.op_type == "DequantizeLinear"}
    codes = widened[one.input[0]]
    assert list(codes.input[:1]) == [quantiser.output[0]]
    assert list(widened[codes.input[1]].input) == [quantiser.output[1], quantiser.input[1]]
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 23, "trt": 1}


def test_integers_have_blocks_of_128_inputs_or_one_scale_for_each_output(tmp_path: Path) -> None:
    text = """g (float[2,256] x) => (float[2,8] y) {
      [a] h = MatMul(x, wide) [b] i = Gemm<transB=1>(h, turned) [c] y = MatMul(i, narrow)
    }"""
    shapes = {"wide": (256, 256), "turned": (96, 256), "narrow": (96, 8)}
    arrays = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    model, _ = made(write_onnx(tmp_path / "a.onnx", text, arrays), "int4-weights")
    values = constants(model.graph)
    found = {}
    for one in model.graph.node:
        if one.op_type == "DequantizeLinear":
            attributes = {entry.name: entry.i for entry in one.attribute}
            found[one.input[0]] = (attributes, values[one.input[1]].shape)
    assert found == {
        "wide_codes": ({"axis": 0, "block_size": 128}, (2, 256)),
        "turned_codes": ({"axis": 1, "block_size": 128}, (96, 2)),
        "narrow_codes": ({"axis": 1}, (8,)),
    }
    assert values["wide_codes"].dtype.name == "int4"


@pytest.mark.parametrize("to", BLOCKED)
def test_a_matrix_that_is_read_both_ways_has_blocks_of_each(tmp_path: Path, to: Any) -> None:
    """As in an autoencoder with tied weights; both layers once read the blocks of the first."""
    text = "g (float[2,64] x) => (float[2,64] y) { [in] h = Gemm<transB=1>(x, w) [out] y = Gemm(h, w) }"
    matrix = RNG.standard_normal((64, 64)).astype(np.float32)
    model, _ = made(write_onnx(tmp_path / "m.onnx", text, {"w": matrix}), to)
    path = tmp_path / "low.onnx"
    onnx.save(model, path)
    x = RNG.standard_normal((2, 64)).astype(np.float32)
    with OrtCpuBackend().load(path) as session:
        found = session.run({"x": x})["y"]
    expected = x @ matrix.T @ matrix
    assert np.linalg.norm(found - expected) < 0.3 * np.linalg.norm(expected)


def test_what_has_no_form_is_named(path: Path) -> None:
    model, groups = prepare(Model.open(path))
    assert without_form(model, groups, "nvfp4") == {
        "conv": "nvfp4 has no convolutions",
        "attention": "a product of two activations",
    }
    odd = write_onnx(
        path.with_name("odd.onnx"),
        "g (float[2,24] x, float[24,2] t) => (float[2,4] y, float[2,4] z) "
        "{ [few] y = MatMul(x, w) [turned] z = Gemm<transA=1>(t, w) }",
        {"w": np.ones((24, 4), np.float32)},
    )
    model, groups = prepare(Model.open(odd))
    assert without_form(model, groups, "mxfp8") == {
        "few": "24 inputs are not a multiple of the block size 32",
        "turned": "its activations are transposed",
    }
    assert without_form(model, groups, "int4-weights") == {"turned": "its activations are transposed"}
    deep = write_onnx(
        path.with_name("deep.onnx"),
        "g (float[2,3,32] x) => (float[2,3,4] y) { [deep] y = MatMul(x, w) }",
        {"w": np.ones((2, 32, 4), np.float32)},
    )
    model, groups = prepare(Model.open(deep))
    assert without_form(model, groups, "mxfp8") == {"deep": "its weights have 3 dimensions, but mxfp8 takes matrices"}


def test_a_product_that_makes_an_output_is_a_head(tmp_path: Path) -> None:
    text = """g (float[2,32] x) => (float[2,4] y, float[2,32] z) {
      [up] a = MatMul(x, w0) [residual] z = Add(a, x) [logits] b = MatMul(z, w1) c = Add(b, bias) y = Softmax(c)
    }"""
    arrays = {"w0": np.ones((32, 32)), "w1": np.ones((32, 4)), "bias": np.ones(4)}
    path = write_onnx(tmp_path / "a.onnx", text, {name: value.astype(np.float32) for name, value in arrays.items()})
    assert heads(*prepare(Model.open(path))) == {"logits": "it makes an output"}


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    values = np.ones((32, 4), np.float32)
    values[3, 1] = np.nan
    path = write_onnx(
        tmp_path / "a.onnx", "g (float[2,32] x) => (float[2,4] y) { [p] y = MatMul(x, w) }", {"w": values}
    )
    with refused(UsageProblem):
        made(path, "nvfp4")


@pytest.mark.parametrize("to", BLOCKED)
def test_a_weight_that_a_branch_reads_stays_for_it(tmp_path: Path, to: Any) -> None:
    text = """g (float[N,64] x, bool flag) => (float[N,64] y) {
      [product] a = MatMul(x, w)
      y = If(flag) <then_branch = t () => (float[N,64] then) { then = MatMul(a, w) },
                    else_branch = e () => (float[N,64] other) { other = Identity(a) }>
    }"""
    path = write_onnx(tmp_path / "branch.onnx", text, {"w": RNG.standard_normal((64, 64)).astype(np.float32)})
    assert "w" in constants(made(path, to)[0].graph)
