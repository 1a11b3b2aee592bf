"""What leaves the range of fp16 on the way: squares, masks that add up, and makers whose type an attribute says."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from tests.in_onnxruntime import run
from tests.onnx_text import write_onnx

from trt_workbench.model.low_precision.cast import cast_model
from trt_workbench.model.low_precision.simulate import simulated
from trt_workbench.model.opened import Model

RNG = np.random.default_rng(0)


def both(path: Path, **inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the results of a model and of the same in fp16, in fp16's own arithmetic."""
    model = Model.open(path).load()
    low = cast_model(model, "fp16").model
    onnx.checker.check_model(low, full_check=True)
    run(low, inputs)  # loads as it is, too
    return run(model, inputs)[0], run(simulated(low, ("fp16",)), inputs)[0]


def check(path: Path, limit: float = 0.01, **inputs: np.ndarray) -> None:
    want, got = both(path, **inputs)
    assert np.isfinite(want).all()
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got, want, rtol=0, atol=limit * np.abs(want).max())


NORMS = {
    "Mul(x, x)": "s = Mul(h, h)",
    "negative": "n = Neg(h) s = Mul(n, n)",
    "absolute": "n = Abs(h) s = Mul(n, n)",
    "a copy": "n = Identity(h) s = Mul(h, n)",
    "Pow": "s = Pow(h, two)",
    "a copy of a copy": "n = Identity(h) k = Abs(n) s = Mul(k, k)",
    "scaled": "n = Mul(h, half) k = Mul(n, h) s = Mul(k, two)",
    "Einsum": 'n = Unsqueeze(h, last) k = Einsum<equation = "ijk,ijk->ij">(n, n) s = Identity(k)',
    "a product of vectors": "n = Unsqueeze(h, ends) k = MatMul(n, n) s = Squeeze(k, ends)",
    "in another shape": "n = Reshape(h, split) p = Reshape(h, split) k = Mul(n, p) s = Reshape(k, whole)",
}


@pytest.mark.parametrize("square", NORMS)
@pytest.mark.parametrize("mean", ["m = ReduceMean<axes = [-1]>(s)", "m = MatMul(s, share)"])
def test_a_norm_of_large_values_is_no_zero(tmp_path: Path, square: str, mean: str) -> None:
    text = f"""g (float[3,16] x) => (float[3,16] y) {{
        h = MatMul(x, w) {NORMS[square]} {mean} e = Add(m, eps) r = Sqrt(e) y = Div(h, r) }}"""
    weights = {
        "w": np.eye(16, dtype=np.float32) * 1000,
        "two": np.float32(2),
        "half": np.float32(0.5),
        "eps": np.float32(1e-5),
        "share": np.full((16, 1), 1 / 16, np.float32),
        "last": np.array([-1]),
        "ends": np.array([-2, -1]),
        "split": np.array([3, 4, 4]),
        "whole": np.array([3, 16]),
    }
    check(write_onnx(tmp_path / "m.onnx", text, weights), x=RNG.standard_normal((3, 16)).astype(np.float32))


@pytest.mark.parametrize("nodes", ["p = MatMul(h, t)", "p = Gemm<transB = 1>(h, h)"])
def test_products_of_all_rows_with_each_other_are_squares(tmp_path: Path, nodes: str) -> None:
    text = f"g (float[3,16] x) => (float[3,3] y) {{ h = MatMul(x, w) t = Transpose(h) {nodes} y = Mul(p, share) }}"
    weights = {"w": np.eye(16, dtype=np.float32) * 1000, "share": np.float32(1e-6)}
    check(write_onnx(tmp_path / "m.onnx", text, weights), x=RNG.standard_normal((3, 16)).astype(np.float32))


