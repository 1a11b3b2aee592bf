"""INT8 engines on a real GPU, from Q/DQ nodes and from calibration, compared with ONNX Runtime on the CPU."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.trt.backend import TrtBackend
from trt_workbench.backends.trt.session import TrtSession
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine import native

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("tensorrt", "own_output")]
Array = NDArray[Any]
SIDE, WIDTH, ROWS = 16, 64, 12
SAMPLES = 64
# Q/DQ scales are this much too coarse, so that what they do to the answer stands out from other roundings.
COARSE = 4
# INT8 against fp32: root mean square of the difference as a share of the answer's. Without fitting scales it is near 1.
CALIBRATED = 0.1


@pytest.fixture
def weak() -> None:
    if major() >= 11:
        pytest.skip("this TensorRT takes scales from Q/DQ nodes alone")


def major() -> int:
    return int(native.load_tensorrt()["version"].split(".")[0])


def samples(kind: str, count: int = SAMPLES, seed: int = 0) -> Array:
    shape = (3, SIDE, SIDE) if kind == "conv" else (ROWS, WIDTH)
    return np.random.default_rng(seed).uniform(-1, 1, (count, *shape)).astype(np.float32)


def network(path: Path, kind: str, opset: int, batch: int | str = "N") -> Path:
    """Two convolutions with a residual sum, or two products of matrices and one of two activations."""
    rng = np.random.default_rng(5)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        fan_in = int(np.prod(shape[1:])) if kind == "conv" else shape[0]
        return numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32), name)

    if kind == "conv":
        inner, outer = [batch, 3, SIDE, SIDE], [batch, 32, SIDE, SIDE]
        constants = [weights("w0", 32, 3, 3, 3), weights("w1", 32, 32, 3, 3)]
        constants.append(numpy_helper.from_array(np.linspace(-0.2, 0.2, 32, dtype=np.float32), "b1"))
        nodes = [
            helper.make_node("Conv", ["x", "w0"], ["c0"], kernel_shape=[3, 3], pads=[1] * 4, name="conv_first"),
            helper.make_node("Relu", ["c0"], ["r0"], name="relu_first"),
            helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], kernel_shape=[3, 3], pads=[1] * 4, name="conv_second"),
            helper.make_node("Add", ["c1", "r0"], ["y"], name="residual"),
        ]
    else:
        inner, outer = [batch, ROWS, WIDTH], [batch, ROWS, ROWS]
        constants = [weights("w0", WIDTH, WIDTH), weights("w1", WIDTH, WIDTH)]
        constants.append(numpy_helper.from_array(np.linspace(-0.2, 0.2, WIDTH, dtype=np.float32), "b1"))
        nodes = [
            helper.make_node("MatMul", ["x", "w0"], ["m0"], name="matmul_first"),
            helper.make_node("Relu", ["m0"], ["r0"], name="relu_first"),
            helper.make_node("MatMul", ["r0", "w1"], ["m1"], name="matmul_second"),
            helper.make_node("Add", ["m1", "b1"], ["a1"], name="bias"),
            helper.make_node("Transpose", ["r0"], ["t0"], perm=[0, 2, 1], name="transpose"),
            helper.make_node("MatMul", ["a1", "t0"], ["y"], name="matmul_of_activations"),
        ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, inner)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, outer)
    graph = helper.make_graph(nodes, kind, [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


class Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, kind: str) -> None:
        self.rows: Iterator[Array] = iter(COARSE * samples(kind))

    def get_next(self) -> dict[str, Array] | None:
        row = next(self.rows, None)
        return None if row is None else {"x": row[None]}


def quantized(path: Path, kind: str, *, per_channel: bool) -> Path:
    """Write the model with Q/DQ nodes as TensorRT takes them: symmetric, weights too, biases in fp32."""
    made = path.with_name(f"qdq-{path.name}")
    quantize_static(
        path,
        made,
        Reader(kind),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        per_channel=per_channel,
        extra_options={"ActivationSymmetric": True, "AddQDQPairToWeight": True, "QuantizeBias": False},
    )
    operators = [node.op_type for node in onnx.load(made).graph.node]
    assert operators.count("QuantizeLinear") == operators.count("DequantizeLinear") >= 4
    return made


def reference(path: Path, x: Array) -> Array:
    """What the graph says: without optimisation no kernel of ONNX Runtime rounds on its own."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    answer: Array = session.run(["y"], {"x": x})[0]
    return answer


def difference(found: Array, wanted: Array) -> float:
    assert found.shape == wanted.shape
    assert np.isfinite(found).all()
    return float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))


