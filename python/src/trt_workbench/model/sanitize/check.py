"""Whether two models compute the same: run by the caller's runtime on the same inputs, outputs compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.tolerance import deviation

Arrays = dict[str, NDArray[Any]]
Runner = Callable[[Path, Arrays], Mapping[str, NDArray[Any]]]


class NotLoaded(UsageProblem):
    """A runtime does not load a model, regardless of its inputs."""


def compare(
    before: Path, after: Path, run: Runner, inputs: Sequence[Arrays], *, rtol: float, atol: float
) -> dict[str, Any]:
    """Run both models on every set of inputs and compare their outputs.

    Returns:
        The record: largest absolute and relative difference by output.

    Raises:
        UsageProblem: the first model does not run, or cannot be loaded (`run` raises NotLoaded then).
        CheckFailed: the second model does not run, or an output is missing, has another type or shape, or differs by
            more than atol + rtol * |before|.
    """
    largest: dict[str, dict[str, float]] = {}
    # one model after the other, so that each is loaded once
    wanted = [_expected(before, run, arrays) for arrays in inputs]
    for arrays, expected in zip(inputs, wanted, strict=True):
        found = _found(after, run, arrays)
        if list(expected) != list(found):
            raise CheckFailed(f"The outputs are {list(found)} instead of {list(expected)}: {before}")
        for name, want in expected.items():
            got = found[name]
            if (got.dtype, got.shape) != (want.dtype, want.shape):
                raise CheckFailed(
                    f"Output {name} is {got.dtype} {got.shape} instead of {want.dtype} {want.shape}: {before}"
                )
            one, record = deviation(got, want, rtol, atol), largest.setdefault(name, {"max_abs": 0.0, "max_rel": 0.0})
            if not one.passed:
                largest_error = "" if one.max_abs_error is None else f" by up to {one.max_abs_error:.3g}"
                more = f" ({one.note})" if one.note else ""
                raise CheckFailed(f"Output {name} differs{largest_error} from the original model's{more}: {before}")
            record["max_abs"] = max(record["max_abs"], one.max_abs_error or 0.0)
            record["max_rel"] = max(record["max_rel"], one.max_rel_error or 0.0)
    return {"input_sets": len(inputs), "rtol": rtol, "atol": atol, "outputs": largest}


def _expected(before: Path, run: Runner, arrays: Arrays) -> Mapping[str, NDArray[Any]]:
    try:
        return run(before, arrays)
    except NotLoaded as error:
        raise UsageProblem(
            f"The model cannot be checked; --no-check writes the result without a check. {error}"
        ) from error
    except UsageProblem as error:
        raise UsageProblem(
            f"The model does not run on the random inputs of the check; pass --size, --shape or --no-check. {error}"
        ) from error


def _found(after: Path, run: Runner, arrays: Arrays) -> Mapping[str, NDArray[Any]]:
    try:
        return run(after, arrays)
    except UsageProblem as error:
        raise CheckFailed(
            "The rewritten model does not run; exclude the faulty rewrite with --skip. "
            + str(error).replace(str(after), "the rewritten model")
        ) from error