MASKS = {
    "added twice": "a = Add(s, m) b = Add(a, m)",
    "subtracted and added": "n = Neg(m) a = Sub(s, n) b = Add(a, m)",
    "three times": "a = Add(s, m) c = Add(a, m) b = Add(m, c)",
    "to itself": "d = Add(m, m) b = Add(s, d)",
    "added once": "b = Add(s, m)",
    "selected, then added": "a = Where(hidden, far, s) b = Add(a, m)",
    "selected, then a bias": "a = Where(hidden, far, s) b = Add(a, bias)",
    "in a sum": "b = Sum(s, m, m, bias)",
    "scaled behind": "a = Add(s, m) c = Add(a, m) b = Mul(c, half)",
}
MAKERS = {
    "of whole numbers": "f = Cast<to = 1>(mask) i = Sub(one, f) m = Mul(i, far)",
    "of two masks": "f = Cast<to = 1>(mask) i = Sub(one, f) k = Add(i, i) m = Mul(k, far)",
    "chosen": "m = Where(hidden, far, zero)",
    "in a branch": """any = ReduceMax<keepdims = 0>(mask) some = Cast<to = 9>(any)
        m = If (some) < then_branch = t () => (float[3,5] p) { p = Where(hidden, far, zero) },
                     else_branch = e () => (float[3,5] q) { q = Where(hidden, far, zero) } >""",
}


@pytest.mark.parametrize("far", [-1e9, -3e38 / 4])
@pytest.mark.parametrize("use", MASKS)
@pytest.mark.parametrize("made", MAKERS)
def test_masks_that_add_up_stay_finite(tmp_path: Path, made: str, use: str, far: float) -> None:
    text = f"""g (float[3,5] x, int64[3,5] mask) => (float[3,5] y) {{
        none = Constant<value_int = 0>() hidden = Equal(mask, none)
        s = MatMul(x, w) {MAKERS[made]} {MASKS[use]} y = Softmax(b) }}"""
    weights = {
        "w": np.eye(5, dtype=np.float32) * 30,
        "far": np.float32(far),
        "zero": np.float32(0),
        "one": np.float32(1),
        "half": np.float32(0.5),
        "bias": np.float32([-40, 0, 1, 2, -3]),
    }
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
    path = write_onnx(tmp_path / "m.onnx", text, weights)
    want, got = both(path, x=RNG.standard_normal((3, 5)).astype(np.float32), mask=mask)
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got[:2], want[:2], atol=0.02)
    np.testing.assert_allclose(got.sum(-1), 1, atol=0.01)  # the row without anything: which shares is chance


@pytest.mark.parametrize(
    "made",
    [
        "e = EyeLike(x) ",
        "e = EyeLike<dtype = 1>(x)",
        "e = HannWindow(n)",
        "e = HannWindow<output_datatype = 1>(n)",
        "e = HammingWindow(n)",
        "e = BlackmanWindow(n)",
        "e = ConstantOfShape<value: tensor = float[1] {3.0}>(shape)",
        "e = RandomUniform<shape = [4, 4], low = 1.0, high = 1.0>()",
        "e = RandomUniformLike<low = 1.0, high = 1.0>(x)",
        "e = OneHot(places, four, values)",
        "c = Cast<to = 1>(n) e = Range(zero, c, one)",
        "e = CastLike(places, x)",
        "e0 = MelWeightMatrix(n, length, rate, zero, top) e = ReduceMax<keepdims = 0>(e0)",
        "e = DequantizeLinear(codes, one)",
    ],
)
def test_makers_whose_type_an_attribute_says_load_and_are_right(tmp_path: Path, made: str) -> None:
    text = f"g (float[4,4] x, int64 n) => (float[4,4] y) {{ h = MatMul(x, w) {made} y = Mul(h, e) }}"
    weights = {
        "w": RNG.standard_normal((4, 4)).astype(np.float32),
        "shape": np.array([4, 4]),
        "places": np.arange(4),
        "four": np.array(4),
        "values": np.float32([0, 1]),
        "zero": np.float32(0),
        "one": np.float32(1),
        "length": np.array(64),
        "rate": np.array(8000),
        "top": np.float32(4000),
        "codes": np.arange(4, dtype=np.int8),
    }
    check(write_onnx(tmp_path / "m.onnx", text, weights), x=np.eye(4, dtype=np.float32), n=np.array(4))


