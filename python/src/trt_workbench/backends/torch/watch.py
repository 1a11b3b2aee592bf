"""What PyTorch multiplies in: the types of the tensors that its products get, counted while a model runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from trt_workbench.core.precision import FORMATS

# Operators of ATen that multiply and add, below torch.nn and torch.matmul.
_ARITHMETIC = re.compile(r"^(add|b|badd|addb)?mm$|matmul|conv|dot_product|lstm|gru|rnn|linear|^(add)?mv$|^dot$")
_NAMES = {one.torch: one.name for one in FORMATS if one.torch} | {"float64": "fp64"}


@contextmanager
def watched(counts: Counter[str]) -> Iterator[None]:
    """Count the products that are computed meanwhile in this thread, by the type of their first floats."""
    with _Watching(counts):
        yield


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _ARITHMETIC.search(func.overloadpacket.__name__):
            tensors = (one for one in _pytree.tree_leaves(args) if isinstance(one, torch.Tensor))
            kind = next((one.dtype for one in tensors if one.dtype.is_floating_point), None)
            if kind is not None:
                name = str(kind).removeprefix("torch.")
                self._counts[_NAMES.get(name, name)] += 1
        return func(*args, **(kwargs or {}))
