"""QuantizeLinear and DequantizeLinear of 8-bit integers: values rounded as the pairs round them, products in floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trt_workbench.backends.torch.onnx_torch.dtypes import TORCH_DTYPES, rounded_once
from trt_workbench.core.errors import Unsupported


def _quantize(x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, **more: Any) -> Tensor:
    _no_blocks("QuantizeLinear", more)
    declared = TORCH_DTYPES.get(more.get("output_dtype", 0), torch.uint8)
    dtype = declared if zero is None else zero.dtype
    codes = torch.round(x / _along(scale, x, axis))
    if zero is not None:
        codes = codes + _along(zero, x, axis)
    limits = torch.iinfo(dtype)
    return codes.clamp(limits.min, limits.max).to(dtype)


def _dequantize(x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, **more: Any) -> Tensor:
    _no_blocks("DequantizeLinear", more)
    codes = x.to(torch.int32)
    if zero is not None:
        codes = codes - _along(zero, x, axis).to(torch.int32)
    return codes.to(scale.dtype) * _along(scale, x, axis)


def _along(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return one value for all, or one for each index of an axis, in a shape that meets the tensor's."""
    if values.ndim == 0 or values.numel() == 1:
        return values.reshape(())
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.reshape(shape)


def _no_blocks(operator: str, attributes: dict[str, Any]) -> None:
    if attributes.get("block_size"):
        raise Unsupported(f"The torch backend does not support {operator} with blocks.")


OPERATORS: dict[str, Callable[..., Any]] = {"QuantizeLinear": rounded_once(_quantize), "DequantizeLinear": _dequantize}
