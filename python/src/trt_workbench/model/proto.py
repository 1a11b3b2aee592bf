"""The parts of an ONNX file in the terms of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import onnx
from onnx import TensorProto

from trt_workbench.core.precision import FORMATS, Format, get

_KINDS = TensorProto.DataType

SCALES: Final = tuple(kind for name, kind in _KINDS.items() if name == "FLOAT8E8M0")
"""Powers of two that scale blocks, where onnx has them: no format of values."""


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy, the caller's own."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


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


# What the domain of ONNX's own operators is called.
STANDARD = ("", "ai.onnx")
Shape = tuple[int | str | None, ...]


def operator_name(node: onnx.NodeProto) -> str:
    """Return a node's operator, `domain::Name` outside the standard domain."""
    return node.op_type if node.domain in STANDARD else f"{node.domain}::{node.op_type}"


def opset(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's own operators that a model is written in."""
    return max((entry.version for entry in model.opset_import if entry.domain in STANDARD), default=1)


def integer(node: onnx.NodeProto, name: str, default: int = 0) -> int:
    """Return an attribute that is a whole number."""
    return next((int(entry.i) for entry in node.attribute if entry.name == name), default)


def is_external(tensor: onnx.TensorProto) -> bool:
    """Return whether the values of a tensor are not in it."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def value_shape(value: onnx.ValueInfoProto) -> Shape | None:
    """Return the shape of an input, output or inner tensor, a dynamic dimension as its symbol or None.

    None stands for an unknown rank. Some exporters write -1 for a dynamic dimension.
    """
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None
        for dim in kind.shape.dim
    )


def element_types(graph: onnx.GraphProto) -> dict[str, int]:
    """Return the element types of a graph's tensors that are declared, 0 for what is declared without one."""
    values = (*graph.value_info, *graph.input, *graph.output)
    found = {value.name: value.type.tensor_type.elem_type for value in values}
    return found | {tensor.name: tensor.data_type for tensor in graph.initializer}


# Shapes by tensor, None for a dynamic dimension.
Dims = dict[str, list[int | None]]


def static_dims(inferred: onnx.GraphProto) -> Dims:
    """Return the dimensions of every tensor of a graph, shapes inferred, whose rank is known."""
    dims: Dims = {tensor.name: list(tensor.dims) for tensor in inferred.initializer}
    for value in (*inferred.value_info, *inferred.input, *inferred.output):
        shape = value_shape(value)
        if shape is not None:
            dims[value.name] = [dim if isinstance(dim, int) else None for dim in shape]
    return dims
