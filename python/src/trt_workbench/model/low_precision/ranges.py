"""Ranges of activations: one histogram of absolute values a tensor, from which every method chooses its threshold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.precision import Format, get
from trt_workbench.model.low_precision.evidence import TensorRange
from trt_workbench.model.low_precision.kinds import Method

# Between half of them and all are in use, as a bin's width is a power of two.
BINS = 4096
PERCENTILE = 99.99
"""Percentage of values that the method of that name keeps."""
_POSITIVE_CODES = 128
# Thresholds tried by entropy lie so many bins apart, by mse so many in all.
_STRIDE, _TRIED = 16, 128

Array = NDArray[np.float64]


class Histogram:
    """Absolute values of one tensor, counted in `BINS` bins whose width doubles when a larger value comes.

    Two neighbouring bins become one, so that the result does not depend on the order of the data.

    Attributes:
        counts: int64 [BINS]; bin i holds values from i to i + 1 widths.
        width: of a bin, a power of two; 0 while all values are 0.
        largest: largest value, exact.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.width = 0.0
        self.largest = 0.0

    @property
    def values(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())

    def add(self, values: NDArray[Any]) -> None:
        """Count the values of an array of floats.

        Raises:
            ValueError: one of them is NaN or infinite.
        """
        if not values.size:
            return
        sizes = np.abs(values, dtype=np.float32).reshape(-1)
        top = float(sizes.max())
        if not math.isfinite(top):
            raise ValueError("NaN" if math.isnan(top) else "infinite values")
        self._widen(top)
        if self.width == 0.0:
            self.counts[0] += sizes.size
            return
        # exact: the width is a power of two
        bins = np.minimum((sizes * np.float32(1.0 / self.width)).astype(np.int32), BINS - 1)
        self.counts += np.bincount(bins, minlength=BINS)

    def _widen(self, top: float) -> None:
        self.largest = max(self.largest, top)
        if top == 0.0 or top <= self.width * BINS:
            return
        width = max(2.0 ** math.ceil(math.log2(top / BINS)), 2.0**-126)
        merged = int(min(width / self.width, BINS)) if self.width else 1
        if merged > 1:
            self.counts = np.pad(self.counts.reshape(-1, merged).sum(axis=1), (0, BINS - BINS // merged))
        self.width = width

    def threshold(self, method: Method, precision: str, percentile: float = PERCENTILE) -> float:
        """Return the absolute value that the format's largest code is to stand for; never above the largest value.

        Args:
            method: "max" takes the largest value, "percentile" the value that so many percent do not exceed, "entropy"
                the threshold whose 128 levels lose least information (Kullback-Leibler divergence, S. Migacz, 8-bit
                inference with TensorRT, GTC 2017), "mse" the one of least squared error in the format.
            precision: one with scales, such as "int8".
            percentile: in percent.
        """
        if method == "max" or self.width == 0.0:
            return self.largest
        used = self.counts[: max(1, math.ceil(self.largest / self.width))].astype(np.float64)
        if method == "percentile":
            # the place, in bins, up to which so many percent of the values lie
            reached = np.cumsum(used)
            wanted = reached[-1] * percentile / 100.0
            place = int(np.searchsorted(reached, wanted))
            before = reached[place - 1] if place else 0.0
            bins = place + float((wanted - before) / used[place]) if used[place] else float(place)
        else:
            bins = _entropy(used) if method == "entropy" else _mse(used, self.width, precision)
        return min(bins * self.width, self.largest)

    def range(self, method: Method, precision: str, percentile: float = PERCENTILE) -> TensorRange:
        """Return the threshold with what it cuts off."""
        threshold = self.threshold(method, precision, percentile)
        above = self.counts[math.ceil(threshold / self.width) :].sum() if self.width else 0
        clipped = 0.0 if threshold >= self.largest else float(above / self.values)
        return TensorRange(largest=self.largest, threshold=threshold, clipped=clipped)


def quantiser(precision: str) -> Callable[[Array], Array]:
    """Return what rounds values, in units of the scale, to those of the format, and clips them."""
    row = get(precision)
    top = row.largest
    if not row.is_float:
        return lambda values: np.clip(np.rint(values), -top, top)
    dtype: Any = codes_of(row)
    return lambda values: np.clip(values, -top, top).astype(dtype).astype(np.float64)


def codes_of(row: Format) -> np.dtype[Any]:
    """Return the type of a format's codes in numpy or ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, row.numpy, row.numpy))


def scale_of(threshold: float, precision: str) -> np.float32:
    """Return the scale at which the format's largest code stands for `threshold`; 1 where that is close to 0."""
    scale = np.float32(threshold / get(precision).largest)
    return scale if scale >= np.finfo(np.float32).tiny else np.float32(1.0)


def _entropy(counts: Array) -> float:
    """Return the threshold, in bins, whose 128 levels lose least information."""
    counts = counts.copy()
    counts[0] = counts[1] if len(counts) > 1 else counts[0]  # zeros are exact at every threshold
    total = counts.sum()
    best, threshold = math.inf, float(len(counts))
    reached = np.cumsum(counts)
    places = [*range(_POSITIVE_CODES, len(counts), _STRIDE), len(counts)]
    for place in reversed(places):  # of equals the largest
        inside = counts[:place]
        clipped = total - reached[place - 1]
        if clipped and not inside[-1]:
            continue  # nothing there for what is clipped: its divergence is infinite
        reference = inside.copy()
        reference[-1] += clipped
        divergence = _divergence(reference, inside)
        if divergence < best:
            best, threshold = divergence, float(place)
    return threshold


def _divergence(reference: Array, inside: Array) -> float:
    """Return the Kullback-Leibler divergence from `reference` of `inside` as 128 levels represent it."""
    starts = np.linspace(0, len(inside), _POSITIVE_CODES + 1).astype(np.int64)[:-1]
    there = inside > 0
    filled = np.add.reduceat(there.astype(np.float64), starts)
    levels = np.add.reduceat(inside, starts) / np.maximum(filled, 1.0)
    rounded = np.where(there, np.repeat(levels, np.diff(np.append(starts, len(inside)))), 0.0)
    p, q = reference[there] / reference.sum(), rounded[there] / rounded.sum()
    return float(np.sum(p * np.log(p / q)))


def _mse(counts: Array, width: float, precision: str) -> float:
    """Return the threshold, in bins, at which the values lose least in the sum of squares."""
    rounded, top = quantiser(precision), get(precision).largest
    centres = (np.arange(len(counts)) + 0.5) * width
    places = np.linspace(len(counts) / _TRIED, len(counts), _TRIED)
    errors = []
    for place in places:
        scale = place * width / top
        errors.append(float(np.sum(counts * (centres - rounded(centres / scale) * scale) ** 2)))
    return float(places[len(places) - 1 - int(np.argmin(errors[::-1]))])
