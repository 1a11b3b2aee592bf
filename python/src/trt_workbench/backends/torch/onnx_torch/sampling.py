"""GridSample: values at places between the elements. Semantics: the ONNX operator documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trt_workbench.core.errors import Unsupported

# By rank of the input: the modes of both names, of opset 16 and of opset 20.
_MODES = {
    4: {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest", "bicubic": "bicubic", "cubic": "bicubic"},
    5: {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest"},
}
_PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    x: Tensor, grid: Tensor, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Tensor:
    """Sample images, or volumes, at the places of a grid.

    Args:
        x: [N,C,H,W] or [N,C,D,H,W].
        grid: [N,h,w,2] or [N,d,h,w,3]: places from -1 to 1, the last dimension of x first.
        mode: of interpolation.
        padding_mode: what lies outside.
        align_corners: whether -1 and 1 are the centres of the outermost elements, or their edges.

    Raises:
        UsageProblem: a rank or mode that torch does not sample in.
    """
    chosen = _MODES.get(x.ndim, {}).get(mode)
    if chosen is None or padding_mode not in _PADDINGS or not x.is_floating_point():
        how = f"mode {mode}, padding_mode {padding_mode}, {x.ndim} dimensions of {str(x.dtype).removeprefix('torch.')}"
        raise Unsupported(f"GridSample with {how} is not supported by the torch backend.")
    # places of a half type are not exact to a pixel; torch has no kernel for it on every device either
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    corners = bool(align_corners)
    sampled = F.grid_sample(x.to(wide), grid.to(wide), mode=chosen, padding_mode=padding_mode, align_corners=corners)
    return sampled.to(x.dtype)


OPERATORS: dict[str, Callable[..., Any]] = {"GridSample": grid_sample}
