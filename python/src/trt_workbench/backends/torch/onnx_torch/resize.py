"""Resize and Upsample: any number of dimensions, nearest, linear, cubic. Formulas: the ONNX operator documentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trt_workbench.core.errors import Unsupported

_TAPS = (-1, 0, 1, 2)


@dataclass(frozen=True)
class Cubic:
    """Interpolation by four neighbours.

    Attributes:
        a: the coefficient of the polynomials.
        exclude_outside: whether neighbours outside have weight zero; otherwise the border is repeated.
    """

    a: float
    exclude_outside: bool

    @property
    def is_torch_s(self) -> bool:
        """Whether it is what torch's own bicubic interpolation computes."""
        return self.a == -0.75 and not self.exclude_outside

    def resize(self, x: Tensor, axis: int, places: list[float], old: int) -> Tensor:
        """Interpolate along an axis of `old` elements, at places between them."""
        shape = [1] * x.ndim
        shape[axis] = -1
        near = [[math.floor(place) + step for step in _TAPS] for place in places]
        weights = [self._weights(place - four[1], four, old) for place, four in zip(places, near, strict=True)]
        parts = []
        for tap in range(len(_TAPS)):
            inside = [min(max(four[tap], 0), old - 1) for four in near]
            weight = torch.tensor([four[tap] for four in weights], device=x.device).to(x.dtype).reshape(shape)
            parts.append(x.index_select(axis, torch.tensor(inside, device=x.device)) * weight)
        return parts[0] + parts[1] + parts[2] + parts[3]

    def _weights(self, after: float, near: list[int], old: int) -> list[float]:
        """Return the weights of four neighbours, the second of which is `after` before the place."""
        found = [self._far(1 + after), self._close(after), self._close(1 - after), self._far(2 - after)]
        if not self.exclude_outside:
            return found
        kept = [weight if 0 <= index < old else 0.0 for weight, index in zip(found, near, strict=True)]
        return [weight / sum(kept) for weight in kept]

    def _close(self, away: float) -> float:
        return ((self.a + 2) * away - (self.a + 3)) * away * away + 1

    def _far(self, away: float) -> float:
        return ((self.a * away - 5 * self.a) * away + 8 * self.a) * away - 4 * self.a


