"""How far one output is from another, row by row: a fault in one row of a batch must not drown in the others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_MATCHED = 512


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
        near_ties: of the vectors that do not agree, those whose two largest references lie within max_abs of one
            another twice.
        changed: share of elements that differ, of integers and booleans; 0 for floats.
        nonfinite: elements where one is NaN or infinite and the other is not the same.
        worst_row: index of the worst row; 0 where there are no rows.
        shape_differs: whether the shapes differ; nothing else is told then.
    """

    rel_l2: float = 0.0
    max_abs: float = 0.0
    max_rel: float = 0.0
    cosine: float | None = None
    argmax_agreement: float | None = None
    near_ties: int = 0
    changed: float = 0.0
    nonfinite: int = 0
    worst_row: int = 0
    shape_differs: bool = False

    def document(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)

    @property
    def size(self) -> float:
        """Return the one figure by which differences are ordered: relative L2 of floats, share changed of others."""
        return max(self.rel_l2, self.changed)


def difference(found: NDArray[Any], expected: NDArray[Any], *, rows: bool) -> Difference:
    """Compare an output with its reference.

    Args:
        found: what was computed.
        expected: the reference.
        rows: whether the first dimension holds independent rows.
    """
    if found.shape != expected.shape:
        return Difference(rel_l2=np.inf, max_abs=np.inf, max_rel=np.inf, shape_differs=True)
    if not expected.size:
        return Difference()
    count = expected.shape[0] if rows and expected.ndim else 1
    if expected.dtype.kind in "biu" and found.dtype.kind in "biu":
        return _of_integers(found.reshape(count, -1), expected.reshape(count, -1))
    a, b = found.astype(np.float64).reshape(count, -1), expected.astype(np.float64).reshape(count, -1)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    odd = ~(np.isfinite(a) & np.isfinite(b)) & ~same
    known = np.isfinite(a) & np.isfinite(b)
    error = np.where(known, a - np.where(known, b, 0.0), 0.0)
    size = np.where(known, b, 0.0)
    lengths = np.linalg.norm(size, axis=1)
    whole = np.linalg.norm(lengths) / np.sqrt(count)
    # a row of zeros is measured by the others
    rel = (
        np.linalg.norm(error, axis=1) / np.maximum(lengths, whole or 1.0)
        if not lengths.all()
        else (np.linalg.norm(error, axis=1) / lengths)
    )
    tops = np.abs(size).max(axis=1)
    max_rel = np.abs(error).max(axis=1) / np.where(tops > 0, tops, tops.max() or 1.0)
    rel = np.where(odd.any(axis=1), np.inf, rel)
    agreement, ties = _argmax(np.where(known, a, 0.0), size, expected.shape, float(np.abs(error).max()))
    product = np.linalg.norm(np.where(known, a, 0.0)) * np.linalg.norm(size)
    return Difference(
        rel_l2=float(rel.max()),
        max_abs=float(np.abs(error).max()) if not odd.any() else np.inf,
        max_rel=float(max_rel.max()) if not odd.any() else np.inf,
        cosine=float(np.sum(np.where(known, a, 0.0) * size) / product) if product else None,
        argmax_agreement=agreement,
        near_ties=ties,
        nonfinite=int(odd.sum()),
        worst_row=int(rel.argmax()),
    )


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
        _, order = linear_sum_assignment(cdist(b / scale, a / scale, "cityblock"))
        ordered[row] = found[row][order]
    return ordered


def can_match(array: NDArray[Any]) -> bool:
    """Whether `matched` takes an array: it has a second dimension, not too long for an assignment."""
    return array.ndim > 1 and 1 < array.shape[1] <= _MOST_MATCHED


def _of_integers(found: NDArray[Any], expected: NDArray[Any]) -> Difference:
    changed = found != expected
    by_row = changed.mean(axis=1)
    apart = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max()
    return Difference(changed=float(by_row.max()), max_abs=float(apart), worst_row=int(by_row.argmax()))


def _argmax(
    found: NDArray[np.float64], expected: NDArray[np.float64], shape: tuple[int, ...], error: float
) -> tuple[float | None, int]:
    last = shape[-1] if shape else 1
    if last < 2:
        return None, 0
    a, b = found.reshape(-1, last), expected.reshape(-1, last)
    differ = a.argmax(axis=1) != b.argmax(axis=1)
    if not differ.any():
        return 1.0, 0
    chosen = np.take_along_axis(b[differ], a[differ].argmax(axis=1)[:, None], axis=1)[:, 0]
    ties = int((b[differ].max(axis=1) - chosen <= 2 * error).sum())
    return float(1.0 - differ.mean()), ties
