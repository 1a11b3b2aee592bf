"""Vectors that rounding may have put in another order, put back in order before they are compared."""

from __future__ import annotations

import numpy as np

from trt_workbench.core.elements import Array, Kind, kind

_MOST_MATCHED = 512
_FARTHEST = 1e100  # stands for an infinite distance, with which no assignment can be made


def matched(found: Array, expected: Array) -> Array:
    """Return `found` with the vectors along its second dimension in the order in which they fit `expected` best.

    For outputs that are sorted by values which rounding may swap, such as a detector's boxes by score.

    Args:
        found: [N,K,...], or [N,K] of single values.
        expected: of the same shape.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    count, length = expected.shape[:2]
    ordered = np.empty_like(found)
    for row in range(count):
        a = np.nan_to_num(found[row].astype(np.float64)).reshape(length, -1)
        b = np.nan_to_num(expected[row].astype(np.float64)).reshape(length, -1)
        scale = np.abs(b).max(axis=0)
        scale[scale == 0] = 1.0
        with np.errstate(over="ignore", invalid="ignore"):  # of infinite values
            cost = cdist(b / scale, a / scale, "cityblock")
        _, order = linear_sum_assignment(np.nan_to_num(cost, nan=_FARTHEST, posinf=_FARTHEST))
        ordered[row] = found[row][order]
    return ordered


def can_match(array: Array) -> bool:
    """Whether `matched` takes an array: real numbers with a second dimension, not too long for an assignment."""
    return kind(array) in (Kind.REAL, Kind.WHOLE) and array.ndim > 1 and 1 < array.shape[1] <= _MOST_MATCHED
