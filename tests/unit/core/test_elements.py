"""One element beside another: special values of every type."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from trt_workbench.core.compare import compare_rows, difference
from trt_workbench.core.elements import Kind, equal, errors, is_finite, kind, largest_agrees, widened
from trt_workbench.core.tolerance import deviation

INF, NAN = np.inf, np.nan
LOW, HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max
FLOATS = (np.float16, np.float32, np.float64, np.longdouble, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2)
NUMBERS = (*FLOATS, np.complex64, np.complex128, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.bool_)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@st.composite
def arrays(draw: st.DrawFn, dtypes: tuple[Any, ...] = NUMBERS) -> NDArray[Any]:
    """Arrays of a type with any bits: NaN, infinities and subnormal numbers among them."""
    dtype, shape = np.dtype(draw(st.sampled_from(dtypes))), draw(SHAPES)
    count = int(np.prod(shape))
    if dtype.kind in "biu" or dtype == np.longdouble:
        elements = None if dtype.kind in "biu" else st.sampled_from([NAN, INF, -INF, 0.0, -0.0, 1.5, 1e300])
        return draw(hnp.arrays(dtype, shape, elements=elements))
    if dtype.kind in "fc" and dtype.name.startswith(("float16", "float32", "float64", "complex")):
        return draw(hnp.arrays(dtype, shape))
    bits = draw(hnp.arrays(np.dtype(f"u{dtype.itemsize}"), count))
    return bits.view(dtype).reshape(shape)


@given(arrays())
def test_an_array_equals_itself_whatever_it_holds(array: NDArray[Any]) -> None:
    assert not errors(array, array.copy()).any()
    assert equal(array, array.copy())
    for rows in (True, False):
        one = difference(array, array.copy(), rows=rows)
        assert one.equal
        assert (one.size, one.max_abs, one.max_rel, one.nonfinite, one.likeness) == (0, 0, 0, 0, pytest.approx(1))
        assert one.argmax_agreement in (None, 1.0)
    assert deviation(array, array.copy(), rtol=0, atol=0).passed


@given(arrays(), st.data())
def test_one_changed_element_is_found_and_no_other(array: NDArray[Any], data: st.DataObject) -> None:
    if not array.size:
        return
    place = data.draw(st.integers(0, array.size - 1))
    other = array.copy()
    number = complex(array.reshape(-1)[place])
    other.reshape(-1)[place] = np.array(0 if number != 0 or number != number else 1).astype(array.dtype)
    apart = errors(other, array).reshape(-1)
    assert apart[place] > 0
    assert np.count_nonzero(apart) == 1
    assert not equal(other, array)
    assert not difference(other, array).equal
    assert not deviation(other, array, rtol=0, atol=0).passed
    broken = bool(np.isfinite(number)) is False
    assert (difference(other, array).nonfinite > 0) is broken
    assert np.isinf(apart[place]) == broken or abs(number) > 1e308


@pytest.mark.parametrize(
    ("found", "expected", "apart"),
    [
        (np.array([HIGH, LOW, 2**53 + 1]), np.array([HIGH - 1, HIGH, 2**53]), [1, 2.0**64, 1]),
        (np.array([2**64 - 1, 2**63, 0], np.uint64), np.array([HIGH, LOW, -1]), [2.0**63, 2.0**64, 1]),
        (np.array([2**64 - 1], np.uint64), np.array([2**64 - 1], np.uint64), [0]),
        (np.array([True, False]), np.array([1, 1], np.uint8), [0, 1]),
        (np.array([1, 0], np.int32), np.array([1.5, NAN]), [0.5, INF]),
        (np.array([65504, INF], np.float16), np.array([65504, 65536], np.float32), [0, INF]),
        (np.array([1, 2], ml_dtypes.bfloat16), np.array([1.0, 2.5], np.float32), [0, 0.5]),
        (np.array([-8, 7], ml_dtypes.int4), np.array([-8, 6], np.int8), [0, 1]),
        (np.array([3 + 4j, 1]), np.array([0, 1 + 2j]), [5, 2]),
        (np.array([complex(NAN, 1), complex(NAN, 1), complex(INF, 0)]),
         np.array([complex(NAN, 1), complex(NAN, 2), complex(INF, -0.0)]), [0, INF, 0]),
        (np.array(["a", "b"]), np.array(["a", b"b"], object), [0, INF]),
        (np.array([1, "1", NAN], object), np.array([1.0, 1, NAN], object), [0, INF, 0]),
        (np.array(["NaT", "2020"], "M8[Y]"), np.array(["NaT", "2021"], "M8[Y]"), [0, INF]),
        (np.array([0.0, -0.0]), np.array([-0.0, 0.0]), [0, 0]),
        (np.array([1e308]), np.array([-1e308]), [INF]),
        (np.array([5e-324]), np.array([0.0]), [5e-324]),
        (np.array(7), np.array(7), 0),
        (np.array("x"), np.array("y"), INF),
        (np.zeros((2, 0)), np.zeros((2, 0)), [[], []]),
    ],
)  # fmt: skip
def test_errors(found: NDArray[Any], expected: NDArray[Any], apart: Any) -> None:
    assert errors(found, expected).tolist() == apart
    assert errors(expected, found).tolist() == apart
    assert equal(found, expected) is (not np.any(apart))


def test_what_is_not_finite() -> None:
    assert is_finite(np.array([1, NAN, INF, -INF])).tolist() == [True, False, False, False]
    assert is_finite(np.array([1, NAN], ml_dtypes.float8_e4m3fn)).tolist() == [True, False]
    assert is_finite(np.array([complex(1, NAN), 2])).tolist() == [False, True]
    for array in (np.arange(2), np.array(["nan"]), np.array([None]), np.array([True])):
        assert is_finite(array).all()


@pytest.mark.parametrize(
    ("dtypes", "how"),
    [
        (("i4", "?"), Kind.WHOLE), (("u8", "f2"), Kind.REAL), (("f4", "c8"), Kind.COMPLEX), (("U1", "f4"), Kind.OTHER),
        (("O",), Kind.OTHER), (("V4",), Kind.OTHER), ((ml_dtypes.bfloat16, "i8"), Kind.REAL),
        ((ml_dtypes.uint4,), Kind.WHOLE), (("M8[s]",), Kind.OTHER),
    ],
)  # fmt: skip
def test_how_types_are_compared(dtypes: tuple[Any, ...], how: Kind) -> None:
    assert kind(*(np.zeros(1, dtype) for dtype in dtypes)) is how


def test_the_largest_element_is_no_nan_and_may_be_infinite() -> None:
    expected = np.array([[1, 2, NAN], [1, -INF, 0], [INF, 3, 4], [NAN, NAN, NAN], [0, 1, NAN], [-INF, -5, -6]])
    found = np.array([[1, 2, NAN], [0, -INF, 1], [INF, 4, 3], [NAN, NAN, NAN], [0, 1, INF], [-INF, -6, -5]])
    assert largest_agrees(found, expected).tolist() == [True, False, True, True, False, False]
    assert largest_agrees(np.array([1, 2], ml_dtypes.bfloat16), np.array([3.0, 4.0])).tolist() is True


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(np.float16, 0x7D00), (ml_dtypes.bfloat16, 0x7FA0), (np.float32, 0x7FA00000), (ml_dtypes.float8_e5m2, 0x7D)],
)
def test_a_signalling_nan_is_a_nan_and_no_warning(dtype: Any, bits: int) -> None:
    plain = np.array([[1, NAN], [3, 2]], dtype)
    array = plain.copy()
    array.view(f"u{array.itemsize}")[0, 1] = bits
    assert is_finite(array).tolist() == [[True, False], [True, True]]
    assert equal(array, plain)
    assert largest_agrees(array, plain).all()
    assert difference(array, plain, rows=True).argmax_agreement == 1
    assert compare_rows(array, plain).size.tolist() == [0, 0]


@given(arrays(), st.randoms(use_true_random=False), st.data())
def test_rows_in_another_order_have_the_same_figures(array: NDArray[Any], random: Any, data: st.DataObject) -> None:
    if array.ndim == 0 or not array.size:
        return
    other = array.copy()
    for _ in range(data.draw(st.integers(0, 3))):
        other.reshape(-1)[random.randrange(array.size)] = np.array(random.choice([0, 1, 1])).astype(array.dtype)
    order = list(range(len(array)))
    random.shuffle(order)
    plain, moved = difference(other, array, rows=True), difference(other[order], array[order], rows=True)
    same = ("rel_l2", "max_abs", "max_rel", "changed", "nonfinite", "near_ties")
    assert [getattr(moved, name) for name in same] == pytest.approx([getattr(plain, name) for name in same])
    each = compare_rows(other, array).size
    assert compare_rows(other[order], array[order]).size == pytest.approx(each[order])
    assert each[plain.worst_row] == plain.size


@given(
    hnp.arrays(np.float64, (3, 4), elements=st.floats(-8, 8).filter(lambda one: one == 0 or abs(one) > 1e-9)),
    hnp.arrays(np.float64, (3, 4), elements=st.floats(-1, 1).filter(lambda one: one == 0 or abs(one) > 1e-9)),
    st.integers(-900, 900),
)
def test_the_scale_of_both_does_not_matter(
    expected: NDArray[np.float64], noise: NDArray[np.float64], power: int
) -> None:
    if not expected.any(axis=1).all():
        return  # rows of zeros are measured by the others, or absolutely
    found = expected + noise
    plain = difference(found, expected, rows=True)
    scaled = difference(np.ldexp(found, power), np.ldexp(expected, power), rows=True)
    for name in ("rel_l2", "max_rel", "cosine", "argmax_agreement", "near_ties", "worst_row"):
        assert getattr(scaled, name) == pytest.approx(getattr(plain, name), rel=1e-9, abs=1e-15), name


def test_both_parts_of_complex_numbers_count_wherever_they_are_converted() -> None:
    expected, found = np.array([[1 + 2j, 3]], np.complex64), np.array([[1.0, 3.0]], np.float32)
    for one, other in ((found, expected), (expected, found)):
        assert errors(one, other).tolist() == [[2, 0]]
        assert difference(one, other).max_abs == 2
        assert not deviation(one, other, rtol=0, atol=1).passed
        assert np.abs(widened(one) - widened(other)).max() == 2
    assert widened(np.array([2**60], np.int64)).dtype == np.float64
