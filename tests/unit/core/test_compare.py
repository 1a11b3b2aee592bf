"""How far an array is from its reference: figures of small arrays, worked out by hand."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from trt_workbench.core.compare import Sums, can_match, compare_rows, difference, matched, typical_error

INF, NAN = np.inf, np.nan
# Three rows of 2x2, of length 5, 0 and 50.
ROWS = np.array([[[3, 0], [0, 4]], [[0, 0], [0, 0]], [[30, 0], [0, -40]]], np.float32)
# Off by 0.5 in each of the first two rows, and by 1 in the last.
OFF = ROWS + np.array([[[0, 0], [0, 0.5]], [[0, 0], [0.5, 0]], [[0, 0], [0, -1]]], np.float32)


def figures(found: Any, expected: Any, *, rows: bool = True, **asked: Any) -> dict[str, Any]:
    """Those figures of a difference that are neither zero nor absent."""
    document = asdict(difference(np.asarray(found), np.asarray(expected), rows=rows, **asked))
    return {name: value for name, value in document.items() if value}


def test_rows_are_measured_each_by_its_own_size_and_the_worst_one_counts() -> None:
    found = difference(OFF[[1, 0, 2]], ROWS[[1, 0, 2]], rows=True)
    assert (found.rel_l2, found.max_abs, found.max_rel, found.worst_row) == (0.1, 1, 0.125, 1)
    assert (found.argmax_agreement, found.near_ties, found.nonfinite, found.changed) == (1, 0, 0, 0)
    whole = difference(OFF, ROWS, rows=False)
    assert (whole.rel_l2, whole.max_rel, whole.worst_row) == (pytest.approx((1.5 / 2525) ** 0.5), 1 / 40, 0)
    small = difference(OFF[[2, 0]], ROWS[[2, 0]] * [[[1]], [[0.1]]], rows=True)
    assert (small.rel_l2, small.max_rel) == (pytest.approx((2.7**2 + 4.1**2) ** 0.5 / 0.5), pytest.approx(4.1 / 0.4))


def test_a_row_of_zeros_is_measured_by_the_others_and_by_nothing_where_all_are_zeros() -> None:
    found = difference(OFF[1:] * [[[1], [8]], [[1], [1]]], ROWS[1:], rows=True)
    assert (found.rel_l2, found.max_rel, found.worst_row) == (4 / 50, 4 / 40, 0)
    zeros = difference(OFF[1:], ROWS[1:], rows=True, left_out=[1])
    assert (zeros.rel_l2, zeros.max_rel, zeros.cosine) == (0.5, 0.5, None)


def test_rows_that_are_left_out_are_not_compared() -> None:
    found = difference(OFF, ROWS, rows=True, left_out=[0])
    assert (found.rel_l2, found.worst_row) == (0.02, 2)
    assert figures(OFF, ROWS, left_out=range(3)) == figures(np.zeros((3, 0)), np.zeros((3, 0))) == {}


@pytest.mark.parametrize(("typical", "beyond"), [(0.12, 0.25), (0.125, 0.0), (0.0, 0.25), (-1.0, 1.0)])
def test_elements_further_apart_than_was_asked_are_counted_in_the_worst_row(typical: float, beyond: float) -> None:
    assert difference(OFF, ROWS, rows=True, typical=typical).beyond == beyond


@pytest.mark.parametrize(("found", "cosine"), [([2, 4], 1), ([-1, -2], -1), ([-2, 1], 0), ([3, 1], 0.5**0.5)])
def test_cosine(found: list[float], cosine: float) -> None:
    assert difference(np.array([found]), np.array([[1.0, 2.0]]), rows=True).cosine == pytest.approx(cosine)


def test_the_largest_elements_of_vectors_are_compared_and_what_changed_places_by_noise_is_a_near_tie() -> None:
    expected = np.tile([0, 1, 0.5, 0], (2, 5, 1))
    found = expected + np.array([0, 0, 0, 0.05])
    assert difference(found, expected, rows=True).argmax_agreement == 1
    expected[0, :3, 2] = 0.92, 0.88, 0.92
    found[0, :3] = [0, 0.95, 0.97, 0.05], [0, 1, 1.1, 0.05], [9, 1, 0.92, 0.05]
    for rows in (True, False):
        one = difference(found, expected, rows=rows)
        assert (one.argmax_agreement, one.near_ties) == (0.7, 1)


@pytest.mark.parametrize(
    ("shape", "rows", "known"), [((4,), True, False), ((4,), False, True), ((4, 1), True, False), ((2, 2), True, True)]
)
def test_single_elements_have_no_largest(shape: tuple[int, ...], rows: bool, known: bool) -> None:
    array = np.arange(4.0).reshape(shape)
    assert difference(array, array, rows=rows).argmax_agreement == (1.0 if known else None)


def test_nan_and_infinity_are_equal_to_themselves_alone() -> None:
    expected = np.array([[NAN, INF, 3, 4], [NAN, INF, 1, 0], [NAN, 2, 0, 0]])
    found = np.array([[NAN, INF, 3, 4.5], [INF, -INF, 1, 0], [0, 2, 0, 0]])
    one = difference(found, expected, rows=True)
    assert (one.nonfinite, one.worst_row, one.rel_l2, one.max_abs, one.max_rel) == (3, 1, INF, INF, INF)
    assert compare_rows(found, expected, rows=True).size.tolist() == [0.1, INF, INF]
    finite = difference(found[:1], expected[:1], rows=True)
    assert (finite.nonfinite, finite.rel_l2, finite.cosine) == (0, 0.1, pytest.approx(27 / 5 / 29.25**0.5))


@pytest.mark.parametrize(
    ("found", "expected", "rows", "apart"),
    [
        ([[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 9], [5, 6]], True, {"changed": 0.5, "max_abs": 5, "worst_row": 1}),
        ([[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 9], [5, 6]], False, {"changed": 1 / 6, "max_abs": 5}),
        ([True, False], [True, True], False, {"changed": 0.5, "max_abs": 1}),
        (np.uint8([0]), np.uint8([255]), True, {"changed": 1, "max_abs": 255}),
        (["a", "b"], ["a", "c"], True, {"changed": 1, "worst_row": 1}),
        (3, 4, True, {"changed": 1, "max_abs": 1}),
        ([[1.0]], [1.0], True, {"rel_l2": INF, "max_abs": INF, "max_rel": INF, "shape_differs": True}),
    ],
)
def test_integers_strings_and_other_shapes(found: Any, expected: Any, rows: bool, apart: dict[str, Any]) -> None:
    assert figures(found, expected, rows=rows) == apart
    size = difference(np.asarray(found), np.asarray(expected), rows=rows).size
    assert compare_rows(np.asarray(found), np.asarray(expected), rows=rows).size.max() == size
    assert typical_error(np.asarray(found), np.asarray(expected)) == 0


VALUES = st.sampled_from([0.0, 0.5, -0.25, 2.0, 40.0, NAN, INF, -INF])
ARRAYS = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3).flatmap(
    lambda shape: st.tuples(*(hnp.arrays(np.float64, shape, elements=VALUES),) * 2)
)


@given(ARRAYS, st.booleans(), st.sampled_from([np.float16, np.float64, np.int32]))
def test_a_row_is_measured_by_itself_and_a_row_of_zeros_by_the_largest(
    pair: tuple[NDArray[np.float64], NDArray[np.float64]], rows: bool, dtype: type
) -> None:
    found, expected = (
        np.nan_to_num(one, posinf=7, neginf=8).astype(dtype) if dtype is np.int32 else one.astype(dtype) for one in pair
    )
    sizes = compare_rows(found, expected, rows=rows).size
    parts = [(found[[row]], expected[[row]]) for row in range(len(expected))] if rows and expected.ndim else []
    alone = [difference(*one, rows=bool(parts)).size for one in parts or [(found, expected)]]
    known = np.where(np.isfinite(found) & np.isfinite(expected), expected, 0).astype(np.float64)
    lengths = np.sqrt(np.square(known.reshape(len(alone), -1)).sum(axis=1)) if alone and known.size else np.zeros(1)
    largest = lengths.max(initial=0) or 1.0
    for size, own, length in zip(sizes, alone, lengths, strict=False):
        assert size == pytest.approx(own if length or dtype is np.int32 else own / largest)


def test_one_element_in_ten_does_not_make_the_typical_error() -> None:
    expected = np.array([5, -10, 0, 1, 1, 1, 1, 1, 1, 1, 1.0])
    error = np.arange(11) / 10
    assert typical_error(expected - error, expected) == pytest.approx(0.9 / 10)
    assert typical_error(error / 4, np.zeros(11)) == pytest.approx(0.9 / 4)
    assert typical_error(error / 4, np.full(11, 0.25)) == pytest.approx(0.9)
    odd = np.array([NAN, INF, NAN, 5.0])
    assert typical_error(np.append(expected - error, odd), np.append(expected, [NAN, 1, 3, INF])) == pytest.approx(0.09)
    assert typical_error(odd[:3], odd[:3]) == typical_error(np.zeros(0), np.zeros(0)) == 0
    assert typical_error(np.ones((1, 2)), np.zeros((2, 1))) == 0


@given(st.integers(0, 99), st.sampled_from([(2, 5, 3), (3, 4), (1, 2, 2, 2)]))
def test_vectors_that_rounding_swapped_are_put_back(seed: int, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(seed)
    expected = generator.permuted(np.arange(np.prod(shape)), axis=0).reshape(shape).astype(np.float32)
    expected[..., 0] *= 1e-6 if len(shape) > 2 else 1  # such as a class beside coordinates in pixels
    found = np.stack([generator.permutation(row) for row in expected])
    if len(shape) > 2:
        expected[..., -1] = found[..., -1] = 0
    ordered = matched(found, expected)
    assert np.array_equal(ordered, expected)
    assert ordered.dtype == found.dtype


def test_each_column_of_the_vectors_weighs_the_same() -> None:
    expected = np.array([[[1000.0, 0.001, 0, NAN], [1001, 0.002, 0, 5]]])
    found = np.array([[[1001.5, 0.001, 0, NAN], [1000, 0.002, 0, 5]]])
    assert np.array_equal(matched(found, expected), found, equal_nan=True)
    found[..., 3] = 0
    assert np.array_equal(matched(found, expected), found)


def test_vectors_beside_infinite_ones_are_put_in_order() -> None:
    expected = np.array([[0.5, 0.25, 0.125]], np.float32)
    for value in (INF, -INF, NAN):
        found = np.array([[value, 0.5, 0.25]], np.float32)
        assert matched(found, expected)[0, :2].tolist() == [0.5, 0.25]
        assert sorted(matched(expected, found)[0].tolist()) == [0.125, 0.25, 0.5]


@pytest.mark.parametrize(
    ("shape", "can"),
    [((2, 512), True), ((2, 513), False), ((600, 2), True), ((2, 1), False), ((5,), False), ((3, 2, 900), True)],
)
def test_what_can_be_put_in_order(shape: tuple[int, ...], can: bool) -> None:
    assert can_match(np.zeros(shape)) is can


@pytest.mark.parametrize("rows", [False, True])
def test_single_numbers_are_compared(rows: bool) -> None:
    found = difference(np.asarray(3.0), np.asarray(4.0), rows=rows)
    assert (found.rel_l2, found.max_abs, found.max_rel) == (0.25, 1, 0.25)


def test_a_row_of_subnormal_numbers_is_one_of_zeros() -> None:
    """Hardware that flushes them is not wrong."""
    for dtype, tiny in ((np.float32, 1e-40), (np.float64, 1e-310)):
        expected, zeros = np.full((2, 3), tiny, dtype), np.zeros((2, 3), dtype)
        expected[1] = zeros[1] = 4
        assert difference(zeros, expected, rows=True).rel_l2 <= tiny
        assert difference(zeros[:1], expected[:1]).rel_l2 <= 2 * tiny
        assert not difference(zeros, expected, rows=True).equal
        assert difference(zeros + 1, expected, rows=True).rel_l2 == 0.25
    # these are of full use in their own types
    assert difference(np.float64([1e-40]), np.float64([2e-40])).rel_l2 == 0.5
    assert difference(np.float16([3e-5]), np.float16([6e-5])).rel_l2 == pytest.approx(0.5, rel=1e-2)


def test_figures_do_not_overflow_and_do_not_vanish() -> None:
    for scale in (1e300, 1e-300, 1e305):
        found = difference(np.array([3, 5]) * scale, np.array([3, 4]) * scale)
        assert (found.rel_l2, found.max_rel) == (pytest.approx(0.2), pytest.approx(0.25))
        assert found.cosine == pytest.approx(29 / 5 / 34**0.5)
    assert difference(np.array([1e-200, 1.0]), np.array([1e-200, 0.0])).rel_l2 == pytest.approx(1e200)
    rows = difference(np.array([[1e-300], [2e300]]), np.array([[2e-300], [1e300]]), rows=True)
    assert (rows.rel_l2, rows.worst_row) == (1, 1)


def test_a_figure_is_of_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    expected = random.standard_normal((7, 5))
    found = expected + 1e-3 * random.standard_normal((7, 5))
    expected[3] = 0
    found[5, 2] = NAN
    whole = [difference(found, expected, rows=rows, typical=1e-3) for rows in (True, False)]
    monkeypatch.setattr("trt_workbench.core.compare._BLOCK", 11)
    assert [difference(found, expected, rows=rows, typical=1e-3) for rows in (True, False)] == whole


def test_parts_are_summed() -> None:
    expected = [np.array([3.0, NAN]), np.array([[4.0], [-INF]])]
    found = [np.array([3.0, NAN]), np.array([[4.5], [-INF]])]
    sums = Sums()
    for pair in zip(found, expected, strict=True):
        sums.add(*pair)
    assert sums.rel_l2 == pytest.approx(0.1)
    sums.add(np.array([INF]), np.array([1.0]))
    assert sums.rel_l2 == INF
    integers = Sums()
    integers.add(np.array([1, 2]), np.array([1, 2]))
    assert integers.rel_l2 == 0
    integers.add(np.array([1, 2]), np.array([1, 3]))
    assert integers.rel_l2 == INF


@pytest.mark.parametrize(
    ("found", "expected", "figures"),
    [
        # equal, distance, likeness
        ([1.0, 2.0], [1.0, 2.0], (True, 0, 1)),
        ([2.0, 4.0], [1.0, 2.0], (False, 1, 1)),
        ([0.0], [0.0], (True, 0, 1)),
        ([0.5], [0.0], (False, 0.5, 0)),
        ([1, 2], [1, 2], (True, 0, 1)),
        ([1, 2], [1, 3], (False, INF, 0)),
        (["a"], ["b"], (False, INF, 0)),
        ([NAN, 1.0], [1.0, 1.0], (False, INF, 0)),
        ([NAN, 1.0], [NAN, 1.0], (True, 0, 1)),
        ([[1.0]], [1.0], (False, INF, 0)),
        ([1j], [0j + 1], (False, 2**0.5, 0)),
    ],
)
def test_what_callers_ask_of_a_difference(found: Any, expected: Any, figures: tuple[float, ...]) -> None:
    one = difference(np.array(found), np.array(expected))
    assert (one.equal, one.distance, one.likeness) == pytest.approx(figures)
    if not one.shape_differs:
        assert compare_rows(np.array(found), np.array(expected), rows=False).likeness == pytest.approx(one.likeness)
