"""fp64 becomes fp32 only where no value changes; ONNX Runtime computes both."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from tests.in_onnxruntime import run
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import refused

from trt_workbench.core.errors import CheckFailed
from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.doubles import double_to_float
from trt_workbench.sanitize.parity import ParityRequest, check_parity, far_inputs

DOUBLE, FLOAT, INT32, INT64 = TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


def changed(text: str, **weights: object) -> tuple[onnx.ModelProto, onnx.ModelProto, list[str]]:
    model = parse_onnx(text, weights)
    onnx.checker.check_model(model, full_check=True)
    before = onnx.ModelProto()
    before.CopyFrom(model)
    return before, model, double_to_float(model)


@pytest.mark.parametrize(
    ("kind", "nodes"),
    [
        # time stamps in seconds, nanoseconds, and ones whose start is an input itself
        ("int64", f"d = Cast<to = {DOUBLE}>(x) e = Sub(d, start) y = Cast<to = {FLOAT}>(e)"),
        ("int64", f"d = Cast<to = {DOUBLE}>(x) f = ReduceMin<keepdims = 0>(d) e = Sub(d, f) y = Cast<to = {FLOAT}>(e)"),
        ("int32", f"d = Cast<to = {DOUBLE}>(x) e = Sub(d, start) y = Cast<to = {FLOAT}>(e)"),
        ("uint32", f"d = Cast<to = {DOUBLE}>(x) e = Sub(d, start) y = Cast<to = {FLOAT}>(e)"),
        # exact steps, of which the second rounds what the first did not
        ("float", f"d = Cast<to = {DOUBLE}>(x) e = Add(d, start) f = Sub(e, start) y = Cast<to = {FLOAT}>(f)"),
        ("float", f"d = Cast<to = {DOUBLE}>(x) e = Mul(d, tenth) y = Cast<to = {FLOAT}>(e)"),
        ("float", f"d = Cast<to = {DOUBLE}>(x) e = Exp(d) y = Cast<to = {FLOAT}>(e)"),
        ("float", f"d = Cast<to = {DOUBLE}>(x) s = Mul(d, d) e = ReduceSum(s) y = Cast<to = {FLOAT}>(e)"),
        # 16777217 / 2 rounded down to a whole number
        ("int32", f"d = Cast<to = {DOUBLE}>(x) e = Div(d, two) f = Floor(e) y = Cast<to = {INT64}>(f)"),
    ],
)
def test_what_fp32_does_not_hold_stays(kind: str, nodes: str) -> None:
    out = "int64" if f"to = {INT64}" in nodes else "float"
    text = f"g ({kind}[4] x) => ({out}[k] y) {{ {nodes} }}"
    assert changed(text, start=np.float64(1.7e9), tenth=np.float64(0.1), two=np.float64(2))[2] == []


@pytest.mark.parametrize(
    "nodes",
    [
        "s = SequenceConstruct(d) e = SequenceAt(s, zero)",
        "s = SequenceConstruct(d) t = SequenceInsert(s, d) e = SequenceAt(t, zero)",
        "s = Optional(d) e = OptionalGetElement(s)",
        f"s = own.single(d) e = Cast<to = {DOUBLE}>(s)",
    ],
)
def test_what_passes_through_sequences_and_functions_stays(nodes: str) -> None:
    """Once it is out of them its type is no longer known, or the function says fp64 itself."""
    back = f"k = Constant<value = double {{0.1}}>() f = Mul(e, k) y = Cast<to = {FLOAT}>(f)"
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
        g (float[4] x) => (float[4] y) {{ zero = Constant<value_int = 0>() d = Cast<to = {DOUBLE}>(x) {nodes} {back} }}
        <domain: "own", opset_import: ["" : 17]>
        single (a) => (b) {{ k = Constant<value = double {{0.1}}>() m = Mul(a, k) b = Cast<to = {FLOAT}>(m) }}"""
    )
    before = model.SerializeToString()
    assert double_to_float(model) == []
    assert model.SerializeToString() == before
    run(model, {"x": np.ones(4, np.float32)})


