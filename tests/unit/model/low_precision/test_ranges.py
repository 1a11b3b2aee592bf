"""Histograms of activations, and the thresholds that the methods take from them."""

import math
from typing import get_args

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trt_workbench.model.low_precision.kinds import Method
from trt_workbench.model.low_precision.ranges import BINS, Histogram, quantiser, scale_of

METHODS = get_args(Method)
FLOATS = hnp.arrays(np.float32, st.integers(1, 60), elements=st.floats(-(2.0**127), 2.0**127, width=32))


def filled(*arrays: np.ndarray) -> Histogram:
    histogram = Histogram()
    for array in arrays:
        histogram.add(array)
    return histogram


@given(st.lists(FLOATS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=60)
def test_the_range_of_max_is_the_true_maximum_and_no_other_exceeds_it(arrays: list[np.ndarray]) -> None:
    histogram = filled(*arrays)
    largest = max(float(np.abs(one).max()) for one in arrays)
    assert histogram.threshold("max", "int8") == largest == histogram.largest
    assert histogram.values == sum(one.size for one in arrays)
    for method in METHODS:
        found = histogram.range(method, "int8")
        assert 0 <= found.threshold <= largest
        assert 0 <= found.clipped < 1 or found.threshold == 0


@given(st.lists(FLOATS, min_size=2, max_size=4), st.randoms())
@settings(deadline=None, max_examples=60)
def test_the_order_of_the_data_does_not_matter(arrays: list[np.ndarray], random: object) -> None:
    shuffled = list(arrays)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = filled(*arrays), filled(*shuffled)
    assert one.width == other.width
    np.testing.assert_array_equal(one.counts, other.counts)


def test_bins_hold_what_numpy_counts() -> None:
    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    histogram = filled(*np.split(values, 10))
    expected, _ = np.histogram(np.abs(values), BINS, (0, BINS * histogram.width))
    np.testing.assert_array_equal(histogram.counts, expected)
    assert BINS / 2 < np.abs(values).max() / histogram.width <= BINS


@pytest.mark.parametrize("percentile", [50, 90, 99, 99.9])
def test_a_percentile_is_numpys_to_a_bin(percentile: float) -> None:
    values = np.random.default_rng(1).exponential(size=20_000).astype(np.float32)
    histogram = filled(values)
    found = histogram.threshold("percentile", "int8", percentile)
    assert found == pytest.approx(np.percentile(values, percentile), abs=2 * histogram.width)
    assert histogram.range("percentile", "int8", percentile).clipped == pytest.approx(1 - percentile / 100, abs=2e-3)


@pytest.mark.parametrize("method", ["entropy", "mse", "percentile"])
def test_an_outlier_is_clipped_and_a_uniform_range_is_not(method: Method) -> None:
    generator = np.random.default_rng(2)
    outlier = np.append(generator.standard_normal(100_000), 60.0).astype(np.float32)
    assert 2 < filled(outlier).threshold(method, "int8") < 20
    uniform = generator.uniform(-1, 1, 100_000).astype(np.float32)
    assert filled(uniform).threshold(method, "int8") > 0.95


def test_mse_is_the_threshold_of_least_error() -> None:
    values = np.random.default_rng(3).laplace(size=50_000).astype(np.float32)
    histogram = filled(values)

    def error(threshold: float) -> float:
        scale = threshold / 127
        return float(np.mean((values - np.clip(np.rint(values / scale), -127, 127) * scale) ** 2))

    best = min(np.linspace(0.05, 1, 200) * histogram.largest, key=error)
    assert error(histogram.threshold("mse", "int8")) == pytest.approx(error(best), rel=0.02)


@pytest.mark.parametrize(("bad", "words"), [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "infinite")])
def test_what_is_not_finite_is_refused(bad: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        filled(np.array([1.0, bad], np.float32))


@pytest.mark.parametrize("method", METHODS)
def test_zeros_alone_have_a_range_of_nothing(method: Method) -> None:
    histogram = filled(np.zeros(8, np.float32))
    assert histogram.threshold(method, "int8") == 0
    assert scale_of(0.0, "int8") == 1
    histogram.add(np.array([2.0], np.float32))
    assert histogram.threshold("max", "int8") == 2
    assert histogram.values == 9


@given(hnp.arrays(np.float64, 50, elements=st.floats(-1e4, 1e4)))
@settings(deadline=None, max_examples=40)
def test_fp8_rounds_as_ml_dtypes_and_clips(values: np.ndarray) -> None:
    expected = np.clip(values, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    np.testing.assert_array_equal(quantiser("fp8")(values), expected)
    assert np.isfinite(expected).all()
