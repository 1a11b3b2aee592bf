"""How far an array is from its reference: all comparisons are here. docs/reference/comparing.md has the rules.

Limits are parameters, set by the caller. How differences are measured, and what cannot be compared, is defined
here and in `elements`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.elements import Array, Kind, errors, is_finite, kind, largest, largest_agrees, pair, tiny

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


def identical(found: Array, expected: Array) -> bool:
    """Whether two arrays have the same shape and equal elements."""
    return bool(np.array_equal(found, expected))


def log_softmax(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the logarithms of the probabilities along the last axis."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def divergence(found: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Kullback-Leibler divergence of every row from the expected one, in nats.

    Args:
        found: logarithms of probabilities [N,V].
        expected: those of the reference; what it excludes (-inf) adds nothing.
    """
    with np.errstate(invalid="ignore"):  # -inf less -inf
        gain = np.where(np.isneginf(expected), 0.0, expected - found)
    # rounding can make a divergence of zero slightly negative
    found_divergence: NDArray[np.float64] = np.maximum(np.einsum("nv,nv->n", np.exp(expected), gain), 0.0)
    return found_divergence


Floats = NDArray[np.floating[Any]]

# Elements that are converted at once: logits of many tokens fill the memory as they are.
_BLOCK = 1 << 22
# Beyond these, squares of float64 overflow or vanish.
_LARGE, _SMALL = 1e150, 1e-150


