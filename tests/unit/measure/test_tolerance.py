from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from trt_workbench.errors import UsageProblem
from trt_workbench.measure.tolerance import compare, read_expected

FLOATS = hnp.arrays(
    np.float32, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats(width=32, allow_subnormal=False)
)


@given(FLOATS)
def test_an_array_agrees_with_itself_nan_and_infinity_included(array: NDArray[np.float32]) -> None:
    found = compare(array, array.copy(), rtol=0, atol=0)
    assert found.passed
    assert found.max_abs_error == 0
    assert found.mismatches == 0


@given(FLOATS.filter(lambda array: bool(np.isfinite(array).all())), st.integers(0, 63))
def test_one_element_outside_the_tolerance_is_found(array: NDArray[np.float32], place: int) -> None:
    expected = np.clip(array, -1e6, 1e6)
    found = expected.copy()
    found.flat[place % found.size] += np.float32(1 + 1e5)
    result = compare(found, expected, rtol=1e-3, atol=1)
    assert not result.passed
    assert result.mismatches == 1
    assert result.max_abs_error == pytest.approx(1e5 + 1, rel=1e-4)


def test_the_tolerance_is_relative_to_the_reference() -> None:
    found, expected = np.array([1.0, 100.0]), np.array([1.0, 101.0])
    assert compare(found, expected, rtol=0.01, atol=0).passed
    assert not compare(found, expected, rtol=0.0098, atol=0).passed
    assert compare(found, expected, rtol=0, atol=1).passed


@pytest.mark.parametrize(("bad", "good"), [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (np.inf, -np.inf)])
def test_nan_and_infinity_disagree_with_anything_else(bad: float, good: float) -> None:
    result = compare(np.array([bad, 2.0]), np.array([good, 2.0]), rtol=1, atol=1e9)
    assert not result.passed
    assert result.mismatches == 1
    assert result.note == "1 pairs with NaN or infinity"


def test_large_integers_are_compared_exactly() -> None:
    expected = np.array([2**53, 2**53], np.int64)
    result = compare(expected + np.array([0, 1]), expected, rtol=0, atol=0)
    assert compare(expected, expected, rtol=0, atol=0).passed
    assert result.elements == 2
    assert result.mismatches == 1


def test_other_shapes_fail_by_name() -> None:
    result = compare(np.zeros((2, 3)), np.zeros(6), rtol=1, atol=1)
    assert not result.passed
    assert result.note == "shape [2, 3] instead of [6]"


def test_references_are_found_in_every_form(tmp_path: Path) -> None:
    value = np.ones(2)
    (tmp_path / "s").mkdir()
    np.save(tmp_path / "s" / "a.npy", value)
    assert read_expected(tmp_path, "s", ["a"], only=False).keys() == {"a"}
    np.savez(tmp_path / "t.npz", a=value)
    assert read_expected(tmp_path, "t", ["a"], only=False).keys() == {"a"}
    assert read_expected(tmp_path, "u", ["a"], only=True).keys() == {"a"}  # the one folder
    with pytest.raises(UsageProblem, match="sample u are missing"):
        read_expected(tmp_path, "u", ["a"], only=False)
    with pytest.raises(UsageProblem, match="lacks the output b"):
        read_expected(tmp_path, "t", ["a", "b"], only=False)
