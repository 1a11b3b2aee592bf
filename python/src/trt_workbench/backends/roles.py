"""What a layer or node is for, by its operator and name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from trt_workbench.backends.profiling import Role
from trt_workbench.engine.layer_precision import move_of

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
_CAST_NAME = re.compile(
    r"(?:.*/)?(?:InsertedPrecisionFree|graph_(?:in|out)put_)?[Cc]ast(?:_\d+|\d+)?|__myl_Cast_myl\S*"
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
    if role := move_of(layer):
        return role
    known = {operators[node] for node in nodes if node in operators}
    if known and known <= _QUANTIZE:
        return "quantize"
    if known == {"Cast"} or (not known and _CAST_NAME.fullmatch(name)):
        return "cast"
    return "other" if known == {"Constant"} else "compute"
