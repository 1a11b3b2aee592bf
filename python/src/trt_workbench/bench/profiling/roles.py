"""What a layer or node is for, by its operator and name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from trt_workbench.bench.profiling.records import Role

_QUANTIZE = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
# Nodes that ONNX Runtime adds: layouts of its NCHWc kernels, and copies between host and device.
_NODE_ROLES: Mapping[str, Role] = {
    "Cast": "cast",
    "ReorderInput": "reformat",
    "ReorderOutput": "reformat",
    "MemcpyFromHost": "copy",
    "MemcpyToHost": "copy",
    **dict.fromkeys(_QUANTIZE, "quantize"),
}
_ORIGINS: Mapping[str, Role] = {"REFORMAT": "reformat", "CAST": "cast", "QDQ": "quantize"}
_LAYER_TYPES: Mapping[str, Role] = {
    "cast": "cast",
    "constant": "other",
    "dequantize": "quantize",
    "devicetoshapehost": "copy",
    "noop": "other",
    "quantize": "quantize",
    "reformat": "reformat",
    "shapehosttodevice": "copy",
}
_CAST_NAME = re.compile(
    r"(?:.*/)?(?:InsertedPrecisionFree|graph_(?:in|out)put_)?[Cc]ast(?:_\d+|\d+)?|__myl_Cast_myl\S*"
)
# TensorRT's words for data types, the longer before those that they contain.
_TYPES = (
    ("fp4", r"fp4|e2m1"),
    ("fp8", r"fp8|float8|e4m3"),
    ("bf16", r"bf16|bfloat16"),
    ("fp16", r"fp16|half|float16"),
    ("fp64", r"fp64|float64|double"),
    ("int64", r"\bint64"),
    ("int32", r"\bint32"),
    ("uint8", r"uint8"),
    ("int8", r"int8"),
    ("int4", r"int4"),
    ("bool", r"bool"),
    ("fp32", r"fp32|float"),
)


def node_role(operator: str) -> Role:
    """Return what a node of ONNX Runtime is for."""
    return _NODE_ROLES.get(operator, "compute")


def layer_role(layer: Mapping[str, Any], nodes: Sequence[str], operators: Mapping[str, str]) -> Role:
    """Return what a layer of TensorRT is for.

    Args:
        layer: what the engine inspector tells of it; `Name` at least.
        nodes: names of the ONNX nodes in it.
        operators: operators of the model's nodes by name, where the model is at hand.
    """
    name = str(layer.get("Name", ""))
    if role := _ORIGINS.get(str(layer.get("Origin", "")).upper()):
        return role
    if name.startswith("Reformatting CopyNode"):
        return "reformat"
    if role := _LAYER_TYPES.get(str(layer.get("LayerType", "")).lower()):
        return role
    known = {operators[node] for node in nodes if node in operators}
    if known and known <= _QUANTIZE:
        return "quantize"
    if known == {"Cast"} or (not known and _CAST_NAME.fullmatch(name)):
        return "cast"
    return "other" if known == {"Constant"} else "compute"


def data_type(description: str) -> str | None:
    """Return the precision in a runtime's words for a tensor, such as "Channel major FP16 format"; None if unknown."""
    text = description.lower()
    return next((name for name, pattern in _TYPES if re.search(pattern, text)), None)
