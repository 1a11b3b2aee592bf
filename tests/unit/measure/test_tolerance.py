import warnings
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from trt_workbench.errors import UsageProblem
from trt_workbench.measure.arrays import file_name
from trt_workbench.measure.tolerance import compare, read_expected

NAN, INF = np.nan, np.inf
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


@pytest.mark.parametrize(
    ("tolerance", "passed"), [((0.01, 0), True), ((0.0098, 0), False), ((0, 1), True), ((0, 0.99), False)]
)
def test_the_tolerance_is_relative_to_the_reference(tolerance: tuple[float, float], passed: bool) -> None:
    result = compare(np.array([1.0, 100, NAN]), np.array([1.0, 101, NAN]), *tolerance)
    assert (result.passed, result.mismatches) == (passed, not passed)


def test_nan_and_infinity_are_within_no_tolerance_of_anything_else() -> None:
    result = compare(np.array([NAN, 1, INF, INF, INF, 2]), np.array([1, NAN, 1, -INF, INF, 3]), rtol=1, atol=1e9)
    assert (result.passed, result.mismatches, result.note) == (False, 4, "5 pairs with NaN or infinity")


@pytest.mark.parametrize(
    ("found", "expected", "figures"),
    [
        # elements, mismatches, largest absolute and relative error, mean error, cosine, note
        ([4, 3, 2], [3, 4, 0], (3, 3, 2, 1 / 3, 4 / 3, 24 / 29**0.5 / 5, "")),
        ([-5, -1], [-4, -1.5], (2, 2, 1, 1 / 3, 0.75, 21.5 / 26**0.5 / 18.25**0.5, "")),
        ([0, 1], [0, 0], (2, 1, 1, 0, 0.5, None, "")),
        ([], [], (0, 0, 0, 0, 0, None, "")),
        ([2**53 + 1, 1], [2**53, 1], (2, 1, 0, 0, 0, 1, "")),  # float64 does not tell them apart
        ([2**53, NAN, INF, 1], [2**53, NAN, INF, 1], (4, 0, 0, 0, 0, 1, "2 pairs with NaN or infinity")),
        ([NAN, INF, INF, 2], [1, 1, -INF, 2], (4, 3, 0, 0, 0, 1, "3 pairs with NaN or infinity")),
        ([1e308, 3], [-1e308, 3], (2, 1, None, None, None, None, "")),  # beyond float64
        ([[1, 2]], [1, 2], (0, 0, None, None, None, None, "shape [1, 2] instead of [2]")),
        ([2, 1], [[1, 2]], (0, 0, None, None, None, None, "shape [2] instead of [1, 2]")),
    ],
)
def test_figures(found: list[float], expected: list[float], figures: tuple[float | str | None, ...]) -> None:
    with warnings.catch_warnings(action="error"):
        result = compare(np.array(found), np.array(expected), rtol=0, atol=0)
    names = ("elements", "mismatches", "max_abs_error", "max_rel_error", "mean_abs_error", "cosine", "note")
    values = [pytest.approx(value) if isinstance(value, float | int) else value for value in figures]
    assert asdict(result) | {"passed": result.passed} == {
        "passed": result.passed,
        **dict(zip(names, values, strict=True)),
    }
    assert result.passed is (not result.mismatches and not result.note.startswith("shape"))


@pytest.mark.parametrize(
    ("places", "sample", "only", "value"),
    [
        (["s/a b", "t/a b", "a b"], "s", False, 0),
        (["s.npz", "s/a b"], "s", False, 0),
        (["a b", "t/a b"], "s", True, 0),
        (["t/a b"], "s", True, 0),
        (["t/a b"], "s", False, None),
        (["t/a b", "u/a b"], "s", True, None),
        ([], "s", True, None),
    ],
)
def test_where_references_are_looked_for(
    tmp_path: Path, places: list[str], sample: str, only: bool, value: int | None
) -> None:
    folder = tmp_path / "expected"
    for number, place in enumerate(places):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if place.endswith(".npz"):
            np.savez(path, **{"a b": np.full(2, number)})
        else:
            np.save(path.parent / f"{file_name(path.name)}.npy", np.full(2, number))
    if value is None:
        with pytest.raises(UsageProblem, match=f"sample {sample} are missing: {sample}/{file_name('a b')}.npy and"):
            read_expected(folder, sample, ["a b"], only=only)
        return
    assert read_expected(folder, sample, ["a b"], only=only)["a b"].tolist() == [value] * 2


def test_every_output_has_a_reference_of_one_place(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", a=np.ones(2), b=np.zeros(2), more=np.ones(1))
    assert read_expected(tmp_path, "t", ["b", "a"], only=False).keys() == {"a", "b"}
    with pytest.raises(UsageProblem, match=r"lacks the output c: .*t\.npz"):
        read_expected(tmp_path, "t", ["a", "d", "c"], only=False)
    (tmp_path / "s").mkdir()
    np.save(tmp_path / "s" / "a.npy", np.ones(2))
    with pytest.raises(UsageProblem, match=r"sample s are missing: s/a\.npy"):
        read_expected(tmp_path, "s", ["a", "b"], only=False)