@pytest.mark.parametrize(
    "made", ["c = Cast<to = 1>(h)", "z = ConstantOfShape<value: tensor = float[1] {3.0}>(shape) c = Add(h, z)"]
)
def test_what_becomes_fp16_is_read_as_fp16(tmp_path: Path, made: str) -> None:
    """As an exported RMS norm: a Cast to fp32, and its mean of squares."""
    text = f"""g (float[4,4] x) => (float[4,4] y) {{
        h = MatMul(x, w) {made} s = Pow(c, two) m = ReduceMean<axes = [-1]>(s) e = Add(m, eps) r = Sqrt(e)
        i = Div(one, r) n = Mul(c, i) d = Cast<to = 1>(n) y = Mul(d, w) }}"""
    weights = {"w": RNG.standard_normal((4, 4)).astype(np.float32), "shape": np.array([4, 4])}
    weights |= {"two": np.float32(2), "one": np.float32(1), "eps": np.float32(1e-5)}
    path = write_onnx(tmp_path / "m.onnx", text, weights)
    check(path, x=RNG.standard_normal((4, 4)).astype(np.float32))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize(
    "nodes",
    [
        "y = MeanVarianceNormalization<axes = [1]>(h)",
        "z = ConstantOfShape<value = float[1] {3.0}>(shape) y = Add(h, z)",
    ],
)
def test_what_onnx_allows_in_fp32_alone_stays_there(tmp_path: Path, nodes: str, precision: str) -> None:
    text = f"g (float[4,4] x) => (float[4,4] y) {{ h = MatMul(x, w) {nodes} }}"
    weights = {"w": RNG.standard_normal((4, 4)).astype(np.float32), "shape": np.array([4, 4])}
    model = Model.open(write_onnx(tmp_path / "m.onnx", text, weights)).load()
    onnx.checker.check_model(cast_model(model, precision).model, full_check=True)


def test_every_operator_whose_type_is_free_is_left_in_fp32() -> None:
    """Of all of ONNX: an output whose type variable is that of no input."""
    from trt_workbench.model.low_precision.cast_rules import NodeTypes

    found = set()
    for schema in onnx.defs.get_all_schemas():
        attributes = {"dtype", "to", "output_datatype", "output_dtype"} & set(schema.attributes)
        if schema.domain or not attributes:
            continue
        types = NodeTypes(onnx.helper.make_node(schema.name, [], ["y"]), onnx.defs.onnx_opset_version())
        if types.known and schema.name not in ("QuantizeLinear",):
            found.add(schema.name)
            assert types.is_free(0), schema.name
            assert not types.output_may_be(0, TensorProto.FLOAT16)
    assert {"EyeLike", "HannWindow", "DequantizeLinear", "Cast", "MelWeightMatrix"} <= found


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["Relu", "Abs", "Neg", "square", "add", "mean", "sqrt", "scale"]), min_size=1, max_size=6),
    st.sampled_from([1.0, 30.0, 240.0]),
)
def test_chains_with_squares_are_finite_where_the_model_is(
    tmp_path_factory: pytest.TempPathFactory, ops: list[str], size: float
) -> None:
    forms = {
        "square": "{y} = Mul({x}, {x})",
        "add": "{y} = Add({x}, one)",
        "mean": "{y} = ReduceMean<axes = [-1]>({x})",
        "sqrt": "{y}_p = Abs({x}) {y} = Sqrt({y}_p)",
        "scale": "{y} = Mul({x}, half)",
    }
    if ops.count("square") > 1:
        return
    text = "t0 = MatMul(x, w) "
    for place, one in enumerate(ops):
        form = forms.get(one, f"{{y}} = {one}({{x}})")
        text += form.format(x=f"t{place}", y=f"t{place + 1}") + " "
    # what is large inside comes back in the end
    text += f"a = Abs(t{len(ops)}) b = Add(a, one) y = Reciprocal(b)"
    weights = {"w": np.eye(8, dtype=np.float32) * size, "one": np.float32(1), "half": np.float32(0.5)}
    path = write_onnx(
        tmp_path_factory.mktemp("c") / "m.onnx", f"g (float[2,8] x) => (float[2,n] y) {{ {text} }}", weights
    )
    want, got = both(path, x=RNG.standard_normal((2, 8)).astype(np.float32))
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got, want, atol=0.01, rtol=0.05)
