"""What TensorRT-RTX says of a model, read: recorded words of the compiler (answers.json), and its own."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from tests.plugins.rtx.models import ANSWERS, MODELS, one, profiles
from tests.texts import held, refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.profiles import Profile
from trt_workbench_rtx import compiler as rtx
from trt_workbench_rtx.cards import SERVED
from trt_workbench_rtx.layers import BuiltLayer, BuiltTensor, built_layers, built_precision
from trt_workbench_rtx.refusals import Complaint, Refusal, build_refusal, fp64_notes, parser_refusal

RECORDED = json.loads(ANSWERS.read_text(encoding="utf-8"))["answers"]
NO_FP8 = "the architecture has no arithmetic in fp8_e4m3"
# For both architectures, but where one is named.
REFUSED = {
    "fp8, sm86": f"QuantizeLinear quantize (fp8): {NO_FP8}",
    "mxfp8, sm86": f"TRT_MXFP8DynamicQuantize (unnamed, makes q) (fp8): {NO_FP8}",
    "nvfp4, sm86": ("DequantizeLinear scales (fp4, fp8): the architecture has no arithmetic in fp4_e2m1 or fp8_e4m3"),
    "mxfp8 with scales that it does not read": (
        "TRT_MXFP8DequantizeLinear (unnamed, makes v) (float8e8m0): initializer s: this type is not supported"
    ),
    "no such operator": "Det the_node: TensorRT-RTX does not support this operator",
    "a foreign operator": "Own the_node: Plugin not found, are the plugin name, version, and namespace correct?",
    "text": "x (string): inputs of this type are not supported",
    "two types": (
        "Add add (fp16, fp32): ElementWiseOperation SUM must have same input types. But they are of types Half and"
    ),
    "asymmetric": "QuantizeLinear quantize: Non-zero zero point is not supported. Please set k",
    "types that do not fit": "DequantizeLinear widen: Could not infer output types for operation: ",
    "a squeeze that does not fit": "Squeeze the_node: reshape changes volume to multiple of original",
    "a reshape that does not fit": "Reshape the_node: reshape changes volume. Reshaping [2,3] to [4,2]",
    "a reshape that fits no batch": "Reshape the_node: kOPT values for profile 0 violate shape constraints: ",
    "more than there are": "TopK the_node: ITopKLayer the_node: the_node: length of reduction axis (3) is smaller",
    "boxes and scores that do not fit": "NonMaxSuppression the_node: INMSLayer the_node_0: the_node_0: The Boxes and",
    "branches of other ranks": "If the_node: IConditionalOutputLayer the_node_OutputLayer: Must have inputs with equal",
}
BUILT = {
    "plain": "fp32",
    "int8": "int8",
    "fp8": "fp8",
    "mxfp8": "fp32, fp8 weights",  # the values are widened again before they are multiplied
    "nvfp4": "fp32",  # weights alone: widened when the engine is built
}


def read(name: str) -> tuple[Refusal | None, tuple[BuiltLayer, ...]]:
    said: dict[str, Any] = RECORDED[name]
    graph = MODELS[name.rpartition(", ")[0]]().graph
    if "complaints" in said:
        return parser_refusal([Complaint(**one) for one in said["complaints"]], graph), ()
    if "errors" in said:
        return build_refusal(said["errors"], graph), ()
    return None, built_layers(["of something else", said["layers"]])


def expected(name: str) -> str | None:
    return REFUSED.get(name) or REFUSED.get(name.rpartition(", ")[0])


@pytest.mark.parametrize("name", RECORDED)
def test_what_the_compiler_said_is_a_layer_and_a_type(name: str) -> None:
    refusal, layers = read(name)
    if wanted := expected(name):
        assert refusal.text.startswith(wanted)
        assert "cudaError" not in refusal.text
        assert "/_src/" not in refusal.text
    else:
        assert refusal is None
        assert built_precision(layers).label == BUILT[name.rpartition(", ")[0]]


@pytest.mark.parametrize(
    "said",
    [
        "Optimization profile 0 is missing values for shape input tensor k. In validate at /_src/api/network.cpp:4081",
        "Network has dynamic or shape inputs, but no optimization profile has been defined. In validate at /_src/a:1",
        "Profile kOPT values are not self-consistent. Dimensions with name ? must be equal. Condition '==' violated: "
        "2 != 3. In operator() at /_src/runtime/core/shapeMachine.cpp:640 Instruction: CHECK_EQUAL 2 3",
    ],
)
def test_a_mistake_in_the_profile_is_no_refusal_of_the_model(said: str) -> None:
    error = f"IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error ({said})"
    with refused(UsageProblem):
        build_refusal([error], MODELS["plain"]().graph)


def test_fp64_is_said() -> None:
    """Its inputs and outputs have other types, too; inside it is a matter of precision alone."""
    assert fp64_notes(MODELS["plain"]().graph) == ()
    outside = one("Relu", TensorProto.DOUBLE)
    inside = one("Relu")
    inside.graph.node.insert(0, helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE))
    held(*fp64_notes(outside.graph), *fp64_notes(inside.graph))


@pytest.mark.skipif(not importlib.util.find_spec(rtx.MODULE), reason="TensorRT-RTX's package is not installed")
@pytest.mark.parametrize("name", RECORDED)
def test_the_compiler_itself_says_so(name: str, tmp_path: Path) -> None:
    model, _, sm = name.rpartition(", ")
    onnx.save(MODELS[model](), tmp_path / "m.onnx")
    asked = [Profile.model_validate(text) for text in profiles(MODELS[model]())]
    found = rtx.compile_model(tmp_path / "m.onnx", sm, asked)
    refusal, layers = read(name)
    assert found.refusal == refusal
    assert built_precision(found.layers) == built_precision(layers)
    assert bool(found.engine_size_bytes) == (refusal is None)


@pytest.mark.skipif(not importlib.util.find_spec(rtx.MODULE), reason="TensorRT-RTX's package is not installed")
def test_the_architectures_are_those_of_the_package() -> None:
    import tensorrt_rtx

    named = {name.lower() for name in tensorrt_rtx.ComputeCapability.__members__}
    assert named - {"none", "current"} == set(SERVED)


def test_a_layer_is_read_whole() -> None:
    _, layers = read("int8, sm120")
    gemm = next(layer for layer in layers if layer.kind == "gemm")
    assert gemm.inputs == (BuiltTensor(type="int8", shape=(-1, 16)),)
    assert gemm.constants[0] == BuiltTensor(type="int8", shape=(16, 128))
    assert gemm.outputs[0].type == "fp32"
    assert "mm" in gemm.nodes
    assert any("quantize" in layer.nodes for layer in layers)


def layer(kind: str, inputs: list[str], *constants: tuple[str, tuple[int, ...]]) -> BuiltLayer:
    return BuiltLayer(
        name="l",
        kind=kind,
        kernel="",
        nodes=(),
        inputs=tuple(BuiltTensor(type=one, shape=(1, 4)) for one in inputs),
        constants=tuple(BuiltTensor(type=one, shape=shape) for one, shape in constants),
        outputs=(),
    )


@pytest.mark.parametrize(
    ("one", "label"),
    [
        (layer("gemm", ["fp4", "fp8"], ("fp4", (8, 8)), ("fp32", (1,)), ("fp8", (1, 8))), "fp4"),
        (layer("runtime_fusion", ["fp16"], ("fp32", (8, 8)), ("fp8", (8, 8))), "fp16, fp8 weights"),
        (layer("runtime_fusion", ["int8"], ("fp32", (8, 8))), "fp32"),
        (layer("gemm", ["int8", "int8"]), "int8"),
        (layer("gemm", ["int8", "fp16"]), "fp16"),
        (layer("kgen", ["int8"], ("int8", (8, 8))), "unknown"),
        (layer("gemm", ["int64"]), "unknown"),
    ],
)
def test_a_layer_computes_in_the_wider_type(one: BuiltLayer, label: str) -> None:
    assert built_precision([one]).label == label


def test_a_refusal_without_a_word_is_told() -> None:
    assert build_refusal([], onnx.GraphProto()).text == "the compiler gave no reason"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("Error Code 9: Internal Error (mm: something. In build at /_src/a.cpp:1)", "MatMul mm: mm: something"),
        (
            "IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any implementation for "
            "node {ForeignNode[mm...y]}. In compute at /_src/b.cpp:2)",
            "MatMul mm: Could not find any implementation for node {ForeignNode[mm...y]}",
        ),
        ("out of host memory", "out of host memory"),
    ],
)
def test_an_error_of_the_builder_names_its_node(error: str, text: str) -> None:
    noise = (
        "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (In f at /_src (cudaError 35: no driver))"
    )
    assert build_refusal([noise, error], MODELS["plain"]().graph).text == text