def load(path: Path, precision: str, **extra: Any) -> TrtSession:
    """Build with as little search as possible, and with TensorRT's own kernels alone."""
    known = set(native.require("option_names")()["tactic_sources"]) & {"cublas", "cublas_lt", "cudnn"}
    quick = {"optimization_level": 0, "tactic_sources": [f"-{name}" for name in sorted(known)], "max_batch": 4}
    session = TrtBackend().load(path, SessionOptions(precision=precision, extra={**quick, **extra}))
    assert isinstance(session, TrtSession)
    return session


def layers(session: TrtSession) -> str:
    text: str = native.require("inspect_engine")(session.loaded.engine)["layers_json"]
    return text.lower()


@pytest.mark.parametrize("precision", ["int8", "int8+fp16"])
@pytest.mark.parametrize(
    ("kind", "opset", "per_channel"),
    [("conv", 13, True), ("conv", 17, False), ("matmul", 13, False), ("matmul", 17, True)],
)
def test_a_model_with_scales_computes_what_its_graph_says(
    tmp_path: Path, kind: str, opset: int, per_channel: bool, precision: str
) -> None:
    plain = network(tmp_path / "net.onnx", kind, opset)
    model = quantized(plain, kind, per_channel=per_channel)
    with load(model, precision) as session:
        for batch in (4, 1):
            x = samples(kind, batch, seed=9)
            found, wanted, exact = session.run({"x": x})["y"], reference(model, x), reference(plain, x)
            for row in range(batch):
                assert difference(found[row], wanted[row]) < difference(exact[row], wanted[row]) / 2, (batch, row)
        if kind == "conv":
            assert "int8" in layers(session)


@pytest.mark.parametrize("precision", ["int8", "int8+fp16"])
@pytest.mark.parametrize(("kind", "algorithm"), [("conv", "entropy2"), ("conv", "minmax"), ("matmul", "minmax")])
@pytest.mark.usefixtures("weak")
def test_a_calibrated_engine_is_close_to_fp32(tmp_path: Path, kind: str, algorithm: str, precision: str) -> None:
    model = network(tmp_path / "net.onnx", kind, 17)
    np.save(tmp_path / "data.npy", samples(kind))
    calibration = {"data": tmp_path / "data.npy", "batch": 8, "algorithm": algorithm}
    with load(model, precision, calibration=calibration) as session:
        for batch in (4, 1):
            x = samples(kind, batch, seed=9)
            assert difference(session.run({"x": x})["y"], reference(model, x)) < CALIBRATED


@pytest.mark.usefixtures("weak")
def test_calibrated_convolutions_that_must_be_int8_are(tmp_path: Path) -> None:
    model = network(tmp_path / "net.onnx", "conv", 17, batch=1)
    np.save(tmp_path / "data.npy", samples("conv"))
    settings = {
        "calibration": {"data": tmp_path / "data.npy"},  # in batches of 1, as the model takes them
        "precision_constraints": "obey",
        # not the second, which TensorRT 8.6 fuses with the sum after it: that has no kernel with an output in floats
        "layer_precisions": {"conv_first": "int8"},
    }
    x = samples("conv", 1, seed=9)
    with load(model, "int8", **settings) as session:
        found = session.run({"x": x})["y"]
        assert "int8" in layers(session)
    rough = difference(found, reference(model, x))
    assert 1e-4 < rough < CALIBRATED  # exact would be fp32


@pytest.mark.usefixtures("weak")
def test_tensorrt_sees_what_is_quantized(tmp_path: Path) -> None:
    """The core itself, which reads TensorRT's network: whatever the package checks before is left out."""
    plain = network(tmp_path / "net.onnx", "conv", 13, batch=1)
    model = quantized(plain, "conv", per_channel=True)
    problem, build = native.require("UsageProblem"), native.require("build_engine")
    options = native.require("BuildOptions")()
    options.optimization_level = 0
    with pytest.raises(problem, match="Q/DQ nodes of type int8, but int8 is not requested"):
        build(str(model), options)
    options.int8 = True
    with pytest.raises(problem, match="no Q/DQ nodes and no calibration data"):
        build(str(plain), options)
    options.calibration = native.require("Calibration")(batches=lambda: iter([{"x": samples("conv", 1)}]))
    with pytest.raises(problem, match="omit one"):
        build(str(model), options)


@pytest.mark.usefixtures("weak")
def test_a_model_with_scales_is_not_built_without_its_type(tmp_path: Path) -> None:
    model = quantized(network(tmp_path / "net.onnx", "conv", 13), "conv", per_channel=True)
    with pytest.raises(UsageProblem, match="QuantizeLinear nodes"):
        load(model, "fp16")