@pytest.mark.parametrize(
    ("kind", "nodes", "out"),
    [
        ("int16", f"d = Cast<to = {DOUBLE}>(x) e = Mul(d, k) f = Sub(e, k) y = Cast<to = {INT64}>(f)", "int64"),
        ("float", f"d = Cast<to = {DOUBLE}>(x) e = Div(d, k) f = Relu(e) y = Cast<to = {FLOAT}>(f)", "float"),
        ("float", f"d = Cast<to = {DOUBLE}>(x) e = Floor(d) y = Less(e, k)", "bool"),
        ("float", f"d = Cast<to = {DOUBLE}>(x) e = Sqrt(d) y = Cast<to = {FLOAT}>(e)", "float"),
    ],
)
def test_what_fp32_holds_becomes_fp32_to_the_bit(kind: str, nodes: str, out: str) -> None:
    before, after, what = changed(f"g ({kind}[512] x) => ({out}[512] y) {{ {nodes} }}", k=np.float64(3))
    assert what
    assert DOUBLE not in {one.i for node in after.graph.node for one in node.attribute}
    bits = np.random.default_rng(0).integers(0, 2**32, 512, np.uint32)
    x = bits.view(np.float32) if kind == "float" else bits.astype(np.int16)
    if out == "bool":
        x = np.nan_to_num(x)
    np.testing.assert_array_equal(run(before, {"x": x})[0], run(after, {"x": x})[0])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["Add", "Sub", "Mul", "Div", "Max", "Min", "Floor", "Neg", "Sqrt", "Abs"]), max_size=4),
    st.sampled_from(["float", "int64", "int32", "int16", "uint8"]),
    st.sampled_from([0.5, 3.0, 0.1, 1e9, 2.0**24, -7.0, 2.0**53 + 2]),
    st.sampled_from([FLOAT, INT64]),
)
def test_any_chain_is_the_same_to_the_bit_or_stays(ops: list[str], kind: str, number: float, target: int) -> None:
    text, name = f"d0 = Cast<to = {DOUBLE}>(x)", "d0"
    for place, one in enumerate(ops, 1):
        operands = f"{name}, k" if one in ("Add", "Sub", "Mul", "Div", "Max", "Min") else name
        text, name = f"{text} d{place} = {one}({operands})", f"d{place}"
    out = "float" if target == FLOAT else "int64"
    before, after, what = changed(
        f"g ({kind}[n] x) => ({out}[n] y) {{ {text} y = Cast<to = {target}>({name}) }}", k=np.float64(number)
    )
    if not what:
        return
    dtype = np.dtype({"float": "float32"}.get(kind, kind))
    if dtype.kind == "f":
        x = np.array([0, -0.0, 1, 1 / 3, 16777216, 16777215, 1e9, 1e38, 1e-40, -5.5, 2**-24 + 1], dtype)
    else:
        limits = np.iinfo(dtype)
        x = np.array([limits.min, limits.max, limits.max - 1, 0, 1, 2, 3, 100, limits.max // 3], dtype)
    (one,), (other,) = run(before, {"x": x}), run(after, {"x": x})
    inside = np.ones(len(x), bool)
    if target == INT64:  # what is not in the range of int64 has no defined value
        inside = np.abs(one.astype(np.float64)) < 2.0**62
    np.testing.assert_array_equal(one[inside], other[inside])


@pytest.mark.parametrize("kind", ["int64", "int32"])
@pytest.mark.parametrize("narrow", [FLOAT, INT32])
def test_the_check_reaches_the_constants_and_the_range(tmp_path: Path, kind: str, narrow: int) -> None:
    """A rewrite that narrows what it may not is found, whoever made it."""
    wide = {FLOAT: DOUBLE, INT32: INT64}[narrow]

    def text(to: int) -> str:
        back = f"d = Cast<to = {wide}>(c) f = Sub(d, start) y = Cast<to = {FLOAT}>(f)"
        return f"g ({kind}[4] x) => (float[4] y) {{ c = Cast<to = {to}>(x) {back} }}"

    start = np.array(1_700_000_000, np.float64 if narrow == FLOAT else np.int64)
    before = write_onnx(tmp_path / "m.onnx", text(wide), {"start": start})
    after = parse_onnx(text(narrow), {"start": start})
    if (kind, narrow) == ("int32", INT32):
        assert check_parity(Model.open(before), after, ParityRequest())["input_sets"] == 4
        return
    with refused(CheckFailed):
        check_parity(Model.open(before), after, ParityRequest())


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Gather(table, x)",
        "s = Expand(table, x) y = ReduceSum<keepdims = 0>(s)",
        "one = Constant<value_int = 1>() a = Add(x, one) y = ConstantOfShape(a)",
        "one = Constant<value_int = 7>() a = Div(one, x) y = Cast<to = 1>(a)",
        "y = Tile(table, x)",
        "f = Cast<to = 1>(x) g = Mul(f, f) i = Cast<to = 7>(g) y = ConstantOfShape(i)",
    ],
)
def test_sizes_and_indices_stay_small(tmp_path: Path, nodes: str) -> None:
    weights = {"table": np.ones(4, np.float32)}
    path = write_onnx(tmp_path / "m.onnx", f"g (int64[1] x) => (float[n] y) {{ {nodes} }}", weights)
    assert far_inputs(Model.open(path), {"x": np.zeros(1, np.int64)}, 0) == []


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.uint64])
def test_far_numbers_of_every_type_of_integers(tmp_path: Path, dtype: type) -> None:
    name = np.dtype(dtype).name
    path = write_onnx(tmp_path / "m.onnx", f"g ({name}[300] x) => (double[300] y) {{ y = Cast <to = 11> (x) }}")
    wide, steps = far_inputs(Model.open(path), {"x": np.zeros(300, dtype)}, 0)
    assert wide["x"].dtype == steps["x"].dtype == dtype
    assert wide["x"].max() == np.iinfo(dtype).max
    assert len(np.unique(steps["x"])) == min(300, 2 ** (8 * np.dtype(dtype).itemsize))
