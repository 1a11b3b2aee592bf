"""What the parts of an ONNX file say in the words of this package."""

from __future__ import annotations

import onnx

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
