"""int8 weights with a scale for each channel, as ONNX allows them: along any axis, with and without zero points."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from tests.onnx_text import write_onnx

from trt_workbench.backends.registry import get_backend

# What multiplies x by the widened weights w, the shapes of both, and axes along which kernels take scales.
PRODUCTS = {
    "MatMul(x, w)": ((2, 32), (32, 16), (1,)),
    "MatMul(x, w) of three dimensions": ((2, 4, 32), (2, 32, 16), ()),
    "Gemm(x, w)": ((2, 32), (32, 16), (0, 1)),
    "Gemm<transB = 1>(x, w)": ((2, 32), (16, 32), (0, 1)),
    "Conv(x, w)": ((2, 8, 6, 6), (16, 8, 3, 3), (0,)),
    "Conv<group = 8>(x, w)": ((2, 8, 6, 6), (8, 1, 3, 3), (0,)),
    "ConvTranspose(x, w)": ((2, 8, 6, 6), (8, 4, 3, 3), (0, 1)),
    "Add(x, w)": ((2, 32), (2, 32), ()),
    "Concat<axis = 0>(x, w)": ((2, 32), (2, 32), ()),
    "Where(k, x, w)": ((2, 32), (2, 32), ()),
}
CASES = [
    (product, axis) for product, (_, shape, _) in PRODUCTS.items() for axis in range(len(shape)) if shape[axis] > 1
]


def write(path: Path, product: str, axis: int, *, zeros: bool, codes: type, quantised: bool) -> np.ndarray:
    generator = np.random.default_rng(0)
    x, w, _ = PRODUCTS[product]
    weights = {
        "codes": generator.integers(-127, 128, w).astype(np.int8),
        "scales": generator.random(w[axis]).astype(np.float32) * 0.01 + 0.001,
        "a": np.float32(0.03),
        "z": np.array(128 if codes is np.uint8 else 0, codes),
        "k": np.array(True),
    }
    if zeros:
        weights["zeros"] = np.zeros(w[axis], np.int8)
    called = product.removesuffix(" of three dimensions").replace("(x", "(xd").replace("(k, x", "(k, xd")
    widened = f"w = DequantizeLinear<axis = {axis}>(codes, scales{', zeros' if zeros else ''})"
    end = "q = QuantizeLinear(p, a, z) y = DequantizeLinear(q, a, z)" if quantised else "y = Identity(p)"
    dims = ",".join(map(str, x))
    text = f"""g (float[{dims}] x) => (float[{",".join("dcba"[: len(x)])}] y) {{
        xq = QuantizeLinear(x, a, z) xd = DequantizeLinear(xq, a, z) {widened} p = {called} {end} }}"""
    write_onnx(path, text, weights)
    return generator.standard_normal(x).astype(np.float32)


def plain(path: Path, x: np.ndarray) -> np.ndarray:
    """Return what the Q/DQ nodes say, without a rewrite."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("quantised", [True, False])
@pytest.mark.parametrize("codes", [np.int8, np.uint8])
@pytest.mark.parametrize("zeros", [True, False])
def test_weights_of_any_axis_are_what_the_graph_says(tmp_path: Path, zeros: bool, codes: type, quantised: bool) -> None:
    for number, (product, axis) in enumerate(CASES):
        path = tmp_path / f"{number}.onnx"
        x = write(path, product, axis, zeros=zeros, codes=codes, quantised=quantised)
        with get_backend("ort-cpu").load(path) as session:
            found = session.run({"x": x})["y"]
            record = session.provenance
        np.testing.assert_allclose(found, plain(path, x), atol=0.031, err_msg=f"{product} {axis}")
        kernels = axis in PRODUCTS[product][2]
        assert ("int8_products" in record) != kernels, (product, axis)
        assert ("zero_points" in record) != zeros, (product, axis)
        assert bool(record.get("simulated")) != kernels


@pytest.mark.parametrize("zeros", [True, False])
def test_weights_that_the_graph_itself_quantises(tmp_path: Path, zeros: bool) -> None:
    """ONNX Runtime folds the QuantizeLinear before it fuses, as with codes."""
    for number, (product, axis) in enumerate(CASES):
        path = tmp_path / f"{number}.onnx"
        x = write(path, product, axis, zeros=zeros, codes=np.int8, quantised=True)
        model = onnx.load(path)
        model.opset_import[0].version = 21
        (codes,) = (tensor for tensor in model.graph.initializer if tensor.name == "codes")
        floats = onnx.numpy_helper.to_array(codes).astype(np.float32) / 100
        codes.CopyFrom(onnx.numpy_helper.from_array(floats, "floats"))
        inputs, kind = ["floats", "scales", *(["zeros"] if zeros else [])], {} if zeros else {"output_dtype": 3}
        model.graph.node.insert(0, onnx.helper.make_node("QuantizeLinear", inputs, ["codes"], axis=axis, **kind))
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)
        with get_backend("ort-cpu").load(path) as session:
            found = session.run({"x": x})["y"]
        np.testing.assert_allclose(found, plain(path, x), atol=0.031, err_msg=f"{product} {axis}")


def test_weights_around_a_branch(tmp_path: Path) -> None:
    text = """g (float[2,8] x) => (float[2,6] y) { yes = Constant<value = bool {1}>() y = If (yes) <
        then_branch = t () => (float[2,6] p) {
            xq = QuantizeLinear(x, a, z) xd = DequantizeLinear(xq, a, z) w = DequantizeLinear<axis = 0>(codes, scales)
            m = MatMul(xd, w) q = QuantizeLinear(m, a, z) p = DequantizeLinear(q, a, z) },
        else_branch = e () => (float[2,6] r) { r = Identity(none) }> }"""
    rng = np.random.default_rng(0)
    weights = {"codes": rng.integers(-127, 128, (8, 6)).astype(np.int8), "scales": rng.random(8, np.float32) / 100}
    weights |= {"a": np.float32(0.03), "z": np.int8(0), "none": np.zeros((2, 6), np.float32)}
    path = write_onnx(tmp_path / "m.onnx", text, weights)
    x = rng.standard_normal((2, 8)).astype(np.float32)
    with get_backend("ort-cpu").load(path) as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], plain(path, x), atol=0.031)
