"""The formats of the table (`core.precision`) as ONNX's element types, those that this release of onnx has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from onnx import TensorProto

from trt_workbench.core.precision import FORMATS, Format, get

_KINDS = TensorProto.DataType

SCALES: Final = tuple(kind for name, kind in _KINDS.items() if name == "FLOAT8E8M0")
"""Powers of two that scale blocks, where onnx has them: no format of values."""


def kinds(name: str) -> tuple[int, ...]:
    """Return the element types of a format; that which is written first."""
    return _known(get(name))


def codes_of(row: Format) -> int:
    """Return the element type of a format's codes; of formats in blocks, that of their elements."""
    return next(_known(one)[0] for one in (row, *FORMATS) if one.onnx and one.numpy == row.numpy)


def format_of(kind: int) -> str | None:
    """Return the format of an element type; None of one that is no format."""
    return next((one.name for one in FORMATS if kind in _known(one)), None)


def kinds_where(wanted: Callable[[Format], object]) -> dict[int, str]:
    """Return the names of formats by element type, for those formats for which `wanted` is true."""
    return {kind: one.name for one in FORMATS if wanted(one) for kind in _known(one)}


def codes() -> dict[int, str]:
    """Return what values with scales are held in: formats of the table, and types that it lacks by ONNX's names."""
    lacking = {kind: name.lower() for name, kind in _KINDS.items() if name.startswith(("FLOAT4", "FLOAT6", "FLOAT8"))}
    lacking = {kind: name for kind, name in lacking.items() if kind not in SCALES}
    return lacking | kinds_where(lambda one: one.is_quantised)


def _known(one: Format) -> tuple[int, ...]:
    return tuple(_KINDS.Value(name) for name in one.onnx if name in _KINDS.keys())  # noqa: SIM118 - no mapping
