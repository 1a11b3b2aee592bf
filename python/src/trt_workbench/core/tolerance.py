"""An array compared with its reference by tolerances that a user gave: |a - b| <= atol + rtol * |b|."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trt_workbench.core.compare import compare_rows
from trt_workbench.core.counts import counted
from trt_workbench.core.elements import Array, Kind, errors, finite, is_finite, kind


@dataclass(frozen=True)
class Deviation:
    """One output compared with its reference. A figure that is not finite, or not known, is None.

    Where only one side has NaN or infinity, errors are infinite.

    Attributes:
        passed: shapes are equal and every element is within the tolerance.
        elements: how many were compared; 0 where the shapes differ.
        mismatches: how many are outside the tolerance.
        max_abs_error: largest |a - b|.
        max_rel_error: largest |a - b| / |b| where b is not 0.
        mean_abs_error: mean |a - b|.
        cosine: cosine similarity; None where one side is all zeros, or has NaN or infinity alone.
        note: why it failed, where figures do not say it.
    """

    passed: bool
    elements: int
    mismatches: int
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    mean_abs_error: float | None = None
    cosine: float | None = None
    note: str = ""


def deviation(found: Array, expected: Array, rtol: float, atol: float) -> Deviation:
    """Compare an array with its reference.

    Integers may differ by `atol`, regardless of `rtol`; booleans and texts not at all.

    Args:
        found: what was computed.
        expected: the reference.
        rtol: relative tolerance.
        atol: absolute tolerance.
    """
    if found.shape != expected.shape:
        note = f"shape {list(found.shape)} instead of {list(expected.shape)}"
        return Deviation(passed=False, elements=0, mismatches=0, note=note)
    how, error = kind(found, expected), errors(found, expected)
    if how is Kind.OTHER:
        mismatches = int(np.count_nonzero(error))
        return Deviation(passed=not mismatches, elements=error.size, mismatches=mismatches)
    known = is_finite(found) & is_finite(expected)
    size = np.abs(expected[known].astype(np.result_type(np.float64, expected.dtype)))
    own = error[known]
    with np.errstate(over="ignore", invalid="ignore"):
        if how is not Kind.WHOLE:
            allowed = atol + rtol * size
        else:
            allowed = np.full(own.shape, 0.0 if "b" in (found.dtype.kind, expected.dtype.kind) else atol)
        relative, mean = own[size > 0] / size[size > 0], own.mean() if own.size else 0.0
    beyond = (own > 0) & np.isfinite(own) & ~(own <= allowed)
    # what is infinite in `error` is a mismatch by any tolerance
    mismatches = int(np.count_nonzero(np.isinf(error)) + np.count_nonzero(beyond))
    note = f"{counted(error.size - own.size, 'pair')} with NaN or infinity" if own.size < error.size else ""
    if np.isinf(error[~known]).any():
        return Deviation(passed=False, elements=error.size, mismatches=mismatches, note=note)
    wide = np.result_type(np.float64, found.dtype, expected.dtype)  # integers count as floats in the cosine
    return Deviation(
        passed=mismatches == 0,
        elements=error.size,
        mismatches=mismatches,
        max_abs_error=finite(own.max(initial=0)),
        max_rel_error=finite(relative.max(initial=0)),
        mean_abs_error=finite(mean),
        cosine=compare_rows(found.astype(wide), expected.astype(wide), rows=False).cosine(),
        note=note,
    )