@dataclass(frozen=True)
class Difference:
    """An array compared with its reference.

    Attributes:
        rel_l2: Euclidean length of the difference over that of the reference, of the worst row.
        max_abs: largest absolute difference.
        max_rel: the same over the largest absolute value of the reference in its row.
        cosine: of the whole arrays; None where one is all zeros, and of what is not floats.
        argmax_agreement: share of vectors along the last axis whose largest element is the same; None for integers and
            for single elements.
        near_ties: of the vectors that do not agree, those whose two candidates are no further apart in the reference
            than twice what nine in ten elements differ by.
        changed: share of elements that differ, of integers, booleans and texts, in the worst row; 0 for floats.
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

    @property
    def equal(self) -> bool:
        """Whether no element differs; 0 equals -0, and NaN equals NaN."""
        return not (self.shape_differs or self.nonfinite or self.changed or self.max_abs)

    @property
    def distance(self) -> float:
        """Return the relative L2 for callers that allow no integer or text to differ: infinite where one does."""
        return np.inf if self.changed else self.rel_l2

    @property
    def likeness(self) -> float:
        """Return the cosine, and where there is none 1 without an error and 0 with one."""
        return float(not self.size) if self.cosine is None or np.isinf(self.size) else self.cosine


@dataclass(frozen=True)
class RowDifferences:
    """What is known of every row [N] of an array and its reference.

    Attributes:
        rel_l2: as of `Difference`, of each row; so are the next five.
        max_abs: see there.
        max_rel: see there.
        changed: see there.
        beyond: see there.
        nonfinite: see there.
        product: inner product of both, where they are finite; 0 of what is not floats, as the squared lengths are.
        found_square: squared length of what was computed.
        expected_square: squared length of the reference.
        error_square: squared length of the difference; infinite where only one is not finite.
    """

    rel_l2: Floats
    max_abs: Floats
    max_rel: Floats
    changed: Floats
    beyond: Floats
    nonfinite: Floats
    product: Floats
    found_square: Floats
    expected_square: Floats
    error_square: Floats

    @property
    def size(self) -> Floats:
        """As of `Difference`."""
        return np.maximum(self.rel_l2, self.changed)

    @property
    def likeness(self) -> Floats:
        """As of `Difference`."""
        lengths = np.sqrt(self.found_square) * np.sqrt(self.expected_square)
        cosine = np.clip(self.product / np.where(lengths > 0, lengths, 1), -1, 1)
        return np.where((lengths > 0) & np.isfinite(self.size), cosine, self.size == 0).astype(np.float64)

    def cosine(self, row: int | None = None) -> float | None:
        """As of `Difference`, of one row or of all of them together."""
        chosen = slice(None) if row is None else slice(row, row + 1)
        sums = (one[chosen].sum() for one in (self.product, self.found_square, self.expected_square))
        product, own, other = sums
        lengths = np.sqrt(own) * np.sqrt(other)
        return float(np.clip(product / lengths, -1, 1)) if lengths else None


def difference(
    found: Array, expected: Array, *, rows: bool = False, left_out: Collection[int] = (), typical: float = np.inf
) -> Difference:
    """Compare an array with its reference.

    Args:
        found: what was computed.
        expected: the reference.
        rows: whether the first dimension holds independent rows.
        left_out: rows that are not compared.
        typical: elements further apart than this, over the largest value of their row, are counted in `beyond`.
    """
    if found.shape != expected.shape:
        return Difference(rel_l2=np.inf, max_abs=np.inf, max_rel=np.inf, shape_differs=True)
    kept = np.arange(_count(expected, rows=rows))
    if left_out:
        kept = np.delete(kept, list(left_out))
        found, expected = found[kept], expected[kept]
    if not expected.size:
        return Difference()
    each = compare_rows(found, expected, rows=rows, typical=typical)
    one = Difference(
        rel_l2=float(each.rel_l2.max()),
        max_abs=float(each.max_abs.max()),
        max_rel=float(each.max_rel.max()),
        cosine=each.cosine(),
        changed=float(each.changed.max()),
        beyond=float(each.beyond.max()),
        nonfinite=int(each.nonfinite.sum()),
        worst_row=int(kept[each.size.argmax()]),
    )
    if kind(found, expected) is not Kind.REAL or expected.ndim <= int(rows) or expected.shape[-1] < 2:
        return one
    agreement, ties = _agreement(found, expected)
    return replace(one, argmax_agreement=agreement, near_ties=ties)


def compare_rows(found: Array, expected: Array, *, rows: bool = True, typical: float = np.inf) -> RowDifferences:
    """Compare every row of an array with its reference, like `difference`, which returns the worst row."""
    count = _count(expected, rows=rows)
    none, far = np.zeros(count), np.full(count, np.inf)
    if found.shape != expected.shape:
        return RowDifferences(far, far, far, none, none, none, none, none, none, far)
    if not expected.size:
        return RowDifferences(*(none,) * 10)
    a, b = found.reshape(count, -1), expected.reshape(count, -1)
    step = max(1, _BLOCK // a.shape[1])
    parts = [_figures(a[at : at + step], b[at : at + step], typical) for at in range(0, count, step)]
    max_abs, tops, beyond, nonfinite, *sums = (
        parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    )
    if kind(found, expected).counted:
        return RowDifferences(none, max_abs, none, nonfinite / a.shape[1], none, none, none, none, none, none)
    lengths = np.sqrt(sums[2])
    # a row of zeros is measured by the others, and where all are zeros absolutely
    empty = tops < tiny(found, expected)
    if empty.any():
        lengths, tops = (np.where(empty, one[~empty].max(initial=0) or 1.0, one) for one in (lengths, tops))
        for row in np.flatnonzero(empty & (typical < np.inf)):
            beyond[row] = (errors(a[row], b[row]) / tops[row] > typical).mean()
    with np.errstate(over="ignore"):
        figures = np.sqrt(sums[3]) / lengths, max_abs, max_abs / tops, none, beyond, nonfinite
        return RowDifferences(*(one.astype(np.float64) for one in figures), *sums)


class Sums:
    """The difference of arrays that come in parts, such as batches, none of which is kept."""

    def __init__(self) -> None:
        """Start without parts."""
        self._noise: Any = 0.0
        self._signal: Any = 0.0

    def add(self, found: Array, expected: Array) -> None:
        """Add a part and its reference."""
        each = compare_rows(found, expected, rows=False)
        self._noise += np.inf if each.changed.any() else each.error_square.sum()
        self._signal += each.expected_square.sum()

    @property
    def rel_l2(self) -> float:
        """Return `Difference.distance` of all parts concatenated."""
        return float(np.sqrt(self._noise / (self._signal or 1.0)))


def typical_error(found: Array, expected: Array) -> float:
    """Return what nine in ten elements are apart at most, over the largest value; 0 where that is not known."""
    if found.shape != expected.shape or kind(found, expected).counted:
        return 0.0
    known = is_finite(found) & is_finite(expected)
    if not known.any():
        return 0.0
    top = float(np.abs(pair(found, expected)[1]).max())
    return float(np.quantile(errors(found, expected)[known], 0.9)) / (top if top >= tiny(found, expected) else 1.0)


def _count(array: Array, *, rows: bool) -> int:
    return array.shape[0] if rows and array.ndim else 1


def _figures(
    found: Array, expected: Array, typical: float, wide: type[np.floating[Any]] = np.float64
) -> tuple[Floats, ...]:
    """Return of rows [N,K] the largest difference, the largest reference value, and the rest of `RowDifferences`.

    Of what is counted, the elements that differ take the place of those that are not finite.
    """
    a, b, odd = pair(found, expected, wide)
    counted = kind(found, expected).counted
    with np.errstate(over="ignore"):
        error = np.abs(a - b)
        tops, reach = np.abs(b).max(axis=1), np.maximum(np.abs(a), np.abs(b)).max(axis=1)
        small = [((one > 0) & (one < _SMALL)).any() for one in (tops, reach)]
        if not counted and wide is np.float64 and (any(small) or (reach > _LARGE).any()):
            return _figures(found, expected, typical, np.longdouble)
        beyond = (
            (error / np.where(tops > 0, tops, 1)[:, None] > typical).mean(axis=1)
            if typical < np.inf
            else np.zeros(len(a))
        )
        sums = [_product(a, b), _product(a, a), _product(b, b), _product(error, error)]
    broken, bad = (odd.any(axis=1), odd) if not counted else (np.zeros(len(a), bool), odd | (error > 0))
    largest_error, sums[3] = np.where(broken, np.inf, error.max(axis=1)), np.where(broken, np.inf, sums[3])
    return largest_error, tops, beyond, bad.sum(axis=1).astype(np.float64), *sums


def _product(one: Array, other: Array) -> Floats:
    """Return the inner products of rows; not by BLAS, whose threads would take the processors from the model."""
    return np.asarray(np.einsum("ij,ij->i", one, other.conj()).real)


def _agreement(found: Array, expected: Array) -> tuple[float, int]:
    """Return the share of vectors whose largest element is the same, and the near ties among the others."""
    differs = ~largest_agrees(found, expected).reshape(-1)
    if not differs.any():
        return 1.0, 0
    a, b, _ = pair(found, expected)
    # the largest error will not do: elements that change places are never further apart than twice that
    with np.errstate(over="ignore", invalid="ignore"):
        typical = np.quantile(np.abs(a - b), 0.9)
    chosen, b = largest(found).reshape(-1)[differs], b.reshape(-1, b.shape[-1])[differs]
    gaps = b.max(axis=1) - np.take_along_axis(b, chosen[:, None], axis=1)[:, 0]
    return float(1.0 - differs.mean()), int((gaps <= 2 * typical).sum())
