"""Convolution, pooling, normalisation and matrix products. Semantics: the ONNX operator documentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trt_workbench.backends.torch.onnx_torch.dtypes import rounded_once
from trt_workbench.core.errors import Unsupported

Ints = Sequence[int]
_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_MAX_POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE_POOLS: dict[int, Callable[..., Tensor]] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,  # noqa: ARG001 - the weight has it
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Convolution over 1 to 3 dimensions."""
    rank = weight.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    before, after = _pads(auto_pad, pads, x.shape[2:], weight.shape[2:], strides, dilations)
    if before != after:
        x, before = F.pad(x, _widths(before, after)), [0] * rank
    return _CONVOLUTIONS[rank](x, weight, bias, list(strides), before, list(dilations), group)


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,  # noqa: ARG001 - the weight has it
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Transposed convolution over 1 to 3 dimensions."""
    rank = weight.ndim - 2
    strides, dilations = list(strides or [1] * rank), list(dilations or [1] * rank)
    extra = list(output_padding or [0] * rank)
    full = [
        stride * (size - 1) + add + (kernel - 1) * dilation + 1
        for stride, size, add, kernel, dilation in zip(
            strides, x.shape[2:], extra, weight.shape[2:], dilations, strict=True
        )
    ]
    if output_shape is not None or auto_pad.startswith("SAME"):
        wanted = output_shape or [size * stride for size, stride in zip(x.shape[2:], strides, strict=True)]
        total = [a - b for a, b in zip(full, wanted, strict=True)]
        less = [cut // 2 for cut in total]
        more = [cut - half for cut, half in zip(total, less, strict=True)]
        before, after = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    else:
        given = list(pads or [0] * (2 * rank))
        before, after = given[:rank], given[rank:]
    # all of it, then cropped: torch's output_padding must be below the stride, and its pads are symmetric
    y = _TRANSPOSED[rank](x, weight, bias, strides, [0] * rank, [0] * rank, group, dilations)
    crop = [add - cut for add, cut in zip(extra, after, strict=True)]
    y = F.pad(y, _widths([-cut for cut in before], crop))
    if bias is not None and any(grow > 0 for grow in crop):
        return conv_transpose_bias(y, bias, [max(grow, 0) for grow in crop])
    return y


def conv_transpose_bias(y: Tensor, bias: Tensor, grown: Ints) -> Tensor:
    """Put the bias into the padded border of a transposed convolution, where no product was added."""
    border = torch.zeros_like(y[:1, :1], dtype=torch.bool)
    for place, width in enumerate(grown):
        if width:
            border.narrow(2 + place, border.shape[2 + place] - width, width).fill_(value=True)
    return torch.where(border, bias.reshape(1, -1, *([1] * len(grown))), y)


def max_pool(
    x: Tensor,
    *,
    outputs: int = 1,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    storage_order: int = 0,  # noqa: ARG001 - of the indices, which are not offered
    strides: Ints | None = None,
) -> Tensor:
    """Greatest value of each window."""
    if outputs > 1:
        raise Unsupported("MaxPool with its second output, the indices, is not supported by the torch backend.")
    rank = len(kernel_shape)
    strides, dilations = list(strides or [1] * rank), list(dilations or [1] * rank)
    before, after = _pads(auto_pad, pads, x.shape[2:], kernel_shape, strides, dilations)
    symmetric = before == after and all(2 * pad <= kernel for pad, kernel in zip(before, kernel_shape, strict=True))
    if not symmetric:
        lowest = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
        x, before = F.pad(x, _widths(before, after), value=lowest), [0] * rank
    return _MAX_POOLS[rank](x, list(kernel_shape), strides, before, dilations, ceil_mode=bool(ceil_mode))


def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Mean of each window, with or without the padding."""
    rank = len(kernel_shape)
    strides = list(strides or [1] * rank)
    if dilations and any(dilation != 1 for dilation in dilations):
        raise Unsupported("AveragePool with dilations is not supported by the torch backend.")
    before, after = _pads(auto_pad, pads, x.shape[2:], kernel_shape, strides, [1] * rank)
    pool = _AVERAGE_POOLS[rank]
    if before == after and all(2 * pad <= extent for pad, extent in zip(before, kernel_shape, strict=True)):
        return pool(x, list(kernel_shape), strides, before, bool(ceil_mode), bool(count_include_pad))
    widths = _widths(before, after)
    ones = F.pad(torch.ones_like(x[:1, :1]), widths, value=float(count_include_pad))
    sums, counts = (
        pool(part, list(kernel_shape), strides, 0, bool(ceil_mode), True, 1)
        for part in _covered(x, ones, widths, after)
    )
    return sums / counts


