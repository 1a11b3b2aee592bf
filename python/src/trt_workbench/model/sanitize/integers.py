"""Rewrites of 64-bit integers, which TensorRT before 10 does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from trt_workbench.model.constants import constants
from trt_workbench.model.editing import Names, set_constant
from trt_workbench.model.proto import element_types
from trt_workbench.model.weights import inferred

INT32 = np.iinfo(np.int32)
# Inputs that ONNX lets be int32 as well as int64, by operator.
_INDEX_INPUTS = {"Gather": (1,), "GatherElements": (1,), "ScatterElements": (1,), "Slice": (1, 2, 3, 4)}


def outside_int32(value: Any) -> bool:
    """Whether any of the values does not fit into int32."""
    return bool(np.any(value > INT32.max) or np.any(value < INT32.min))


def clamp_int64(model: onnx.ModelProto) -> list[str]:
    """Bring "to the end" sentinels of Slice into the range of int32, to which TensorRT before 10 clamps with a warning.

    No dimension reaches 2^31, so the slice is the same.
    """
    graph, names = model.graph, Names.of(model)
    values = constants(graph)
    changed = []
    for node in graph.node:
        for place in (1, 2):
            name = node.input[place] if node.op_type == "Slice" and len(node.input) > place else ""
            value = values.get(name)
            if value is None or value.dtype != np.int64 or not outside_int32(value):
                continue
            clamped = names.fresh(f"{name}_int32_range")
            set_constant(graph, clamped, np.clip(value, INT32.min, INT32.max))
            node.input[place] = clamped
            changed.append(f"{name} of Slice {node.name}: {value.tolist()}")
    return changed


def int32_indices(model: onnx.ModelProto) -> list[str]:
    """Make indices int32 where the operator takes both: constants in range, and casts from int32 to int64."""
    graph, names = model.graph, Names.of(model)
    values = constants(graph)
    types = element_types(inferred(model).graph)
    widened = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Cast"
        and types.get(node.input[0]) == TensorProto.INT32
        and any(attribute.name == "to" and attribute.i == TensorProto.INT64 for attribute in node.attribute)
    }
    changed = []
    for node in graph.node:
        places = [
            place
            for place in _INDEX_INPUTS.get(node.op_type, ())
            if (place < len(node.input) and bool(node.input[place]))
        ]
        read = [node.input[place] for place in places]
        # the indices of a Slice share one type: all of them or none
        if not read or not all(
            name in widened
            or ((one := values.get(name)) is not None and one.dtype == np.int64 and not outside_int32(one))
            for name in read
        ):
            continue
        for place, name in zip(places, read, strict=True):
            if name not in widened:
                widened[name] = names.fresh(f"{name}_int32")
                set_constant(graph, widened[name], values[name].astype(np.int32))
            node.input[place] = widened[name]
        changed.append(f"{node.op_type} {node.name}".strip())
    return changed
