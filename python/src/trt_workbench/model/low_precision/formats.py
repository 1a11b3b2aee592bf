"""The numeric formats of low precision: codes and scales of values, and the values of codes and scales.

Rounding is to the nearest, ties to the even code; what is beyond the largest value becomes that value. NaN stays NaN
where the format has it. Blocks lie along the last axis, whose length is a whole number of blocks. Sources: OCP 8-bit
Floating Point (1.0), OCP Microscaling Formats (1.0), and for NVFP4's two scales NVIDIA's Model Optimizer.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.precision import get

Floats = NDArray[np.floating[Any]]
# Arrays of ml_dtypes' element types, which numpy's annotations do not know.
Codes = NDArray[Any]

E4M3_MAX = get("mxfp8").largest
E2M1_MAX = get("nvfp4").largest
INT4_MAX = get("int4").largest
E8M0_BIAS = 127
MXFP8_BLOCK = get("mxfp8").block
NVFP4_BLOCK = get("nvfp4").block
INT4_BLOCK = get("int4").block
# Times the smallest scale of a block it is still a normal number.
_LEAST_TENSOR_SCALE = 2.0**-110


def e4m3(values: Floats) -> Codes:
    """Return values as float8_e4m3fn; infinity becomes 448, NaN stays."""
    clipped = np.clip(values.astype(np.float32), -E4M3_MAX, E4M3_MAX)
    with np.errstate(invalid="ignore"):  # numpy warns of every NaN
        return clipped.astype(ml_dtypes.float8_e4m3fn)


def e2m1(values: Floats) -> Codes:
    """Return values as float4_e2m1fn, which has neither infinity nor NaN.

    Raises:
        ValueError: a value is NaN.
    """
    if np.isnan(values).any():
        raise ValueError("FP4 has no NaN")
    return values.astype(np.float32).astype(ml_dtypes.float4_e2m1fn)


def e8m0(largest: Floats) -> NDArray[np.uint8]:
    """Return the scales of blocks with these largest absolute values, as exponents plus 127.

    A scale is the smallest power of two, at least 2**-127, by which the block's values come within 448. That is how
    NVIDIA's tools round; the OCP's formula rounds down and clips more.
    """
    share, exponent = np.frexp(largest.astype(np.float32) / np.float32(E4M3_MAX))
    rounded = np.where(share == 0.5, exponent - 1, exponent)
    rounded = np.where(share == 0, -E8M0_BIAS, np.where(np.isinf(largest), E8M0_BIAS, rounded))
    codes = np.clip(rounded, -E8M0_BIAS, E8M0_BIAS) + E8M0_BIAS
    return np.where(np.isnan(largest), 255, codes).astype(np.uint8)


def e8m0_values(scales: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the powers of two that scales stand for."""
    values: NDArray[np.float32] = scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    return values


def mxfp8(values: Floats) -> tuple[Codes, NDArray[np.uint8]]:
    """Return values in MXFP8, blocks of 32 along the last axis.

    Returns:
        Codes, float8_e4m3fn of the values' shape, and scales, one for 32 values: the exponent of a power of two plus
        127; 255 for NaN.
    """
    blocks = _blocks(values, MXFP8_BLOCK)
    scales = e8m0(np.abs(blocks).max(axis=-1))
    return e4m3(blocks / e8m0_values(scales)[..., None]).reshape(values.shape), scales


def nvfp4(values: Floats, tensor_scale: float | None = None) -> tuple[Codes, Codes, np.float32]:
    """Return values in NVFP4, blocks of 16 along the last axis.

    Args:
        values: without NaN.
        tensor_scale: None for the one by which the largest value is the largest of the format.

    Returns:
        Codes, float4_e2m1fn of the values' shape; scales, float8_e4m3fn, one for 16 values and never 0, which TensorRT
        does not take; and what every scale is multiplied by.

    Raises:
        ValueError: a value is NaN.
    """
    blocks = _blocks(values, NVFP4_BLOCK)
    largest = np.abs(blocks).max(axis=-1, initial=0)
    if tensor_scale is None:
        found = float(largest.max(initial=0)) / E2M1_MAX / E4M3_MAX
        tensor_scale = max(found, _LEAST_TENSOR_SCALE) if found else 1.0
    whole = np.float32(tensor_scale)
    scales = e4m3(largest / np.float32(E2M1_MAX) / whole)
    scales = np.where(scales.astype(np.float32) == 0, np.float32(1), scales.astype(np.float32))
    codes = e2m1(blocks / (scales * whole)[..., None])
    return codes.reshape(values.shape), scales.astype(ml_dtypes.float8_e4m3fn), whole


def int4(values: Floats, block: int) -> tuple[Codes, NDArray[np.float32]]:
    """Return values in blocks of 4-bit integers along the last axis, each block's largest absolute value being 7.

    Where that is so close to 0 that float32 would round the scale, codes are 0 and the scale 1, as in `ranges`.

    Returns:
        Codes, int4 from -7 to 7 of the values' shape, and a scale for each block.
    """
    blocks = _blocks(values, block)
    scales = np.abs(blocks).max(axis=-1) / np.float32(INT4_MAX)
    scales = np.where(scales >= np.finfo(np.float32).tiny, scales, np.float32(1))
    codes = np.clip(np.rint(blocks / scales[..., None]), -INT4_MAX, INT4_MAX)
    return codes.astype(ml_dtypes.int4).reshape(values.shape), scales


def _blocks(values: Floats, block: int) -> NDArray[np.float32]:
    if values.shape[-1] % block:
        raise ValueError(f"{values.shape[-1]} values are not a multiple of the block size {block}")
    return values.astype(np.float32).reshape(*values.shape[:-1], -1, block)
