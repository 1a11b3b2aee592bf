"""Operators that work on each element by itself. Semantics: the ONNX operator documentation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trt_workbench.backends.torch.onnx_torch.dtypes import rounded_once

Function = Callable[..., Any]


def div(a: Tensor, b: Tensor) -> Tensor:
    """Quotient; of integers rounded towards zero."""
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """Remainder with the sign of the divisor, or of the dividend with fmod."""
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


def power(a: Tensor, b: Tensor) -> Tensor:
    """The first to the power of the second, in the type of the first."""
    return torch.pow(a, b).to(a.dtype)


def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None, **bounds: float) -> Tensor:
    """Limit to [low, high]; before opset 11 the bounds are attributes."""
    low_value = bounds.get("min") if low is None else low
    high_value = bounds.get("max") if high is None else high
    if low_value is not None:
        x = torch.clamp(x, min=low_value)
    return x if high_value is None else torch.clamp(x, max=high_value)


def variadic(function: Function) -> Function:
    """Return the operator of many inputs made of `function` of two."""

    def of_many(*tensors: Tensor) -> Tensor:
        return functools.reduce(function, tensors)

    return of_many


def mean(*tensors: Tensor) -> Tensor:
    """Mean of the inputs, element by element."""
    return functools.reduce(torch.add, tensors) / len(tensors)


def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Whether infinite, of the signs asked for."""
    return (torch.isposinf(x) & bool(detect_positive)) | (torch.isneginf(x) & bool(detect_negative))


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """Leaky ReLU with a slope that broadcasts."""
    return torch.where(x < 0, x * slope, x)


def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit."""
    return F.gelu(x, approximate=approximate)


def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """Clipped line."""
    return torch.clamp(alpha * x + beta, 0, 1)


def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """The value where it is above alpha, else 0."""
    return torch.where(x > alpha, x, torch.zeros_like(x))


def selu(x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Tensor:
    """Scaled exponential linear unit."""
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """A where the condition holds, else b."""
    return torch.where(condition, a, b)


def bit_shift(a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    """Shift bits."""
    return torch.bitwise_left_shift(a, b) if direction == "LEFT" else torch.bitwise_right_shift(a, b)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return torch.logaddexp(x, torch.zeros_like(x))


def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """ReLU with a slope below zero."""
    return F.leaky_relu(x, alpha)


def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Exponential linear unit."""
    return F.elu(x, alpha)


def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Continuously differentiable exponential linear unit."""
    return F.celu(x, alpha)


def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """The value times the sigmoid of alpha times it."""
    return x * torch.sigmoid(alpha * x)


def _names(names: Sequence[str]) -> dict[str, Function]:
    return {name.capitalize(): getattr(torch, name) for name in names}


OPERATORS: dict[str, Function] = {
    **_names(
        ["abs", "neg", "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh"]
    ),
    **_names(["acosh", "atanh", "erf", "sigmoid", "tanh", "relu", "reciprocal", "floor", "ceil", "round", "sign"]),
    "Add": torch.add,
    "And": torch.logical_and,
    "BitShift": bit_shift,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseNot": torch.bitwise_not,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "Celu": celu,
    "Clip": clip,
    "Div": div,
    "Elu": elu,
    "Equal": torch.eq,
    "Gelu": gelu,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": F.hardswish,
    "IsInf": is_inf,
    "IsNaN": torch.isnan,
    "LeakyRelu": leaky_relu,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Max": variadic(torch.maximum),
    "Mean": rounded_once(mean),
    "Min": variadic(torch.minimum),
    "Mish": F.mish,
    "Mod": mod,
    "Mul": torch.mul,
    "Not": torch.logical_not,
    "Or": torch.logical_or,
    "PRelu": prelu,
    "Pow": power,
    "Selu": selu,
    "Softplus": softplus,
    "Softsign": F.softsign,
    "Sub": torch.sub,
    "Sum": rounded_once(variadic(torch.add)),
    "Swish": swish,
    "ThresholdedRelu": thresholded_relu,
    "Where": where,
    "Xor": torch.logical_xor,
}
