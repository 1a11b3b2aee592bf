"""How an output is wrong, in words that help to find the fault."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.compare import Difference, compare_rows, matched
from trt_workbench.core.elements import Kind, errors, kind, pair
from trt_workbench.verify.yardstick import Limit

Array = NDArray[np.generic]
_FEW, _MANY = 3, 16
_MOST_ROWS = 64
# How many times nearer an explanation must be than the reference, and rows that are named than the others: errors that
# cross a limit here and there are not the fault of one row.
_FAR = 4.0


def diagnose(
    found: Array,
    expected: Array,
    limit: Limit,
    *,
    rows: bool,
    earlier: Mapping[str, tuple[Array, Array | None]] | None = None,
) -> str:
    """Say in one clause how `found` differs, such as "rows 0 and 1 are swapped".

    Args:
        found: the wrong output.
        expected: its reference.
        limit: within which two arrays count as the same.
        rows: whether the first dimension holds independent rows.
        earlier: the same output of earlier calls with other inputs, and its reference where that is known, by what they
            were called for.
    """
    if found.shape != expected.shape:
        return f"its shape is {list(found.shape)}, not {list(expected.shape)}"
    if odd := _nonfinite(found, expected):
        return odd

    if kind(found, expected) not in (Kind.REAL, Kind.WHOLE):
        return ""

    own = limit.share(limit.apart(found, expected, rows=rows))

    def same(a: Array, b: Array) -> bool:
        """Whether two arrays are the same, and much closer than the result and the reference."""
        if a.shape != b.shape:
            return False
        apart = limit.apart(a, b, rows=rows)
        return limit.allows(apart) and limit.share(apart) * _FAR <= own

    for name, (before, wanted) in (earlier or {}).items():
        of_other = before if wanted is None else wanted
        moved = of_other.shape != expected.shape or not limit.allows(limit.apart(of_other, expected, rows=rows))
        if moved and same(found, before):
            return f"it is the result of an earlier call ({name}): stale"
    if expected.any() and not found.any():
        return "it is all zeros"
    if text := _few_elements(found, expected, limit) or _constant(found, expected):
        return text
    if rows and 1 < expected.shape[0] <= _MOST_ROWS and (text := _by_rows(found, expected, limit)):
        return text
    if kind(found, expected) is Kind.REAL:
        gain = _gain(found, expected)
        if gain and same((found.astype(np.float64) / gain).astype(found.dtype), expected):
            return f"it is scaled by {gain:.6g}"
    for first, second in itertools.combinations(range(expected.ndim), 2):
        if expected.shape[first] == expected.shape[second] > 1 and same(np.swapaxes(found, first, second), expected):
            return f"dimensions {first} and {second} are swapped"
    for axis in range(expected.ndim):
        for step in (1, -1):
            if expected.shape[axis] > 1 and same(np.roll(found, step, axis), expected):
                return f"it is shifted by one along dimension {axis}"
    return ""


def _nonfinite(found: Array, expected: Array) -> str:
    odd = pair(found, expected)[2]
    if not odd.any() or kind(found, expected) is Kind.OTHER:
        return ""
    place = [int(index[0]) for index in np.nonzero(odd)]
    value = found[tuple(place)].astype(np.complex128)
    what = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else "finite, those of the reference are not"
    return f"{int(odd.sum())} of {odd.size} elements are {what}, the first at {place}"


def _few_elements(found: Array, expected: Array, limit: Limit) -> str:
    """Say which elements are wrong, where they are few of many."""
    if limit.matched or expected.size < _MANY:
        return ""
    top = np.abs(pair(expected, expected)[0]).max()
    apart = errors(found, expected)
    beyond = apart > limit.max_rel * top
    wrong = np.argwhere(beyond)
    if not 0 < len(wrong) <= _FEW or apart[beyond].min() < _FAR * apart[~beyond].max(initial=0):
        return ""
    places = ", ".join(str(place.tolist()) for place in wrong)
    return f"{len(wrong)} of {expected.size} elements {'is' if len(wrong) == 1 else 'are'} wrong, at {places}"


def _constant(found: Array, expected: Array) -> str:
    """Say by what integers are off, where all are by the same."""
    if kind(found, expected) is not Kind.WHOLE or "b" in (found.dtype.kind, expected.dtype.kind):
        return ""
    apart = np.unique(pair(found, expected)[0])
    return f"all elements are off by {int(found.flat[0]) - int(expected.flat[0])}" if len(apart) == 1 else ""


def _by_rows(found: Array, expected: Array, limit: Limit) -> str:
    """Say which rows are wrong, where the others are right by far."""
    count = expected.shape[0]

    def by_row(values: Array) -> list[Difference]:
        each = compare_rows(values, expected, typical=limit.typical)
        figures = zip(each.rel_l2, each.max_rel, each.changed, each.beyond, strict=True)
        return [Difference(rel_l2=a, max_rel=b, changed=c, beyond=d) for a, b, c, d in figures]

    apart = by_row(found)
    kept = [row for row in range(count) if row not in limit.left_out]
    wrong = [row for row in kept if not limit.allows(apart[row])]
    if not wrong:
        return ""

    def held(i: int) -> int | None:
        """Return the other row of the reference that a row of the result is."""
        repeated = np.repeat(found[i : i + 1], count, axis=0)
        others = by_row(matched(repeated, expected) if limit.matched else repeated)
        near = limit.share(apart[i]) / _FAR
        fits = (j for j, one in enumerate(others) if limit.allows(one) and limit.share(one) <= near)
        return next((j for j in fits if j != i), None)

    source = {i: held(i) for i in wrong}
    if all(j is not None for j in source.values()):
        pairs = ", ".join(f"row {i} holds that of row {j}" for i, j in itertools.islice(source.items(), 4))
        return f"rows are mixed up: {pairs}"
    if len(wrong) == len(kept):
        return ""
    others = max(limit.share(apart[row]) for row in kept if row not in wrong)
    if min(limit.share(apart[row]) for row in wrong) < _FAR * others:
        return ""
    several = f"rows {_listed(wrong)} of {count} are" if len(wrong) > 1 else f"row {wrong[0]} of {count} is"
    return f"{several} wrong, the others right"


def _gain(found: Array, expected: Array) -> float:
    a, b, _ = pair(found, expected)
    length = float(np.vdot(b, b))
    return float(np.vdot(a, b)) / length if length else 0.0


def _listed(numbers: list[int]) -> str:
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 2 else f"{numbers[0]} and {numbers[1]}"
    return ", ".join(map(str, numbers[:8])) + (" and more" if len(numbers) > 8 else "")
