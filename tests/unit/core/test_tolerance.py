"""Tolerances that a user gave: the same rules for special values as everywhere."""

import warnings
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trt_workbench.core.tolerance import deviation

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("tolerance", "passed"), [((0.01, 0), True), ((0.0098, 0), False), ((0, 1), True), ((0, 0.99), False)]
)
def test_the_tolerance_is_relative_to_the_reference(tolerance: tuple[float, float], passed: bool) -> None:
    result = deviation(np.array([1.0, 100, NAN]), np.array([1.0, 101, NAN]), *tolerance)
    assert (result.passed, result.mismatches) == (passed, not passed)


def test_nan_and_infinity_are_within_no_tolerance_of_anything_else() -> None:
    result = deviation(np.array([NAN, 1, INF, INF, INF, 2]), np.array([1, NAN, 1, -INF, INF, 3]), rtol=1, atol=1e9)
    assert (result.passed, result.mismatches, result.note) == (False, 4, "5 pairs with NaN or infinity")


@pytest.mark.parametrize(
    ("found", "expected", "figures"),
    [
        # elements, mismatches, largest absolute and relative error, mean error, cosine, note
        ([4, 3, 2], [3, 4, 0], (3, 3, 2, 1 / 3, 4 / 3, 24 / 29**0.5 / 5, "")),
        ([-5, -1], [-4, -1.5], (2, 2, 1, 1 / 3, 0.75, 21.5 / 26**0.5 / 18.25**0.5, "")),
        ([0, 1], [0, 0], (2, 1, 1, 0, 0.5, None, "")),
        ([], [], (0, 0, 0, 0, 0, None, "")),
        ([2**53 + 1, 1], [2**53, 1], (2, 1, 1, 2**-53, 0.5, 1, "")),  # float64 does not tell them apart
        ([2**53, NAN, INF, 1], [2**53, NAN, INF, 1], (4, 0, 0, 0, 0, 1, "2 pairs with NaN or infinity")),
        ([NAN, INF, INF, 2], [1, 1, -INF, 2], (4, 3, None, None, None, None, "3 pairs with NaN or infinity")),
        ([1, NAN], [1, 2], (2, 1, None, None, None, None, "1 pair with NaN or infinity")),
        ([1e308, 3], [-1e308, 3], (2, 1, None, None, None, -1, "")),  # beyond float64
        ([[1, 2]], [1, 2], (0, 0, None, None, None, None, "shape [1, 2] instead of [2]")),
        ([2, 1], [[1, 2]], (0, 0, None, None, None, None, "shape [2] instead of [1, 2]")),
    ],
)
def test_figures(found: list[float], expected: list[float], figures: tuple[float | str | None, ...]) -> None:
    with warnings.catch_warnings(action="error"):
        result = deviation(np.array(found), np.array(expected), rtol=0, atol=0)
    names = ("elements", "mismatches", "max_abs_error", "max_rel_error", "mean_abs_error", "cosine", "note")
    values = [pytest.approx(value) if isinstance(value, float | int) else value for value in figures]
    assert asdict(result) | {"passed": result.passed} == {
        "passed": result.passed,
        **dict(zip(names, values, strict=True)),
    }
    assert result.passed is (not result.mismatches and not result.note.startswith("shape"))


@pytest.mark.parametrize(
    ("found", "expected", "mismatches"),
    [
        (np.array([50_001]), np.array([50_000]), 1),  # a token: no share of its number is nothing
        (np.array([2**53 + 1]), np.array([2**53]), 1),
        (np.array([2**64 - 1], np.uint64), np.array([-1]), 1),
        (np.array([True, False]), np.array([True, True]), 1),
        (np.array(["a", "b"]), np.array(["a", "c"], object), 1),
        (np.array(["1"]), np.array([1]), 1),
        (np.array([1 + 1j]), np.array([1 + 0j]), 1),
        (np.array([1.0], np.float32), np.array([1 + 1j]), 1),
    ],
)
def test_integers_texts_and_imaginary_parts_have_to_be_right(
    found: NDArray[Any], expected: NDArray[Any], mismatches: int
) -> None:
    result = deviation(found, expected, rtol=1e-3, atol=1e-4)
    assert (result.passed, result.mismatches, result.elements) == (False, mismatches, found.size)
    assert deviation(expected, expected, rtol=0, atol=0).passed


def test_an_absolute_tolerance_of_whole_numbers_is_one_of_integers_but_not_of_booleans() -> None:
    assert deviation(np.array([7, 255], np.uint8), np.array([8, 254], np.uint8), rtol=0, atol=1).passed
    assert not deviation(np.array([7], np.uint8), np.array([9], np.uint8), rtol=1, atol=1).passed
    assert not deviation(np.array([True]), np.array([False]), rtol=0, atol=1).passed


def test_what_overflows_in_the_tolerance_lets_no_infinity_pass() -> None:
    for value in (INF, NAN):
        assert not deviation(np.array([value]), np.array([1.0]), rtol=INF, atol=INF).passed
    assert deviation(np.array([0.0]), np.array([0.0]), rtol=INF, atol=0).passed
