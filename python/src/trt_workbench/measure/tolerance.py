"""Outputs against reference outputs: |a - b| <= atol + rtol * |b| for every element, as numpy's `isclose`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.engine.array_files import load_arrays
from trt_workbench.errors import UsageProblem
from trt_workbench.measure.arrays import file_name


@dataclass(frozen=True)
class Deviation:
    """One output beside its reference. A NaN agrees with a NaN, an infinity with the same infinity.

    A figure that float64 cannot hold is None.

    Attributes:
        passed: shapes are equal and every element is within the tolerance.
        elements: how many were compared; 0 where the shapes differ.
        mismatches: how many are outside the tolerance.
        max_abs_error: largest |a - b| of finite pairs.
        max_rel_error: largest |a - b| / |b| where b is not 0.
        mean_abs_error: mean |a - b| of finite pairs.
        cosine: cosine similarity of finite pairs; None where one side is all zeros.
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


def compare(found: NDArray[Any], expected: NDArray[Any], rtol: float, atol: float) -> Deviation:
    """Compare an output with its reference.

    Args:
        found: what the engine returned.
        expected: the reference, of any numeric dtype.
        rtol: relative tolerance.
        atol: absolute tolerance.
    """
    if found.shape != expected.shape:
        note = f"shape {list(found.shape)} instead of {list(expected.shape)}"
        return Deviation(passed=False, elements=0, mismatches=0, note=note)
    a, b = found.astype(np.float64), expected.astype(np.float64)
    if rtol == atol == 0:
        # not by float64, which does not tell all 64-bit integers apart
        close = (found == expected) | (np.isnan(a) & np.isnan(b))
    else:
        close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    mismatches = int(close.size - np.count_nonzero(close))
    unequal = int(both.size - np.count_nonzero(both))
    with np.errstate(over="ignore", invalid="ignore"):  # figures beyond float64 are left out
        error = np.abs(a - b)
        relative = error[b != 0] / np.abs(b[b != 0])
        norms = np.linalg.norm(a) * np.linalg.norm(b)
        cosine = np.dot(a, b) / norms if norms else np.nan
        mean = error.mean() if error.size else 0.0
    return Deviation(
        passed=mismatches == 0,
        elements=close.size,
        mismatches=mismatches,
        max_abs_error=_figure(error.max(initial=0.0)),
        max_rel_error=_figure(relative.max(initial=0.0)),
        mean_abs_error=_figure(mean),
        cosine=_figure(cosine),
        note=f"{unequal} pairs with NaN or infinity" if unequal else "",
    )


def _figure(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def read_expected(folder: Path, sample: str, outputs: list[str], *, only: bool) -> dict[str, NDArray[Any]]:
    """Return the reference outputs of a sample.

    Looked for as `FOLDER/SAMPLE/OUTPUT.npy`, `FOLDER/SAMPLE.npz`, and, where `only` says that there is one sample,
    `FOLDER/OUTPUT.npy`, or the one folder in FOLDER; so the `outputs/` folder of an earlier run can be named.

    Raises:
        UsageProblem: a reference is missing or no array.
    """
    together = folder / f"{sample}.npz"
    if together.is_file():
        arrays = load_arrays(together)
        if missing := sorted(set(outputs) - arrays.keys()):
            raise UsageProblem(f"The reference lacks the output {missing[0]}: {together}")
        return {name: arrays[name] for name in outputs}
    places = [folder / sample]
    if only:
        inside = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
        places += [folder, *(inside if len(inside) == 1 else [])]
    for place in places:
        files = {name: place / f"{file_name(name)}.npy" for name in outputs}
        if all(file.is_file() for file in files.values()):
            return {name: load_arrays(file)[""] for name, file in files.items()}
    raise UsageProblem(
        f"The reference outputs of sample {sample} are missing: {sample}/{file_name(outputs[0])}.npy and the like, or "
        f"{sample}.npz, in {folder}"
    )
