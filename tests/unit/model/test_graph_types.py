"""What an ONNX graph computes in, read from real files made with onnxruntime's own converters."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnxruntime.quantization import QuantFormat, quantize_dynamic, quantize_static
from onnxruntime.transformers.float16 import convert_float_to_float16
from tests.in_onnxruntime import Samples
from tests.onnx_text import write_onnx
from tests.texts import held, refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.settings import PlacementSettings

RNG = np.random.default_rng(0)


def weights(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: RNG.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def save(path: Path, nodes: str, initial: dict[str, Any] | None = None, shape: str = "1,3,8,8") -> Path:
    return write_onnx(path, f"g (float[{shape}] x) => (float[] y) {nodes}", initial, 21)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Two convolutions and a product of matrices."""
    nodes = """{ [first] a = Conv(x, w1) b = Relu(a) [second] c = Conv(b, w2) d = Flatten(c)
      [last] y = MatMul(d, w3) }"""
    return save(tmp_path / "network.onnx", nodes, weights(w1=(4, 3, 3, 3), w2=(4, 4, 3, 3), w3=(64, 5)))


def test_a_plain_model(network: Path) -> None:
    found = read_precision(Model.open(network))
    assert (found.label, found.text, found.unit, found.counted) == ("fp32", "fp32", "arithmetic nodes", 3)
    assert found.weight_shares == {"fp32": 1.0}


def test_a_model_of_which_a_part_stays_in_fp32(network: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.onnx"
    model = convert_float_to_float16(onnx.load(network), keep_io_types=True, op_block_list=["MatMul"])
    onnx.save(model, half)
    found = read_precision(Model.open(half))
    assert found.label == "fp16+fp32"
    held(found.text)
    assert found.document()["shares"] == {"fp16": pytest.approx(2 / 3), "fp32": pytest.approx(1 / 3)}


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("operators", [None, ["Conv"]])
def test_a_quantised_model(network: Path, tmp_path: Path, form: QuantFormat, operators: list[str] | None) -> None:
    path = tmp_path / "int8.onnx"
    samples = Samples([{"x": RNG.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)} for _ in range(4)])
    quantize_static(network, path, samples, quant_format=form, op_types_to_quantize=operators)
    found = read_precision(Model.open(path))
    assert found.label == ("int8+fp32" if operators else "int8")
    assert found.shares == ({"int8": pytest.approx(2 / 3), "fp32": pytest.approx(1 / 3)} if operators else {"int8": 1})
    if not operators:
        assert found.weight_shares["int8"] > 0.9


def test_quantised_while_it_runs(network: Path, tmp_path: Path) -> None:
    path = tmp_path / "dynamic.onnx"
    quantize_dynamic(network, path, op_types_to_quantize=["MatMul"])
    held(read_precision(Model.open(path)).text)


def test_weights_that_are_widened_before_they_are_used(tmp_path: Path) -> None:
    """Quantised weights alone: fp32 is what is multiplied."""
    for kind, name in (("int8", "int8"), ("int4", "int4"), ("float8e4m3fn", "fp8")):
        values = ", ".join(["17"] * 16 if kind == "int4" else ["1"] * 32)  # two of 4 bits are a byte
        nodes = f"""<{kind}[8,4] w = {{{values}}}, float scale = {{0.5}}> {{
          wide = DequantizeLinear(w, scale) turned = Transpose(wide) y = MatMul(x, turned) }}"""
        found = read_precision(Model.open(save(tmp_path / f"{name}.onnx", nodes, shape="2,4")))
        assert found.label == f"fp32, {name} weights"
        assert found.weight_shares == {name: 1.0}


def test_a_graph_inside_an_if_and_shapes_that_are_multiplied(tmp_path: Path) -> None:
    def branch(name: str, kind: int) -> str:
        return f"""{name} () => (float[] {name}_out) {{
          {name}_x = Cast<to = {kind}>(x) {name}_w = Cast<to = {kind}>(w) {name}_y = MatMul({name}_x, {name}_w)
          {name}_out = Cast<to = {TensorProto.FLOAT}>({name}_y) }}"""

    nodes = f"""{{ shape = Shape(x) product = MatMul(shape, shape) yes = Cast<to = {TensorProto.BOOL}>(product)
      y = If (yes) <then_branch = {branch("a", TensorProto.FLOAT16)},
                    else_branch = {branch("b", TensorProto.BFLOAT16)}> }}"""
    found = read_precision(Model.open(save(tmp_path / "if.onnx", nodes, weights(w=(4, 4)), "2,4")))
    assert found.shares == {"bf16": 0.5, "fp16": 0.5}
    assert found.label == "bf16+fp16"


def test_without_arithmetic_every_node_on_floats_counts(tmp_path: Path) -> None:
    found = read_precision(Model.open(save(tmp_path / "m.onnx", "{ a = Relu(x) y = Sigmoid(a) }")))
    assert (found.label, found.unit, found.counted) == ("fp32", "nodes", 2)
    assert read_precision(Model.open(save(tmp_path / "m.onnx", "{ y = Identity(x) }"))).label == "unknown"


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    with refused(UsageProblem):
        read_precision(Model.open(tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    ("to", "label", "shares"),
    [
        ("mxfp8", "mxfp8", {"mxfp8": 1.0}),
        ("nvfp4", "nvfp4", {"nvfp4": 1.0}),
        ("int4-weights", "fp32, int4 weights", {"int4": 1.0}),
    ],
)
def test_formats_in_blocks_have_their_own_names(tmp_path: Path, to: Any, label: str, shares: dict[str, float]) -> None:
    nodes = "{ [one] a = MatMul(x, w1) [two] y = Gemm(a, w2) }"
    model = save(tmp_path / "a.onnx", nodes, weights(w1=(32, 64), w2=(64, 32)), "1,32")
    placement = PlacementSettings(keep_sensitive=False)
    found = read_precision(
        Model.open(make_candidate(Model.open(model), to, tmp_path / "b.onnx", placement=placement).path)
    )
    assert (found.label, found.weight_shares, found.counted) == (label, shares, 2)
    assert replace(found, native=0.0, calibrated=False).label == f"{label} (simulated, not calibrated)"
