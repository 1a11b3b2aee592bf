"""Comparing two elements: the rules for special values, on which every comparison is based.

docs/reference/comparing.md describes them.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# The smallest normal numbers of fp32 and bf16, and of fp64: hardware may flush what is below to zero.
_TINY, _TINY_WIDE = 2.0**-126, 2.0**-1022


class Kind(Enum):
    """How two arrays are compared: by the difference of their numbers, or as objects that are equal or not."""

    WHOLE = "integers and booleans"
    REAL = "floats"
    COMPLEX = "complex numbers"
    OTHER = "texts and objects"

    @property
    def counted(self) -> bool:
        """Whether elements that differ are counted: these have no rounding."""
        return self in (Kind.WHOLE, Kind.OTHER)


def kind(*arrays: Array) -> Kind:
    """Return how arrays are compared: an integer and a float as floats, an integer and a text as objects."""
    return _kind(*(array.dtype for array in arrays))


def errors(found: Array, expected: Array) -> NDArray[np.float64]:
    """Return the absolute difference of every element.

    It is 0 where both are the same, NaN and infinities included; infinite where only one of them is not finite, and
    where texts differ.

    Args:
        found: what was computed.
        expected: the reference, of the same shape.
    """
    a, b, odd = pair(found, expected)
    with np.errstate(over="ignore"):
        return np.where(odd, np.inf, np.abs(a - b)).astype(np.float64)


def equal(found: Array, expected: Array) -> bool:
    """Whether two arrays have the same shape and the same values; 0 equals -0, and NaN equals NaN."""
    return found.shape == expected.shape and not errors(found, expected).any()


def widened(array: Array) -> Array:
    """Return numbers as float64, complex ones as complex128: converted to floats they would lose a part."""
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        return array.astype(np.complex128 if kind(array) is Kind.COMPLEX else np.float64)


def finite(value: Any) -> float | None:
    """Return a figure as JSON has it: None for one that is not finite."""
    return float(value) if np.isfinite(value) else None


def is_finite(array: Array) -> NDArray[np.bool_]:
    """Return which elements are neither NaN nor infinite; integers and texts never are."""
    if kind(array).counted:
        return np.ones(array.shape, np.bool_)
    return np.asarray(np.isfinite(array if array.dtype.kind in "fc" else widened(array)))


def pair(
    found: Array, expected: Array, wide: type[np.floating[Any]] = np.float64
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return two arrays whose difference is that of the elements, and where there is none.

    Elements that are the same and not finite are 0 in both; so are those without a difference: only one of them is not
    finite, or they are unlike texts. Of integers the second array is 0 and the first the difference, which is never 0
    where they are not equal.

    Args:
        found: what was computed.
        expected: the reference, of the same shape.
        wide: the least type of floats to convert to.
    """
    how = kind(found, expected)
    if how is Kind.WHOLE:
        (high, low), (other_high, other_low) = _halves(found), _halves(expected)
        apart = (high - other_high) * 2.0**32 + (low - other_low)
        return apart, np.zeros_like(apart), np.zeros(apart.shape, np.bool_)
    if how is Kind.OTHER:
        one, other = found.astype(object), expected.astype(object)
        odd = np.asarray(one != other, np.bool_) & ~np.asarray((one != one) & (other != other), np.bool_)
        return np.zeros(odd.shape), np.zeros(odd.shape), odd
    longer = [array.dtype for array in (found, expected) if array.dtype.char in "gG"]
    dtype = np.result_type(wide, *longer, *([np.complex64] if how is Kind.COMPLEX else []))
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        a, b = found.astype(dtype), expected.astype(dtype)
    known = np.isfinite(a) & np.isfinite(b)
    if known.all():
        return a, b, ~known
    parts = ((a.real, b.real), (a.imag, b.imag))
    same = [(one == other) | (np.isnan(one) & np.isnan(other)) for one, other in parts]
    return np.where(known, a, 0), np.where(known, b, 0), ~known & ~(same[0] & same[1])


def tiny(*arrays: Array) -> float:
    """Return below which largest value numbers count as zeros, in the narrower of the arrays' types."""
    floats = [array.dtype for array in arrays if not kind(array).counted]
    sizes = [dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize for dtype in floats]
    return _TINY if min(sizes, default=8) < 8 else _TINY_WIDE


def largest_agrees(found: Array, expected: Array) -> NDArray[np.bool_]:
    """Return for every vector along the last axis whether its largest element is at the same place.

    NaN is less than anything. A vector with an element that is not finite on only one side does not agree.
    """
    same = np.asarray(largest(found) == largest(expected))
    if is_finite(found).all() and is_finite(expected).all():
        return same
    return np.asarray(same & ~pair(found, expected)[2].any(-1))


def largest(array: Array) -> NDArray[np.intp]:
    """Return the place of the largest element of every vector along the last axis; NaN is less than anything."""
    values = array if array.dtype.kind in "biuf" else widened(array)
    if not is_finite(values).all():
        values = np.where(np.isnan(values), -np.inf, values)
    return np.asarray(values.argmax(axis=-1))


@lru_cache
def _kind(*dtypes: np.dtype[Any]) -> Kind:
    kinds = {_kind_of(dtype) for dtype in dtypes}
    return next((one for one in (Kind.OTHER, Kind.COMPLEX, Kind.REAL) if one in kinds), Kind.WHOLE)


def _kind_of(dtype: np.dtype[Any]) -> Kind:
    if dtype.kind == "V" and dtype.fields is None and not dtype.name.startswith("void"):  # bfloat16 and its like
        return Kind.WHOLE if dtype.name.lstrip("u").startswith("int") else Kind.REAL
    return {**dict.fromkeys("biu", Kind.WHOLE), "f": Kind.REAL, "c": Kind.COMPLEX}.get(dtype.kind, Kind.OTHER)


def _halves(array: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return integers in two halves: float64 cannot represent all 64 bits, and no integer holds all differences."""
    wide = array.astype(np.uint64 if array.dtype.kind == "u" else np.int64)
    return (wide >> 32).astype(np.float64), (wide & 0xFFFFFFFF).astype(np.float64)
