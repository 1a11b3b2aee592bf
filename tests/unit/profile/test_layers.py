"""TensorRT's times joined with the engine inspector's layers and the ONNX nodes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.backends.profiling import Operation, layer_role, node_role
from trt_workbench.backends.trt.layers import join_layers, names_in_layer, names_in_metadata
from trt_workbench.core.precision import data_type
from trt_workbench.engine.inspection import read_layers

from .conftest import OPERATORS, sample

NODES = [[], ["/conv1/Conv", "/relu1/Relu"], ["/act/Sigmoid", "/act/Mul"], [], ["/conv2/Conv"], []]


def test_detailed_layers_get_times_nodes_types_and_kernels(fp16: list[Operation]) -> None:
    assert [one.onnx_nodes for one in fp16] == NODES
    assert [one.median_ms for one in fp16] == [0.02, 0.05, 0.01, None, 0.03, 0.015]
    conv = fp16[1]
    assert (conv.operator, conv.input_types, conv.output_types) == ("CaskConvolution", ["fp16"], ["fp16"])
    assert conv.tactic.startswith("sm80_xmma_fprop")
    assert sum(one.share or 0 for one in fp16) == pytest.approx(1)
    assert conv.share == pytest.approx(0.05 / 0.125)


def test_layer_names_alone_tell_nodes_and_roles(names_only: list[Operation]) -> None:
    assert [one.onnx_nodes for one in names_only] == NODES
    assert [one.role for one in names_only] == ["reformat", "compute", "compute", "compute", "compute", "reformat"]
    assert [one.median_ms for one in names_only] == [0.02, 0.05, 0.01, None, 0.03, 0.015]
    assert {one.operator for one in names_only} == {None}


def test_a_recorded_engine_with_a_raw_control_character_is_read() -> None:
    text = sample("inspector-h200.json")
    assert "[ONNX Layer: first_conv]\x1e[ONNX Layer: first_relu]" in text
    layers, notes = read_layers(text)
    assert notes == ()
    found = join_layers(layers, [], {})
    assert [(one.role, one.operator, one.serves, one.conversion, one.onnx_nodes) for one in found] == [
        ("reformat", "Reformat", "first_conv + first_relu", "fp32 to fp16", []),
        ("compute", "CaskConvolution", None, "", ["first_conv", "first_relu"]),
        ("compute", "CaskConvolution", None, "", ["second_conv"]),
        ("compute", "CaskPooling", None, "", ["pool"]),
        ("reformat", "Reformat", "pool", "fp16 to fp32", []),
    ]


def test_tensorrt_11_tells_types_apart_and_casts_by_name() -> None:
    layers = json.loads(sample("inspector-11.json"))["Layers"]
    cast, gemm = join_layers(layers, [(layer["Name"], np.ones(2)) for layer in layers], {})
    assert (cast.role, cast.conversion, cast.onnx_nodes) == ("cast", "fp32 to fp16", ["graph_input_cast0"])
    assert (gemm.role, gemm.conversion) == ("compute", "fp16 to bf16")
    assert gemm.onnx_nodes == ["/fc/MatMul", "/fc/Add"]


def test_layers_of_one_name_take_their_times_in_order_and_none_is_lost() -> None:
    times = [("a", np.array([1.0, 3.0])), ("a", np.array([5.0, 5.0])), ("b", np.array([7.0]))]
    found = join_layers([{"Name": "a"}, {"Name": "a"}, {"Name": "a"}], times, {})
    assert [(one.name, one.median_ms, one.mean_ms) for one in found] == [
        ("a", 2.0, 2.0),
        ("a", 5.0, 5.0),
        ("a", None, None),
        ("b", 7.0, 7.0),
    ]
    assert [one.index for one in found] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("layer", "known", "names"),
    [
        ("Conv_0 + Relu_1", [], ["Conv_0", "Relu_1"]),
        ("Conv_0 || Conv_3", [], ["Conv_0", "Conv_3"]),
        ("PWN(PWN(Sigmoid_1, Mul_2), Add_3)", [], ["Sigmoid_1", "Mul_2", "Add_3"]),
        ("{ForeignNode[/attn/MatMul.../mlp/Add_1]}", [], ["/attn/MatMul", "/mlp/Add_1"]),
        ("onnx::Conv_5 copy", ["onnx::Conv_5"], ["onnx::Conv_5"]),
        ("Gather_7_clone_1", ["Gather_7"], ["Gather_7"]),
        ("Gather_7_clone_1", [], ["Gather_7"]),
        ("(Unnamed Layer* 3) [Shuffle]", [], []),
        ("__myl_MulAddMean_myl0_4", [], []),
        ("Reformatting CopyNode for Output Tensor 0 to Conv_0", [], []),
        ("Conv_0 + made_up", ["Conv_0"], ["Conv_0"]),
        ("odd (name), with [all]", ["odd (name), with [all]"], ["odd (name), with [all]"]),
    ],
)
def test_names_of_nodes_in_a_layers_name(layer: str, known: list[str], names: list[str]) -> None:
    assert names_in_layer(layer, known) == names


# Names as exporters make them: anything but the control characters that part the entries, and brackets at the ends.
NAME = (
    st.text(st.characters(exclude_categories=("C",), exclude_characters="[]"), min_size=1).map(str.strip).filter(bool)
)


@given(names=st.lists(NAME, unique=True), separator=st.sampled_from(["\x1e", "\x1f", ""]))
def test_metadata_is_read_whatever_the_names(names: list[str], separator: str) -> None:
    assert names_in_metadata(separator.join(f"[ONNX Layer: {name}]" for name in names)) == names


@pytest.mark.parametrize(
    ("layer", "nodes", "role"),
    [
        ({"Name": "x", "LayerType": "Reformat", "Origin": "QDQ"}, [], "quantize"),
        ({"Name": "x", "LayerType": "Reformat", "Origin": "CAST"}, [], "cast"),
        ({"Name": "q", "LayerType": "Scale"}, ["q"], "quantize"),
        ({"Name": "c"}, ["c"], "cast"),
        ({"Name": "/layer/Cast_3"}, [], "cast"),
        ({"Name": "/layer/Broadcast_3"}, [], "compute"),
        ({"Name": "__myl_CastMul_myl0_3", "LayerType": "kgen"}, [], "compute"),
        ({"Name": "h", "LayerType": "ShapeHostToDevice"}, [], "copy"),
        ({"Name": "n", "LayerType": "NoOp"}, [], "other"),
        ({"Name": "/conv1/Conv", "LayerType": "CaskConvolution"}, ["/conv1/Conv"], "compute"),
    ],
)
def test_roles_of_layers(layer: dict[str, str], nodes: list[str], role: str) -> None:
    assert layer_role(layer, nodes, {**OPERATORS, "q": "QuantizeLinear", "c": "Cast"}) == role


def test_roles_of_nodes() -> None:
    assert [node_role(name) for name in ("Conv", "Cast", "ReorderOutput", "MemcpyToHost", "DequantizeLinear")] == [
        "compute",
        "cast",
        "reformat",
        "copy",
        "quantize",
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Row major linear FP32", "fp32"),
        ("Channel major FP16 format where channel % 8 == 0", "fp16"),
        ("Half", "fp16"),
        ("BFloat16", "bf16"),
        ("Int8", "int8"),
        ("Four wide channel vectorized row major Int8 format", "int8"),
        ("Row major linear Int32 format", "int32"),
        ("FP8", "fp8"),
        ("float16", "fp16"),
        ("uint8", "uint8"),
        ("complex", None),
    ],
)
def test_precisions_in_the_runtimes_words(text: str, name: str | None) -> None:
    assert data_type(text) == name
