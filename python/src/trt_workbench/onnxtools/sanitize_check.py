"""Whether two models say the same: random inputs, run by the caller's runtime, outputs compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.errors import CheckFailed, UsageProblem, whole_number
from trt_workbench.onnxtools.preflight import ModelTensor

Arrays = dict[str, NDArray[Any]]
Runner = Callable[[Path, Arrays], Mapping[str, NDArray[Any]]]
# Token ids and indices have to be small to be valid: BERT has two types of tokens, a mask is 0 or 1.
_INTEGERS = 2


def random_inputs(
    tensors: Sequence[ModelTensor],
    dims: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    seed: int,
    default: int | None = None,
) -> Arrays:
    """Return one array for every input.

    Args:
        tensors: the inputs.
        dims: sizes of symbolic dimensions; a sum such as "past + 1" has its own here, or follows its parts.
        shapes: whole shapes by input, which count more.
        seed: of the values: floats in [0, 1), integers below 2, booleans.
        default: size of symbolic dimensions of which `dims` says nothing.

    Raises:
        UsageProblem: a dimension has no size, or an input is of a type that cannot be drawn.
    """
    generator = np.random.default_rng(seed)
    arrays: Arrays = {}
    for tensor in tensors:
        shape = shapes.get(tensor.name) or _shape(tensor, dims, default)
        kind = np.dtype(tensor.dtype).kind if tensor.dtype != "unknown" else "?"
        if kind == "f":
            arrays[tensor.name] = generator.random(shape).astype(tensor.dtype)
        elif kind in "iu":
            arrays[tensor.name] = generator.integers(0, _INTEGERS, shape).astype(tensor.dtype)
        elif kind == "b":
            arrays[tensor.name] = generator.integers(0, 2, shape).astype(bool)
        else:
            raise UsageProblem(
                f"Input {tensor.name} is of type {tensor.dtype}, for which no values can be drawn; use --no-check."
            )
    return arrays


def _shape(tensor: ModelTensor, dims: Mapping[str, int], default: int | None) -> tuple[int, ...]:
    sizes = [_size(dim, dims, default) if isinstance(dim, str) else dim for dim in tensor.shape or ()]
    if tensor.shape is None or None in sizes:
        raise UsageProblem(
            f"Input {tensor.name} {tensor.shape} has a dimension without a size; pass --shape {tensor.name}:1x3x64x64."
        )
    return tuple(size for size in sizes if size is not None)


def sum_parts(symbol: str) -> list[str]:
    """Return what a symbolic dimension is the sum of, itself if nothing else; exporters write "past + 1" into one."""
    return [part.strip() for part in symbol.split("+")]


def _size(symbol: str, dims: Mapping[str, int], default: int | None) -> int | None:
    """Return the size of a symbolic dimension: its own, that of its parts together, or the default."""
    if symbol in dims:
        return dims[symbol]
    sizes = [whole_number(part) if part.isdecimal() else dims.get(part) for part in sum_parts(symbol)]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else default


def compare(
    before: Path, after: Path, run: Runner, inputs: Sequence[Arrays], *, rtol: float, atol: float
) -> dict[str, Any]:
    """Run both models on every set of inputs and compare their outputs.

    Returns:
        The record: largest absolute and relative difference by output.

    Raises:
        CheckFailed: the second model does not run, or an output is missing, has another type or shape, or differs by
            more than atol + rtol * |before|.
    """
    largest: dict[str, dict[str, float]] = {}
    for arrays in inputs:
        expected, found = _expected(before, run, arrays), _found(after, run, arrays)
        if list(expected) != list(found):
            raise CheckFailed(f"The outputs are {list(found)}, before they were {list(expected)}: {after}")
        for name, want in expected.items():
            got = found[name]
            if (got.dtype, got.shape) != (want.dtype, want.shape):
                raise CheckFailed(
                    f"Output {name} is {got.dtype} {got.shape}, before it was {want.dtype} {want.shape}: {after}"
                )
            _add(largest.setdefault(name, {"max_abs": 0.0, "max_rel": 0.0}), want, got)
            if not np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
                raise CheckFailed(
                    f"Output {name} differs by up to {largest[name]['max_abs']:.3g} from the model before: {after}"
                )
    return {"input_sets": len(inputs), "rtol": rtol, "atol": atol, "outputs": largest}


def _expected(before: Path, run: Runner, arrays: Arrays) -> Mapping[str, NDArray[Any]]:
    try:
        return run(before, arrays)
    except UsageProblem as error:
        raise UsageProblem(
            f"The model does not run on inputs drawn for the check; give --size, --shape or --no-check. {error}"
        ) from error


def _found(after: Path, run: Runner, arrays: Arrays) -> Mapping[str, NDArray[Any]]:
    try:
        return run(after, arrays)
    except UsageProblem as error:
        raise CheckFailed(
            f"The rewritten model does not run; leave out the rewrite that is to blame with --skip. {error}"
        ) from error


def _add(record: dict[str, float], want: NDArray[Any], got: NDArray[Any]) -> None:
    if not want.size or want.dtype.kind not in "fiu":
        return
    finite = np.isfinite(want) & np.isfinite(got)
    difference = np.abs(got.astype(np.float64) - want.astype(np.float64))[finite]
    if difference.size:
        size = np.maximum(np.abs(want.astype(np.float64))[finite], 1e-12)
        record["max_abs"] = max(record["max_abs"], float(difference.max()))
        record["max_rel"] = max(record["max_rel"], float((difference / size).max()))
