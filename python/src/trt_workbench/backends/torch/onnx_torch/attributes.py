"""What a file says of its nodes: attributes, constants, and operators that have no counterpart."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from trt_workbench.core.errors import Unsupported
from trt_workbench.model.proto import operator_name

# What an attribute of a name, of all operators or of one, may say (onnx.ai/onnx/operators); what is implemented for
# fewer of these words says so itself.
_WORDS = {
    "auto_pad": ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""),
    "direction": ("forward", "reverse", "bidirectional"),
    "BitShift.direction": ("LEFT", "RIGHT"),
    "coordinate_transformation_mode": (
        *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "output_half_pixel"),
        *("align_corners", "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"),
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "reduction": ("none", "add", "mul", "min", "max"),
    "Gelu.approximate": ("none", "tanh"),
    "DepthToSpace.mode": ("DCR", "CRD"),
    "SpaceToDepth.mode": ("DCR", "CRD"),
    "Pad.mode": ("constant", "reflect", "edge", "wrap"),
}


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Return the value of an attribute: text, an array, a list, a number or a graph."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [one.decode() for one in value]
    return list(value) if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS) else value


def refuse_odd(node: onnx.NodeProto, opset: int) -> None:
    """Refuse attributes, and words in them, that the operator does not have.

    torch.fx writes the names into source that it runs; a word that is not known would be taken for another one.
    """
    known = onnx.defs.get_schema(node.op_type, opset, "").attributes if onnx.defs.has(node.op_type, opset, "") else {}
    for one in node.attribute:
        if one.name not in known or known[one.name].type.value != one.type:  # type: ignore[attr-defined]
            raise Unsupported(f"{node.op_type} (node {node.name}) has no attribute {one.name!r} of its type.")
        words = _WORDS.get(f"{node.op_type}.{one.name}", _WORDS.get(one.name))
        if words and (said := attribute_value(one)) not in words:
            others = ", ".join(filter(None, words))
            raise Unsupported(f"{node.op_type} (node {node.name}) has no {one.name} {said!r}, only {others}.")


def constant_value(attributes: dict[str, Any]) -> Any:
    """Return what a Constant node with these attributes holds."""
    ((kind, value),) = attributes.items()
    types = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    return np.array(value, types[kind]) if kind in types else value


def refuse_unknown(nodes: Iterable[onnx.NodeProto], known: Collection[str]) -> None:
    """Raise UsageProblem that names every unknown operator, with a node of it."""
    unknown: dict[str, str] = {}
    for node in nodes:
        name = operator_name(node)
        if name not in known:
            unknown.setdefault(name, node.name or "(no name)")
    if unknown:
        named = ", ".join(f"{operator} (node {node})" for operator, node in sorted(unknown.items()))
        raise Unsupported(f"The torch backend does not support {named}.")
