"""Values of a graph that is converted, and functions that create tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Bound = float | list[float]


@dataclass
class Value:
    """A value of the ONNX graph: a node of the fx graph, a constant, or both.

    `rank` is set for host values, `length` for vectors among them whose length is known, `boolean` for truth values.
    """

    node: Any = None
    constant: Tensor | None = None
    rank: int | None = None
    length: int | None = None
    boolean: bool = False


def full(shape: list[int], like: Tensor, *, value: float, dtype: torch.dtype) -> Tensor:
    """A tensor of one value."""
    return torch.full(shape, value, dtype=dtype, device=like.device)


def range_(start: Bound, limit: Bound, delta: Bound, like: Tensor) -> Tensor:
    """Numbers from start to limit; a vector of one stands for a number, as in ONNX Runtime."""
    bounds = [bound[0] if isinstance(bound, list) else bound for bound in (start, limit, delta)]
    return torch.arange(*bounds, dtype=like.dtype, device=like.device)


def eye_like(x: Tensor, *, k: int, dtype: torch.dtype | None) -> Tensor:
    """A diagonal of ones, in the shape of x."""
    return torch.triu(torch.tril(torch.ones(x.shape, dtype=dtype or x.dtype, device=x.device), k), k)
