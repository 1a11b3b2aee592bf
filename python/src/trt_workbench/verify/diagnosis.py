"""What kind of wrong an output is: the words that lead to the fault."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.compare import difference
from trt_workbench.core.elements import Kind, errors, kind, pair
from trt_workbench.verify.yardstick import Limit

Array = NDArray[np.generic]
_FEW, _MANY = 3, 16
_MOST_ROWS = 64


def diagnose(
    found: Array, expected: Array, limit: Limit, *, rows: bool, earlier: Mapping[str, Array] | None = None
) -> str:
    """Say in one clause how `found` differs, such as "rows 0 and 1 are swapped".

    Args:
        found: the wrong output.
        expected: its reference.
        limit: within which two arrays count as the same.
        rows: whether the first dimension holds independent rows.
        earlier: the same output of earlier calls, by what they were called for.
    """
    if found.shape != expected.shape:
        return f"its shape is {list(found.shape)}, not {list(expected.shape)}"
    if odd := _nonfinite(found, expected):
        return odd

    if kind(found, expected) not in (Kind.REAL, Kind.WHOLE):
        return ""

    def same(a: Array, b: Array) -> bool:
        return a.shape == b.shape and limit.allows(limit.apart(a, b, rows=rows))

    for name, before in (earlier or {}).items():
        if same(found, before):
            return f"it is the result of an earlier call ({name}): stale"
    if expected.any() and not found.any():
        return "it is all zeros"
    if text := _few_elements(found, expected, limit) or _constant(found, expected):
        return text
    if rows and expected.shape[0] > 1 and (text := _by_rows(found, expected, limit)):
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
    wrong = np.argwhere(errors(found, expected) > limit.max_rel * top)
    if not 0 < len(wrong) <= _FEW:
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
    count = expected.shape[0]
    a, b = found.reshape(count, -1), expected.reshape(count, -1)

    def same(i: int, j: int) -> bool:
        return limit.allows(difference(a[i : i + 1], b[j : j + 1], rows=True, typical=limit.typical))

    wrong = [i for i in range(count) if i not in limit.left_out and not same(i, i)] if count <= _MOST_ROWS else []
    if not wrong:
        return ""
    source = {i: next((j for j in range(count) if j != i and same(i, j)), None) for i in wrong}
    if all(j is not None for j in source.values()):
        pairs = ", ".join(f"row {i} holds that of row {j}" for i, j in itertools.islice(source.items(), 4))
        return f"rows are mixed up: {pairs}"
    if len(wrong) == count:
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