_ROUNDINGS: dict[str, Callable[[float], float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda place: math.ceil(place - 0.5),
    "round_prefer_ceil": lambda place: math.floor(place + 0.5),
}


def resize(
    x: Tensor,
    roi: Any = None,  # noqa: ARG001 - of tf_crop_and_resize, which is rejected
    scales: Sequence[float] | None = None,
    sizes: Sequence[int] | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    antialias: int = 0,
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    **_: Any,
) -> Tensor:
    """Resize along every dimension whose size or scale differs from 1.

    Raises:
        UsageProblem: antialiased or cropped resizing, which is not supported by the torch backend.
    """
    if (
        mode not in ("nearest", "linear", "cubic")
        or antialias
        or coordinate_transformation_mode == "tf_crop_and_resize"
    ):
        how = f"{mode}, {coordinate_transformation_mode}, antialias={antialias}"
        raise Unsupported(f"Resize with {how} is not supported by the torch backend.")
    if keep_aspect_ratio_policy != "stretch":
        raise Unsupported(
            f"Resize with keep_aspect_ratio_policy {keep_aspect_ratio_policy} is not supported by the torch backend."
        )
    chosen = [axis % x.ndim for axis in axes] if axes is not None else list(range(x.ndim))
    source = [x.shape[axis] for axis in chosen]
    if sizes:
        target = list(sizes)
        factors = [new / old for new, old in zip(target, source, strict=True)]
    else:
        factors = list(scales or [])
        target = [math.floor(old * factor) for old, factor in zip(source, factors, strict=True)]
    changed = [part for part in zip(chosen, source, target, factors, strict=True) if part[1] != part[2] or part[3] != 1]
    cubic = Cubic(cubic_coeff_a, exclude_outside=bool(exclude_outside))
    by_torch = _by_torch(x, changed, mode, coordinate_transformation_mode, nearest_mode, cubic)
    if by_torch is not None:
        return F.interpolate(x, size=(target[-2], target[-1]), **by_torch)
    for axis, old, new, factor in changed:
        places = [_source_place(i, old, new, factor, coordinate_transformation_mode) for i in range(new)]
        if mode == "nearest":
            x = _nearest(x, axis, places, old, nearest_mode)
        else:
            x = _linear(x, axis, places, old) if mode == "linear" else cubic.resize(x, axis, places, old)
    return x


def _by_torch(
    x: Tensor,
    changed: list[tuple[int, int, int, float]],
    mode: str,
    coordinates: str,
    nearest_mode: str,
    cubic: Cubic,
) -> dict[str, Any] | None:
    """Return the arguments with which torch's own interpolation of images does exactly this; None if it does not."""
    if x.ndim != 4 or [axis for axis, *_ in changed] != [2, 3]:
        return None
    if any(new != old * factor for _, old, new, factor in changed):
        return None
    if mode == "nearest":
        whole = all(factor == int(factor) for *_, factor in changed)
        return {"mode": mode} if whole and coordinates == "asymmetric" and nearest_mode == "floor" else None
    if mode == "cubic" and not cubic.is_torch_s:
        return None
    smooth = {"linear": "bilinear", "cubic": "bicubic"}[mode]
    return {"mode": smooth, "align_corners": False} if coordinates == "half_pixel" else None


def _source_place(index: int, old: int, new: int, factor: float, coordinates: str) -> float:
    if coordinates == "align_corners":
        last = factor * old - 1
        return index * (old - 1) / last if last > 0 else 0.0
    if coordinates == "asymmetric":
        return index / factor
    if coordinates == "pytorch_half_pixel" and new == 1:
        return 0.0
    if coordinates == "half_pixel_symmetric":
        adjustment = new / (factor * old)
        return old / 2 * (1 - adjustment) + (index + 0.5) / factor - 0.5
    return (index + 0.5) / factor - 0.5


def _nearest(x: Tensor, axis: int, places: list[float], old: int, nearest_mode: str) -> Tensor:
    rounding = _ROUNDINGS[nearest_mode]
    indices = [min(max(int(rounding(place)), 0), old - 1) for place in places]
    return x.index_select(axis, torch.tensor(indices, device=x.device))


def _linear(x: Tensor, axis: int, places: list[float], old: int) -> Tensor:
    inside = [min(max(place, 0.0), old - 1.0) for place in places]
    low = [min(math.floor(place), max(old - 2, 0)) for place in inside]
    weights = torch.tensor([place - start for place, start in zip(inside, low, strict=True)], device=x.device)
    shape = [1] * x.ndim
    shape[axis] = -1
    weight = weights.to(x.dtype).reshape(shape)
    left = x.index_select(axis, torch.tensor(low, device=x.device))
    right = x.index_select(axis, torch.tensor([min(start + 1, old - 1) for start in low], device=x.device))
    return left * (1 - weight) + right * weight


def upsample(x: Tensor, scales: Sequence[float] | None = None, *, mode: str = "nearest", **attributes: Any) -> Tensor:
    """Upsample of opset 7 to 9."""
    factors = scales if scales is not None else attributes["scales"]
    coordinates = "asymmetric"
    return resize(x, None, factors, mode=mode, coordinate_transformation_mode=coordinates, nearest_mode="floor")


def resize_10(x: Tensor, scales: Sequence[float], *, mode: str = "nearest") -> Tensor:
    """Resize of opset 10."""
    return upsample(x, scales, mode=mode)


OPERATORS: dict[str, Callable[..., Any]] = {"Resize": resize, "Upsample": upsample}
OLDER: dict[str, tuple[int, Callable[..., Any]]] = {"Resize": (11, resize_10)}
HOST_INPUTS = {"Resize": (1, 2, 3), "Upsample": (1,)}