def _covered(x: Tensor, ones: Tensor, widths: list[int], after: Ints) -> tuple[Tensor, Tensor]:
    """Return the padded values and their weights."""
    del after
    return F.pad(x, widths), ones


def global_average_pool(x: Tensor) -> Tensor:
    """Mean over all places."""
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


def global_max_pool(x: Tensor) -> Tensor:
    """Greatest value over all places."""
    return x.amax(tuple(range(2, x.ndim)), keepdim=True)


def _pads(
    auto_pad: str, pads: Ints | None, sizes: Ints, kernel: Ints, strides: Ints, dilations: Ints
) -> tuple[list[int], list[int]]:
    """Return the padding before and after each dimension."""
    rank = len(kernel)
    if auto_pad in ("NOTSET", "") or auto_pad == "VALID":
        given = list(pads) if pads and auto_pad != "VALID" else [0] * (2 * rank)
        return given[:rank], given[rank:]
    totals = [
        max((-(-size // stride) - 1) * stride + (extent - 1) * dilation + 1 - size, 0)
        for size, extent, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


def _widths(before: Ints, after: Ints) -> list[int]:
    """Return padding in the order of torch: last dimension first."""
    return [width for pair in zip(reversed(before), reversed(after), strict=True) for width in pair]


def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    training_mode: int = 0,
    **_: float,
) -> Tensor:
    """Batch normalisation at inference."""
    if training_mode:
        raise Unsupported("BatchNormalization in training mode is not supported by the torch backend.")
    return F.batch_norm(x, mean, var, scale, bias, training=False, eps=epsilon)


def instance_normalization(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Normalise each channel of each item."""
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def layer_normalization(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5, **_: int
) -> Tensor:
    """Normalise over the dimensions from `axis` on."""
    dims = list(x.shape[axis:])
    if list(scale.shape) == dims and (bias is None or list(bias.shape) == dims):
        return F.layer_norm(x, dims, scale, bias, epsilon)
    normal = F.layer_norm(x, dims, None, None, epsilon) * scale
    return normal if bias is None else normal + bias


def rms_normalization(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, **_: int) -> Tensor:
    """Divide by the root of the mean square over the dimensions from `axis` on."""
    return F.rms_norm(x, list(x.shape[axis:]), None, epsilon) * scale


def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, opset: int, **_: int
) -> Tensor:
    """Normalise groups of channels; before opset 21 scale and bias are by group."""
    if opset < 21:
        repeats = x.shape[1] // num_groups
        scale, bias = scale.repeat_interleave(repeats), bias.repeat_interleave(repeats)
    return F.group_norm(x, num_groups, scale, bias, epsilon)


def lrn(x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Tensor:
    """Local response normalisation."""
    return F.local_response_norm(x, size, alpha, beta, bias)


def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divide by the norm along an axis; zero where that is zero."""
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else (x * x).sum(axis, keepdim=True).sqrt()
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Product of two matrices, scaled, plus a third one, scaled."""
    left, right = a.T if transA else a, b.T if transB else b
    if c is None and alpha == 1:
        return left @ right
    return torch.addmm(left.new_zeros(()) if c is None else c, left, right, beta=beta, alpha=alpha)


def einsum(*tensors: Tensor, equation: str) -> Tensor:
    """Sum of products by Einstein's convention."""
    return torch.einsum(equation, *tensors)


def dropout(
    x: Tensor,
    ratio: float | None = None,  # noqa: ARG001 - of training
    training: bool | None = None,
    *,
    outputs: int = 1,
    **_: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """At inference, the input itself and a mask that drops no element."""
    if training:
        raise Unsupported("Dropout in training mode is not supported by the torch backend.")
    return x if outputs == 1 else (x, torch.ones_like(x, dtype=torch.bool))


OPERATORS: dict[str, Callable[..., Any]] = {
    "AveragePool": rounded_once(average_pool),
    "BatchNormalization": batch_normalization,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Dropout": dropout,
    "Einsum": einsum,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": rounded_once(lrn),
    "LayerNormalization": layer_normalization,
    "LpNormalization": rounded_once(lp_normalization),
    "MatMul": torch.matmul,
    "MaxPool": max_pool,
    "RMSNormalization": rms_normalization,
}
HOST_INPUTS = {"Dropout": (1, 2)}
WITH_OPSET = frozenset({"GroupNormalization"})
