"""The table of formats: its facts are those of numpy, ml_dtypes, ONNX and PyTorch; its order and limits follow."""

import itertools

import ml_dtypes
import numpy as np
import onnx
import pytest
from tests.texts import refused
from tests.unit.core.precision_page import PAGE, page

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import (
    FAULT,
    FORMATS,
    LOGITS,
    MATCH,
    STREAM,
    Format,
    coarsest,
    get,
    names,
    parse,
    precisions,
    read,
)

FLOATS = [one for one in FORMATS if one.is_float and one.numpy]
WHOLE_NUMBERS = [one for one in FORMATS if not one.is_float]


@pytest.mark.parametrize("row", FLOATS, ids=lambda one: one.name)
def test_floats_are_those_of_ml_dtypes(row: Format) -> None:
    dtype = np.dtype(getattr(ml_dtypes, row.numpy, row.numpy))
    facts = ml_dtypes.finfo(dtype)
    assert (row.exponent_bits, row.mantissa_bits, row.bits) == (facts.nexp, facts.nmant, facts.bits)
    assert row.unit == float(facts.eps) / 2
    assert row.largest == float(facts.max)
    assert row.smallest_normal == float(facts.smallest_normal)
    assert row.smallest == float(facts.smallest_subnormal)
    if row.name != "fp64":
        with np.errstate(over="ignore"):
            beyond = np.float32(row.largest * 2).astype(dtype).astype(np.float32)
        assert np.isinf(beyond) == row.infinity


@pytest.mark.parametrize("row", WHOLE_NUMBERS, ids=lambda one: one.name)
def test_integers_are_symmetric(row: Format) -> None:
    facts = ml_dtypes.iinfo(getattr(ml_dtypes, row.numpy, row.numpy))
    assert (row.bits, row.largest, row.smallest) == (facts.bits, facts.max, 1)
    # half a step over the largest value, to the power of two below
    assert row.unit == 0.5 / (row.largest + 1)


def test_tf32_has_the_exponent_of_fp32_and_the_digits_of_fp16() -> None:
    tf32 = get("tf32")
    assert (tf32.exponent_bits, tf32.mantissa_bits) == (get("fp32").exponent_bits, get("fp16").mantissa_bits)
    assert tf32.largest == float(np.uint32(0x7F7FE000).view(np.float32))


@pytest.mark.parametrize("row", [one for one in FORMATS if one.onnx], ids=lambda one: one.name)
def test_element_types_are_those_of_onnx(row: Format) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(row.onnx[0]))
    assert dtype == np.dtype(getattr(ml_dtypes, row.numpy, row.numpy))


def test_no_element_type_and_no_operator_has_two_formats() -> None:
    for own in ([*(row.onnx for row in FORMATS)], [*(row.operators for row in FORMATS)]):
        every = list(itertools.chain.from_iterable(own))
        assert len(every) == len(set(every))


def test_pytorch_has_what_it_is_said_to_have() -> None:
    torch = pytest.importorskip("torch")
    for row in FORMATS:
        if row.torch:
            facts = torch.finfo(getattr(torch, row.torch))
            assert (facts.bits, facts.eps / 2, facts.max) == (row.bits, row.unit, row.largest)


def test_the_order_is_by_error() -> None:
    errors = [one.unit for one in FORMATS if not one.block or not one.is_float]
    # e5m2's steps are twice those of int4 where int4's range is used up, and far below elsewhere
    assert [one for one in errors if one != get("fp8-e5m2").unit] == sorted(
        (one for one in errors if one != get("fp8-e5m2").unit), reverse=True
    )
    assert names()[0] == "int2"
    assert names()[-1] == "fp64"


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("fp16", ["fp16"]),
        ("int8+fp16", ["int8", "fp16"]),
        ("fp16+int8", ["int8", "fp16"]),
        ("int8-mixed", ["int8"]),
        ("int4-weights + fp16", ["int4", "fp16"]),
        ("fp8-e5m2", ["fp8-e5m2"]),
        ("fp8+fp8+tf32", ["fp8", "tf32"]),
    ],
)
def test_a_precision_is_read(text: str, formats: list[str]) -> None:
    assert [one.name for one in parse(text)] == formats


@pytest.mark.parametrize("text", ["", "fp17", "int8+", "int8 fp16", "-mixed", "mixed", "int8-mixed-mixed", "FP16"])
def test_what_is_no_precision_is_refused(text: str) -> None:
    with refused(UsageProblem):
        parse(text)


def test_modes_are_read_and_written() -> None:
    for name in precisions():
        row, mode = read(name)
        assert row.made(mode) == name
    assert {"fp32", "int8", "int8-mixed", "int4-weights"} <= set(precisions())


def test_the_coarsest_decides() -> None:
    assert coarsest(["fp32", "int8", "fp16"]).name == "int8"
    assert coarsest(["tf32", "fp32"]).name == "tf32"


def test_limits_follow_from_the_roundoff() -> None:
    """The figures that the guides give."""
    shown = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8", "nvfp4")
    assert [STREAM.limit(name) for name in shown] == [1e-5, 5e-3, 5e-3, 0.04, 0.04, 0.2, 0.2]
    assert [MATCH.limit(name) for name in shown] == [1e-4, 0.05, 0.05, 0.2, 0.2, 0.2, 0.2]
    assert [FAULT.limit(name) for name in shown] == [4e-4, 0.2, 0.2, 0.75, 0.75, 0.75, 0.75]
    assert [LOGITS.limit(name) for name in shown] == [4e-4, 0.2, 0.2, 0.3, 0.3, 0.3, 0.3]
    assert STREAM.limit("fp32", "fp16") == STREAM.limit("fp16")
    for rule, (finer, coarser) in itertools.product((STREAM, MATCH, FAULT, LOGITS), itertools.pairwise(names()[::-1])):
        assert rule.limit(finer) <= rule.limit(coarser)


def test_the_page_shows_the_table() -> None:
    """`python -m tests.unit.core.precision_page` makes its tables anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
