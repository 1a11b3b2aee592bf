"""How far one output is from another, row by row: a fault in one row of a batch must not drown in the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_MATCHED = 512
_FARTHEST = 1e100  # stands for an infinite distance, with which no assignment can be made


@dataclass(frozen=True)
class Difference:
    """One output beside its reference.

    Attributes:
        rel_l2: Euclidean length of the difference over that of the reference, of the worst row.
        max_abs: largest absolute difference.
        max_rel: the same over the largest absolute value of the reference in its row.
        cosine: of the whole outputs; None where one is all zeros.
        argmax_agreement: share of vectors along the last axis whose largest element is the same; None for integers and
            for single elements.
        near_ties: of the vectors that do not agree, those whose two candidates are no further apart in the reference
            than twice what nine in ten elements differ by.
        changed: share of elements that differ, of integers and booleans; 0 for floats.
        beyond: share of the elements of a row that are further apart than was asked, of floats.
        nonfinite: elements where one is NaN or infinite and the other is not the same.
        worst_row: index of the worst row; 0 where there are no rows.
        shape_differs: whether the shapes differ; nothing else is known then.
    """

    rel_l2: float = 0.0
    max_abs: float = 0.0
    max_rel: float = 0.0
    cosine: float | None = None
    argmax_agreement: float | None = None
    near_ties: int = 0
    changed: float = 0.0
    beyond: float = 0.0
    nonfinite: int = 0
    worst_row: int = 0
    shape_differs: bool = False

    @property
    def size(self) -> float:
        """Return the one figure by which differences are ordered: relative L2 of floats, share changed of others."""
        return max(self.rel_l2, self.changed)


def difference(
    found: NDArray[Any],
    expected: NDArray[Any],
    *,
    rows: bool,
    left_out: Collection[int] = (),
    typical: float = np.inf,
) -> Difference:
    """Compare an output with its reference.

    Args:
        found: what was computed.
        expected: the reference.
        rows: whether the first dimension holds independent rows.
        left_out: rows that are not compared.
        typical: elements further apart than this, over the largest value of their row, are counted in `beyond`.
    """
    if found.shape != expected.shape:
        return Difference(rel_l2=np.inf, max_abs=np.inf, max_rel=np.inf, shape_differs=True)
    count = expected.shape[0] if rows and expected.ndim else 1
    kept = np.delete(np.arange(count), list(left_out))
    if not expected.size or not kept.size:
        return Difference()
    if expected.dtype.kind in "biuOUS":
        one = _of_values(found.reshape(count, -1)[kept], expected.reshape(count, -1)[kept])
    else:
        a, b = (array.astype(np.float64).reshape(count, -1)[kept] for array in (found, expected))
        one = _of_floats(a, b, expected.shape[-1] if expected.ndim > int(rows) else 1, typical)
    return replace(one, worst_row=int(kept[one.worst_row]))


def row_sizes(found: NDArray[Any], expected: NDArray[Any], *, rows: bool) -> NDArray[np.float64]:
    """Return `Difference.size` of every row, each measured by itself."""
    count = expected.shape[0] if rows and expected.ndim else 1
    if found.shape != expected.shape:
        return np.full(count, np.inf)
    if not expected.size:
        return np.zeros(count)
    if expected.dtype.kind in "biuOUS":
        changed: NDArray[np.float64] = (found != expected).reshape(count, -1).mean(axis=1)
        return changed
    a, b = (array.astype(np.float64).reshape(count, -1) for array in (found, expected))
    a, b, odd = _finite(a, b)
    lengths = np.linalg.norm(b, axis=1)
    return np.where(odd.any(axis=1), np.inf, np.linalg.norm(a - b, axis=1) / np.where(lengths > 0, lengths, 1.0))


def typical_error(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return what nine in ten elements are apart at most, over the largest value; 0 where that is not known."""
    if found.shape != expected.shape or not expected.size or expected.dtype.kind in "biuOUS":
        return 0.0
    a, b = found.astype(np.float64), expected.astype(np.float64)
    known = np.isfinite(a) & np.isfinite(b)
    top = float(np.abs(b[known]).max(initial=0.0)) or 1.0
    return float(np.quantile(np.abs(a[known] - b[known]), 0.9)) / top if known.any() else 0.0


def matched(found: NDArray[Any], expected: NDArray[Any]) -> NDArray[Any]:
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


def can_match(array: NDArray[Any]) -> bool:
    """Whether `matched` takes an array: it has a second dimension, not too long for an assignment."""
    return array.ndim > 1 and 1 < array.shape[1] <= _MOST_MATCHED


def _of_floats(a: NDArray[np.float64], b: NDArray[np.float64], last: int, typical: float) -> Difference:
    """Compare rows [N,K], whose elements are vectors of `last` elements one after the other."""
    a, b, odd = _finite(a, b)
    error = np.abs(a - b)
    lengths, tops = np.linalg.norm(b, axis=1), np.abs(b).max(axis=1)
    # a row of zeros is measured by the others, and where all are zeros absolutely
    lengths = np.where(lengths > 0, lengths, lengths.max() or 1.0)
    tops = np.where(tops > 0, tops, tops.max() or 1.0)
    rel = np.where(odd.any(axis=1), np.inf, np.linalg.norm(error, axis=1) / lengths)
    agreement, ties = _argmax(a, b, last)
    product = np.linalg.norm(a) * np.linalg.norm(b)
    return Difference(
        rel_l2=float(rel.max()),
        max_abs=np.inf if odd.any() else float(error.max()),
        max_rel=np.inf if odd.any() else float((error.max(axis=1) / tops).max()),
        cosine=float(np.sum(a * b) / product) if product else None,
        argmax_agreement=agreement,
        near_ties=ties,
        beyond=float((error / tops[:, None] > typical).mean(axis=1).max()),
        nonfinite=int(odd.sum()),
        worst_row=int(rel.argmax()),
    )


def _finite(
    a: NDArray[np.float64], b: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return both with zeros where one is not finite, and where they are not the same there."""
    known = np.isfinite(a) & np.isfinite(b)
    odd = ~known & (a != b) & ~(np.isnan(a) & np.isnan(b))
    return np.where(known, a, 0.0), np.where(known, b, 0.0), odd


def _of_values(found: NDArray[Any], expected: NDArray[Any]) -> Difference:
    """Compare rows of integers, booleans or strings."""
    changed = found != expected
    by_row = changed.mean(axis=1)
    numbers = expected.dtype.kind in "biu"
    apart = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max() if numbers else 0.0
    return Difference(changed=float(by_row.max()), max_abs=float(apart), worst_row=int(by_row.argmax()))


def _argmax(found: NDArray[np.float64], expected: NDArray[np.float64], last: int) -> tuple[float | None, int]:
    if last < 2:
        return None, 0
    a, b = found.reshape(-1, last), expected.reshape(-1, last)
    differ = a.argmax(axis=1) != b.argmax(axis=1)
    if not differ.any():
        return 1.0, 0
    # the largest error will not do: elements that change places are never further apart than twice that
    error = np.quantile(np.abs(a - b), 0.9)
    chosen = np.take_along_axis(b[differ], a[differ].argmax(axis=1)[:, None], axis=1)[:, 0]
    ties = int((b[differ].max(axis=1) - chosen <= 2 * error).sum())
    return float(1.0 - differ.mean()), ties
