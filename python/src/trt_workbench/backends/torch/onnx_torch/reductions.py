"""Operators that reduce, normalise or search along axes. Semantics: the ONNX operator documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trt_workbench.backends.torch.onnx_torch.dtypes import rounded_once

Axes = Sequence[int] | None
Reducer = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def _reduction(reduce: Reducer) -> Callable[..., Tensor]:
    """Return the operator: axes are an input from opset 13 or 18 on, an attribute before."""

    def operator(
        x: Tensor, axes_input: Axes = None, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        chosen = axes_input if axes_input is not None else axes
        if not chosen and noop_with_empty_axes:
            return reduce(x, (), bool(keepdims))
        return reduce(x, tuple(chosen) if chosen else tuple(range(x.ndim)), bool(keepdims))

    return operator


def _sum(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return x.sum(axes, keepdim=keep, dtype=x.dtype) if axes else x


def _mean(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return x.mean(axes, keepdim=keep) if axes else x


def _max(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    if x.dtype == torch.bool:
        return x.to(torch.uint8).amax(axes, keepdim=keep).to(torch.bool)
    return x.amax(axes, keepdim=keep) if axes else x


def _min(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    if x.dtype == torch.bool:
        return x.to(torch.uint8).amin(axes, keepdim=keep).to(torch.bool)
    return x.amin(axes, keepdim=keep) if axes else x


def _prod(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    for axis in sorted((axis % max(x.ndim, 1) for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep, dtype=x.dtype)
    return x


def _log_sum_exp(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return torch.logsumexp(x, axes, keepdim=keep) if axes else x


def softmax(x: Tensor, *, axis: int | None = None, opset: int, log: bool = False) -> Tensor:
    """Softmax along `axis`; before opset 13 over everything from `axis` on."""
    function = torch.log_softmax if log else torch.softmax
    if opset >= 13:
        return function(x, -1 if axis is None else axis)
    shape = x.shape
    return function(x.flatten(1 if axis is None else axis), -1).reshape(shape) if axis != 0 else _all(x, function)


def _all(x: Tensor, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    return function(x.reshape(-1), 0).reshape(x.shape)


def log_softmax(x: Tensor, *, axis: int | None = None, opset: int) -> Tensor:
    """Logarithm of softmax."""
    return softmax(x, axis=axis, opset=opset, log=True)


def arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Index of the greatest value, the first or the last of equal ones."""
    if not select_last_index:
        return _first_index(x == x.amax(axis, keepdim=True), axis, keepdims)
    return x.shape[axis] - 1 - _first_index((x == x.amax(axis, keepdim=True)).flip(axis), axis, keepdims)


def arg_min(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Index of the least value, the first or the last of equal ones."""
    return arg_max(-x, axis=axis, keepdims=keepdims, select_last_index=select_last_index)


def _first_index(found: Tensor, axis: int, keepdims: int) -> Tensor:
    # argmax of ties is not defined in torch; of 0 and 1 weighted by place it is
    weights = torch.arange(found.shape[axis], 0, -1, device=found.device)
    shape = [1] * found.ndim
    shape[axis] = -1
    return (found * weights.reshape(shape)).argmax(axis, keepdim=bool(keepdims))


def top_k(x: Tensor, k: Sequence[int] | int, *, axis: int = -1, largest: int = 1, **_: int) -> tuple[Tensor, Tensor]:
    """The k greatest or least values in order, with their indices; equal values keep the order of their indices."""
    count = k if isinstance(k, int) else k[0]
    values, indices = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)


def cumsum(x: Tensor, axis: Sequence[int] | int, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Running sum."""
    dim = axis if isinstance(axis, int) else axis[0]
    turned = x.flip(dim) if reverse else x
    total = turned.cumsum(dim, dtype=x.dtype)
    if exclusive:
        total = total - turned
    return total.flip(dim) if reverse else total


OPERATORS: dict[str, Callable[..., Any]] = {
    "ArgMax": arg_max,
    "ArgMin": arg_min,
    "CumSum": rounded_once(cumsum),
    "LogSoftmax": log_softmax,
    "ReduceL1": _reduction(lambda x, axes, keep: _sum(x.abs(), axes, keep)),
    "ReduceL2": rounded_once(_reduction(lambda x, axes, keep: _sum(x * x, axes, keep).sqrt())),
    "ReduceLogSum": rounded_once(_reduction(lambda x, axes, keep: _sum(x, axes, keep).log())),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "ReduceMax": _reduction(_max),
    "ReduceMean": _reduction(_mean),
    "ReduceMin": _reduction(_min),
    "ReduceProd": rounded_once(_reduction(_prod)),
    "ReduceSum": _reduction(_sum),
    "ReduceSumSquare": rounded_once(_reduction(lambda x, axes, keep: _sum(x * x, axes, keep))),
    "Softmax": softmax,
    "TopK": top_k,
}
# Inputs that are read on the host, and operators whose functions take the opset.
HOST_INPUTS = {**{name: (1,) for name in OPERATORS if name.startswith("Reduce")}, "TopK": (1,), "CumSum": (1,)}
WITH_OPSET = frozenset({"Softmax", "LogSoftmax"})
