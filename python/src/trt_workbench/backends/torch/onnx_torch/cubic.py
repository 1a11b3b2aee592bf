"""Cubic convolution along one dimension (R. Keys, 1981). Formulas: the ONNX operator documentation of Resize."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_TAPS = (-1, 0, 1, 2)


@dataclass(frozen=True)
class Cubic:
    """Interpolation by four neighbours.

    Attributes:
        a: the coefficient of the polynomials.
        exclude_outside: whether neighbours outside count nothing; otherwise the border is repeated.
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
