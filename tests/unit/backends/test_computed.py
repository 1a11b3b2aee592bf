"""What ort-cpu computes in, by the graph that ONNX Runtime makes: integer kernels or floats with integers' values."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
from tests.in_onnxruntime import Samples
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.ort.gpu import SESSION_OPTIONS, LoadRequest, load_gpu_session
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

RNG = np.random.default_rng(0)
TEXT = """g (float[N,3,16,16] x) => (float[N,10] y) {
  [conv] c = Conv<pads = [1, 1, 1, 1]>(x, w, b) [relu] r = Relu(c) [pool] p = GlobalAveragePool(r) [flat] f = Flatten(p)
  [product] y = MatMul(f, m)
}"""


def samples() -> Samples:
    return Samples([{"x": RNG.random((4, 3, 16, 16)).astype(np.float32)} for _ in range(4)])


@pytest.fixture
def network(tmp_path: Path) -> Path:
    weights = {"w": RNG.normal(size=(32, 3, 3, 3)) * 0.2, "b": RNG.normal(size=32), "m": RNG.normal(size=(32, 10))}
    return write_onnx(tmp_path / "float.onnx", TEXT, {name: one.astype(np.float32) for name, one in weights.items()})


def ran(path: Path) -> dict[str, Any]:
    with OrtCpuBackend().load(path) as session:
        assert np.isfinite(session.run({"x": RNG.random((2, 3, 16, 16)).astype(np.float32)})["y"]).all()
        found: dict[str, Any] = session.record()
    assert found.get("simulated", False) == found["precision_ran"]["simulated"]
    return found["precision_ran"]


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("per_channel", [False, True])
def test_pairs_around_every_operator_become_integer_kernels(
    network: Path, form: QuantFormat, *, per_channel: bool
) -> None:
    path = network.with_name("int8.onnx")
    quantize_static(network, path, samples(), quant_format=form, per_channel=per_channel)
    found = ran(path)
    assert (found["label"], found["source"], found["native"]) == ("int8", "optimised graph", 1.0)


@pytest.mark.parametrize(
    ("activations", "weights", "label"),
    [
        (QuantType.QUInt8, QuantType.QInt8, "int8"),
        (QuantType.QInt8, QuantType.QInt8, "int8"),
        (QuantType.QUInt8, QuantType.QUInt8, "int8"),
        (QuantType.QUInt16, QuantType.QInt8, "int16 activations, int8 weights (simulated)"),
        (QuantType.QInt16, QuantType.QInt8, "int16 activations, int8 weights (simulated)"),
        (QuantType.QInt16, QuantType.QInt16, "int16 (simulated)"),
    ],
)
def test_types_of_activations_and_weights(network: Path, activations: Any, weights: Any, label: str) -> None:
    path = network.with_name("a.onnx")
    quantize_static(network, path, samples(), activation_type=activations, weight_type=weights)
    assert ran(path)["label"] == label


def test_a_convolution_without_a_pair_behind_it_computes_in_fp32(network: Path) -> None:
    """As `trtw quantize` writes them, which is what TensorRT wants."""
    path = network.with_name("int8.onnx")
    quantize_static(network, path, samples(), extra_options={"ActivationSymmetric": True})
    model = onnx.load(path)
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            pair = makers.get(name)
            if pair and pair.op_type == "DequantizeLinear" and (code := makers.get(pair.input[0])):
                source = makers.get(code.input[0])
                if source and source.op_type in ("Conv", "MatMul", "Relu"):
                    node.input[place] = code.input[0]
    onnx.save(model, path)
    found = ran(path)
    assert found["simulated"]
    assert found["native"] < 1
    with OrtCpuBackend().load(path) as session, refused(UsageProblem):
        session.require_native()


def test_quantised_while_it_runs(network: Path) -> None:
    path = network.with_name("dynamic.onnx")
    quantize_dynamic(network, path, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"])
    found = ran(path)
    assert (found["label"], found["simulated"]) == ("int8+fp32", False)


def test_weights_alone_are_widened(tmp_path: Path) -> None:
    text = "g (float[N,16] x) => (float[N,8] y) { w = DequantizeLinear(q, s) y = MatMul(x, w) }"
    codes = RNG.integers(-100, 100, (16, 8)).astype(np.int8)
    path = write_onnx(tmp_path / "m.onnx", text, {"q": codes, "s": np.float32(0.1)})
    session = OrtCpuBackend().load(path)
    assert (session.simulated, session.record()["precision_ran"]["label"]) == (False, "fp32, int8 weights")


def test_a_gpu_session_reads_its_own_graph(network: Path) -> None:
    """With the one provider that every machine has."""
    path = network.with_name("int8.onnx")
    quantize_static(network, path, samples(), activation_type=QuantType.QInt16)
    cpu = "CPUExecutionProvider"
    extra = {name: option.default for name, option in SESSION_OPTIONS.items()}
    request = LoadRequest("ort-cuda", Model.open(path), Model.open(path), ((cpu, {}),), (cpu,), extra)
    session: Session = load_gpu_session(request, SessionOptions())
    found = session.record()["precision_ran"]
    assert (found["source"], found["simulated"]) == ("optimised graph", True)


@pytest.mark.parametrize("activations", [QuantType.QUInt8, QuantType.QInt8])
def test_pytorch_computes_integers_values_in_floats(network: Path, activations: Any) -> None:
    pytest.importorskip("torch")
    path = network.with_name("int8.onnx")
    quantize_static(network, path, samples(), activation_type=activations, weight_type=QuantType.QInt8)
    x = {"x": RNG.random((2, 3, 16, 16)).astype(np.float32)}
    with get_backend("torch").load(path) as session, OrtCpuBackend().load(path) as other:
        # one step of the last scale
        np.testing.assert_allclose(session.run(x)["y"], other.run(x)["y"], atol=0.1)
        assert session.record()["precision_ran"]["label"] == "int8 (simulated)"


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_pytorch_counts_what_it_multiplies(network: Path, precision: str) -> None:
    pytest.importorskip("torch")
    with get_backend("torch").load(network, SessionOptions(precision=precision)) as session:
        session.run({"x": RNG.random((2, 3, 16, 16)).astype(np.float32)})
        found = session.record()["precision_ran"]
    assert (found["label"], found["source"], found["counted"]) == (precision, "program", 2)
