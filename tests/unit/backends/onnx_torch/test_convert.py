"""Conversions that the published cases do not show, against ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_text import write_onnx

from trt_workbench.errors import UsageProblem

torch = pytest.importorskip("torch")
convert = pytest.importorskip("trt_workbench.backends.onnx_torch.convert").convert

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def compare(
    path: Path,
    nodes: list[onnx.NodeProto],
    shape: list[int | str],
    x: np.ndarray,
    constants: dict[str, Any] | None = None,
    opset: int = 17,
    output: int = FLOAT,
) -> Any:
    """Convert a graph from x to y and compare both runtimes on `x`."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", output, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    (expected,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    converted = convert(path)
    with torch.inference_mode():
        (result,) = converted.module(torch.from_numpy(x))
    assert result.numpy().dtype == expected.dtype
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)
    return converted


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalization(tmp_path: Path, axis: int) -> None:
    x = noise(2, 3, 4)
    scale = {"s": noise(*x.shape[axis:]), "b": noise(*x.shape[axis:])}
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y", "", ""], axis=axis, epsilon=1e-3)
    compare(tmp_path / "m.onnx", [node], [2, 3, 4], x, scale)


def test_an_output_without_counterpart_is_refused_where_it_is_used(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s"], ["n", "mean"]),
        helper.make_node("Add", ["n", "mean"], ["y"]),
    ]
    with pytest.raises(UsageProblem, match="mean, the second"):
        compare(tmp_path / "m.onnx", nodes, [2, 4], noise(2, 4), {"s": noise(4)})


def test_upsample(tmp_path: Path) -> None:
    scales = {"s": np.array([1, 1, 2, 3], np.float32)}
    for mode in ("nearest", "linear"):
        node = helper.make_node("Upsample", ["x", "s"], ["y"], mode=mode)
        compare(tmp_path / "m.onnx", [node], [1, 2, 3, 3], noise(1, 2, 3, 3), scales, opset=9)


def test_softmax_before_opset_13_flattens(tmp_path: Path) -> None:
    for axis in (0, 1, 2):
        node = helper.make_node("Softmax", ["x"], ["y"], axis=axis)
        compare(tmp_path / "m.onnx", [node], [2, 3, 4], noise(2, 3, 4), opset=11)


def test_slice_and_pad_by_attributes(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Slice", ["x"], ["cut"], starts=[0, 1], ends=[2, 2147483647], axes=[0, 1]),
        helper.make_node("Pad", ["cut"], ["y"], pads=[0, 1, 2, 0], value=3.0),
    ]
    compare(tmp_path / "m.onnx", nodes, [3, 4], noise(3, 4), opset=9)


def test_shapes_are_computed_without_a_tensor(tmp_path: Path) -> None:
    constants = {
        "zero": np.int64(0),
        "one": np.int64(1),
        "first": np.array([0]),
        "half": np.array([2]),
        "rest": np.array([-1]),
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Gather", ["shape", "one"], ["columns"]),
        helper.make_node("Mul", ["rows", "columns"], ["count"]),
        helper.make_node("Unsqueeze", ["count", "first"], ["vector"]),
        helper.make_node("Div", ["vector", "half"], ["halves"]),
        helper.make_node("Concat", ["halves", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["folded"]),
        helper.make_node("Range", ["zero", "count", "one"], ["numbers"]),
        helper.make_node("Cast", ["numbers"], ["floats"], to=FLOAT),
        helper.make_node("Reshape", ["floats", "target"], ["places"]),
        helper.make_node("Add", ["folded", "places"], ["y"]),
    ]
    converted = compare(tmp_path / "m.onnx", nodes, ["rows", "columns"], noise(4, 6), constants)
    assert converted.host_reads == []
    with torch.inference_mode():
        assert converted.module(torch.zeros(2, 5))[0].shape == (5, 2)


def test_a_shape_that_depends_on_data_is_read_and_recorded(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"], "find"),
        helper.make_node("ReduceMax", ["found"], ["last"], "last", keepdims=0),
        helper.make_node("Unsqueeze", ["last", "first"], ["size"]),
        helper.make_node("ConstantOfShape", ["size"], ["y"], "fill"),
    ]
    constants = {"first": np.array([0])}
    converted = compare(tmp_path / "m.onnx", nodes, ["n"], np.array([0, 1, 0, 1, 0], np.float32), constants)
    assert converted.host_reads == ["ConstantOfShape fill"]


@pytest.mark.parametrize("reverse", [0, 1])
def test_top_k_of_equal_values_keeps_their_order(tmp_path: Path, reverse: int) -> None:
    x = np.array([[1, 3, 3, 1, 3, 0]], np.float32)
    node = helper.make_node("TopK", ["x", "k"], ["values", "y"], largest=1 - reverse)
    compare(tmp_path / "m.onnx", [node], [1, 6], x, {"k": np.array([4])}, output=INT64)


def test_an_expansion_as_exporters_write_it_reads_no_tensor(tmp_path: Path) -> None:
    # expand to (rows, -1): ones of the target's length, times -1, where the target is -1 a 1 is put
    constants = {"zero": np.int64(0), "first": np.array([0]), "keep": np.array([-1]), "minus": np.array(-1)}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "first"], ["row_dim"]),
        helper.make_node("Concat", ["row_dim", "keep"], ["joined"], axis=0),
        helper.make_node("Reshape", ["joined", "keep"], ["target"]),
        helper.make_node("Shape", ["target"], ["length"]),
        helper.make_node("ConstantOfShape", ["length"], ["ones"], value=numpy_helper.from_array(np.array([1]))),
        helper.make_node("Mul", ["ones", "minus"], ["negative"]),
        helper.make_node("Equal", ["target", "negative"], ["open"]),
        helper.make_node("Where", ["open", "ones", "target"], ["sizes"]),
        helper.make_node("Slice", ["x", "first", "one"], ["row"]),
        helper.make_node("Expand", ["row", "sizes"], ["y"]),
    ]
    converted = compare(tmp_path / "m.onnx", nodes, ["rows", 4], noise(3, 4), {**constants, "one": np.array([1])})
    assert converted.host_reads == []


@pytest.mark.parametrize(("inputs", "has"), [([], 0), (["x"], 1), (["x", ""], 1)])
def test_a_node_without_its_inputs_is_refused(inputs: list[str], has: int, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Add", inputs, ["y"], name="sum")],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [2])],
        [helper.make_tensor_value_info("y", FLOAT, [2])],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(UsageProblem, match=rf"Add \(node sum\) has {has} of 2 inputs"):
        convert(path)


def test_an_output_without_a_name_is_refused(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Abs(x) }")
    model = onnx.load(path)
    model.graph.output[1].name = ""
    onnx.save(model, path)
    with pytest.raises(UsageProblem, match="An output of the model has no name"):
        convert(path)
