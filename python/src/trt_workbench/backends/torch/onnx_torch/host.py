"""Arithmetic of shapes: Python integers and lists instead of tensors, so that no device has to be read for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# A rank-0 or rank-1 integer tensor.
Host = int | list[int]
# Ranks of the inputs (None where absent), attributes -> rank of the result; None where it would be above 1.
RankRule = Callable[[Sequence[int | None], dict[str, Any]], int | None]


def shape(x: Tensor, *, start: int = 0, end: int | None = None) -> list[int]:
    """Sizes of the dimensions."""
    return list(x.shape)[start:end]


def size(x: Tensor) -> int:
    """Number of elements."""
    return x.numel()


def to_host(x: Any) -> Any:
    """Read a tensor on the host; waits for the device."""
    return x.tolist() if isinstance(x, Tensor) else x


def to_tensor(value: Host, like: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
    """Return a host value as a tensor on the device of `like`."""
    return torch.tensor(value, dtype=dtype, device=like.device)


def gather(x: list[int], indices: Host, *, axis: int = 0) -> Host:
    """Select by index."""
    del axis
    return x[indices] if isinstance(indices, int) else [x[index] for index in indices]


def concat(*parts: list[int], axis: int = 0) -> list[int]:
    """Join."""
    del axis
    return [item for part in parts for item in part]


def unsqueeze(x: int, *_: Any, **__: Any) -> list[int]:
    """A vector of one."""
    return [x]


def squeeze(x: list[int], *_: Any, **__: Any) -> int:
    """The one element of a vector."""
    (item,) = x
    return item


def slice_(x: list[int], starts: Host, ends: Host, _axes: Host | None = None, steps: Host | None = None) -> list[int]:
    """Cut out a range."""
    start, end, step = (part if isinstance(part, int) or part is None else part[0] for part in (starts, ends, steps))
    step = 1 if step is None else step
    if step < 0 and end is not None and end < -len(x):
        end = None
    return x[start:end:step]


def identity(x: Host, **_: Any) -> Host:
    """The value itself."""
    return x


def reduce_prod(x: list[int], *_: Any, keepdims: int = 1, **__: Any) -> Host:
    """Product."""
    product = math.prod(x)
    return [product] if keepdims else product


def reshape(x: Host, target: list[int], **_: Any) -> Host:
    """A vector as a scalar, or the other way round."""
    items = [x] if isinstance(x, int) else x
    return items if len(target) == 1 else items[0]


def range_(start: int, limit: int, delta: int) -> list[int]:
    """Numbers from start to limit."""
    return list(range(start, limit, delta))


def _div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    # not (a < 0) == (b < 0): torch.compile has no truth of two truths about symbols
    return -quotient if (a < 0 < b) or (b < 0 < a) else quotient


def _elementwise(function: Callable[[int, int], int]) -> Callable[..., Host]:
    """Return `function` for scalars and vectors, a vector of one being repeated."""

    def operator(a: Host, b: Host, **_: Any) -> Host:
        if isinstance(a, list) or isinstance(b, list):
            left, right = a if isinstance(a, list) else [a], b if isinstance(b, list) else [b]
            length = max(len(left), len(right))
            left, right = left * (length if len(left) == 1 else 1), right * (length if len(right) == 1 else 1)
            return [function(x, y) for x, y in zip(left, right, strict=True)]
        return function(a, b)

    return operator


def not_(x: Host) -> Host:
    """The opposite of each truth value."""
    return [0 if item else 1 for item in x] if isinstance(x, list) else (0 if x else 1)


def where(condition: Host, a: Host, b: Host) -> Host:
    """A where the condition holds, else b."""
    if not isinstance(condition, list) and not isinstance(a, list) and not isinstance(b, list):
        return a if condition else b
    length = max(len(part) for part in (condition, a, b) if isinstance(part, list))
    columns = [
        part * (length if len(part) == 1 else 1) if isinstance(part, list) else [part] * length
        for part in (condition, a, b)
    ]
    return [x if hit else y for hit, x, y in zip(*columns, strict=True)]


def constant_of_shape(target: list[int], *, value: int) -> list[int]:
    """A vector of one number."""
    return [value] * target[0]


def length(x: list[int]) -> list[int]:
    """The shape of a vector."""
    return [len(x)]


def _widest(ranks: Sequence[int | None], _: dict[str, Any]) -> int | None:
    return max((rank for rank in ranks if rank is not None), default=0)


def _fixed(*before: int, after: int) -> RankRule:
    """Return a rule: the first inputs have the ranks `before`, the result has `after`."""

    def rule(ranks: Sequence[int | None], _: dict[str, Any]) -> int | None:
        return after if tuple(ranks[: len(before)]) == before else None

    return rule


def _reduced(ranks: Sequence[int | None], attributes: dict[str, Any]) -> int | None:
    return (1 if attributes.get("keepdims", 1) else 0) if ranks[0] == 1 else None


def _gathered(ranks: Sequence[int | None], _: dict[str, Any]) -> int | None:
    return ranks[1] if ranks[0] == 1 else None


# Operator -> (function of host values, rule for the rank of its result).
OPERATORS: dict[str, tuple[Callable[..., Any], RankRule]] = {
    "Add": (_elementwise(lambda a, b: a + b), _widest),
    "And": (_elementwise(lambda a, b: 1 if a and b else 0), _widest),
    "Concat": (concat, _fixed(1, after=1)),
    "Div": (_elementwise(_div), _widest),
    "Equal": (_elementwise(lambda a, b: 1 if a == b else 0), _widest),
    "Gather": (gather, _gathered),
    "Greater": (_elementwise(lambda a, b: 1 if a > b else 0), _widest),
    "GreaterOrEqual": (_elementwise(lambda a, b: 1 if a >= b else 0), _widest),
    "Identity": (identity, _widest),
    "Less": (_elementwise(lambda a, b: 1 if a < b else 0), _widest),
    "LessOrEqual": (_elementwise(lambda a, b: 1 if a <= b else 0), _widest),
    "Max": (_elementwise(max), _widest),
    "Min": (_elementwise(min), _widest),
    "Mod": (_elementwise(lambda a, b: a % b), _widest),
    "Mul": (_elementwise(lambda a, b: a * b), _widest),
    "Not": (not_, _widest),
    "Or": (_elementwise(lambda a, b: 1 if a or b else 0), _widest),
    "Range": (range_, _fixed(0, 0, 0, after=1)),
    "ReduceProd": (reduce_prod, _reduced),
    "Reshape": (reshape, _widest),
    "Slice": (slice_, _fixed(1, after=1)),
    "Squeeze": (squeeze, _fixed(1, after=0)),
    "Sub": (_elementwise(lambda a, b: a - b), _widest),
    "Unsqueeze": (unsqueeze, _fixed(0, after=1)),
    "Where": (where, _widest),
}

# Those whose results are truth values, and those whose results are elements of an input, with the place of that input.
TRUTHS = frozenset({"And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or"})
MOVES = {
    **dict.fromkeys(("Concat", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"), 0),
    "Where": 1,
}
