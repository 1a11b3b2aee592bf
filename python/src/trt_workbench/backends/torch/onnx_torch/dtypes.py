"""Element types of ONNX as torch has them, and the one that floats are computed in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch

from trt_workbench.core.errors import Unsupported
from trt_workbench.core.precision import get
from trt_workbench.model.proto import kinds_where

TORCH_DTYPES: dict[int, torch.dtype] = {
    **{kind: getattr(torch, get(name).torch) for kind, name in kinds_where(lambda one: one.torch).items()},
    onnx.TensorProto.BOOL: torch.bool,
    onnx.TensorProto.INT8: torch.int8,
    onnx.TensorProto.INT16: torch.int16,
    onnx.TensorProto.INT32: torch.int32,
    onnx.TensorProto.INT64: torch.int64,
    onnx.TensorProto.UINT8: torch.uint8,
}
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def compute_dtype(dtype: torch.dtype, precision: torch.dtype) -> torch.dtype:
    """Return what a tensor of `dtype` is held in: fp32 becomes `precision`, fp64 stays unless that is a half type."""
    return precision if dtype in _FLOATS and precision != torch.float32 else dtype


def to_precision(tensor: torch.Tensor, precision: torch.dtype) -> torch.Tensor:
    """Return a constant in the type it is computed in; finite values stay finite, as in a mask of -3e38."""
    target = compute_dtype(tensor.dtype, precision)
    if target == tensor.dtype:
        return tensor
    limits = torch.finfo(target)
    tensor = tensor.to(torch.promote_types(tensor.dtype, target))  # fp16 has not the limits of bf16
    return torch.where(tensor.isfinite(), tensor.clamp(limits.min, limits.max), tensor).to(target)


def rounded_once(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return an operator of several steps that computes halves in fp32 and rounds its result, as one kernel does."""

    @functools.wraps(function)
    def operator(*inputs: Any, **more: Any) -> torch.Tensor:
        kind = inputs[0].dtype
        if kind not in _HALVES:
            return function(*inputs, **more)
        wide = [one.float() if isinstance(one, torch.Tensor) and one.dtype == kind else one for one in inputs]
        found = function(*wide, **more)
        return found.to(kind) if found.dtype == torch.float32 else found

    return operator


def as_torch(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return a copy of an array as a tensor; bfloat16, which numpy does not have, by its bits.

    Raises:
        UsageProblem: torch has no such type.
    """
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    try:
        return torch.from_numpy(np.array(array))
    except TypeError as error:
        raise Unsupported(f"Constants of type {array.dtype} are not supported by the torch backend.") from error
