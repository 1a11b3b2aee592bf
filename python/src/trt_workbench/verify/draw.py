"""Inputs by what they mean: images, token ids, masks with padding, lengths, positions; every row different.

Rows that are all alike, and masks of ones alone, hide the faults that are looked for.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.errors import UsageProblem
from trt_workbench.verify.space import value_symbol

Arrays = dict[str, NDArray[np.generic]]
Kind = Literal["random", "zeros", "large"]

# Token ids are drawn below this: every vocabulary in use is larger.
_SMALLEST_VOCABULARY = 256
_LARGE = 30.0
_SMALL_INTEGER = 4


def draw(
    specs: Sequence[TensorSpec],
    shapes: Mapping[str, tuple[int, ...]],
    kind: Kind,
    seed: int,
    sizes: Mapping[str, int] | None = None,
) -> Arrays:
    """Return one array an input.

    Args:
        specs: the inputs.
        shapes: their shapes.
        kind: "random" by meaning; "zeros" with floats of 0; "large" with floats 30 times as large as usual.
        seed: the same seed gives the same arrays, whatever other inputs there are.
        sizes: by symbol, of the case: an input that is named there holds sizes, as `Space` describes.

    Raises:
        UsageProblem: an input is of a type that cannot be drawn.
    """
    arrays: Arrays = {}
    for spec in specs:
        generator = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
        held = _held(spec, shapes[spec.name], sizes or {})
        arrays[spec.name] = _drawn(spec, shapes[spec.name], kind, generator) if held is None else held
    return arrays


def _held(spec: TensorSpec, shape: tuple[int, ...], sizes: Mapping[str, int]) -> NDArray[np.generic] | None:
    """Return the sizes that an input holds; None for one that holds none."""
    symbols = (spec.name, value_symbol(spec.name, 0))
    if spec.dtype not in ("int32", "int64") or len(shape) > 1 or not any(symbol in sizes for symbol in symbols):
        return None
    one = sizes.get(spec.name, 1)
    values = [sizes.get(value_symbol(spec.name, place), one) for place in range(math.prod(shape))]
    return np.array(values, spec.dtype).reshape(shape)


def _drawn(spec: TensorSpec, shape: tuple[int, ...], kind: Kind, generator: np.random.Generator) -> NDArray[np.generic]:
    name = spec.name.lower()
    if spec.dtype in ("float16", "float32", "float64", "bfloat16"):
        return _typed(_floats(shape, kind, generator, is_mask="mask" in name), spec.dtype)
    dtype = np.dtype(spec.dtype)
    if dtype.kind not in "biu":
        raise UsageProblem(f"Input {spec} is of a type for which no values can be drawn; give arrays with --inputs.")
    if "mask" in name or dtype.kind == "b":
        return _mask(shape, generator).astype(dtype)
    if "type" in name:
        return np.zeros(shape, dtype)
    if "position" in name:
        return np.broadcast_to(np.arange(shape[-1] if shape else 1), shape).astype(dtype).reshape(shape)
    if "len" in name or "size" in name:
        return generator.integers(1, _SMALL_INTEGER, shape).astype(dtype)
    if len(shape) < 2:
        return generator.integers(0, _SMALL_INTEGER, shape).astype(dtype)
    high = min(_SMALLEST_VOCABULARY, np.iinfo(dtype).max)
    return generator.integers(0, high, shape).astype(dtype)


def _floats(
    shape: tuple[int, ...], kind: Kind, generator: np.random.Generator, *, is_mask: bool
) -> NDArray[np.float64]:
    if is_mask:
        return _mask(shape, generator).astype(np.float64)
    if kind == "zeros":
        return np.zeros(shape)
    if len(shape) == 4 and shape[1] in (1, 3):
        return generator.random(shape) * (_LARGE if kind == "large" else 1.0)
    return generator.standard_normal(shape) * (_LARGE if kind == "large" else 1.0)


def _mask(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return ones followed by zeros along the last axis; the first row is full, others are padded at random."""
    if not shape:
        return np.ones((), np.int64)
    length = shape[-1]
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    lengths = generator.integers(1, length + 1, rows) if length else np.zeros(rows, np.int64)
    if rows:
        lengths[0] = length
    return (np.arange(length)[None, :] < lengths[:, None]).astype(np.int64).reshape(shape)


def _typed(values: NDArray[np.float64], dtype: str) -> NDArray[np.generic]:
    if dtype == "bfloat16":
        import ml_dtypes

        return values.astype(ml_dtypes.bfloat16)
    return values.astype(dtype)
