"""Arrays in a GPU's memory, made by PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray


def uploader(device: int) -> Callable[[NDArray[Any]], Any] | None:
    """Return what copies an array to a CUDA device, as a tensor of PyTorch; None where PyTorch or its CUDA is absent.

    Args:
        device: index of the CUDA device.
    """
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    from trt_workbench.backends.onnx_torch.dtypes import as_torch

    return lambda array: as_torch(array).to(f"cuda:{device}")
