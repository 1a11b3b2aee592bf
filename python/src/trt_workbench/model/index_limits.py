"""Which inputs of a model index its tables, and how long those are: a token of a small vocabulary, a speaker."""

from __future__ import annotations

from collections import defaultdict

import onnx
from onnx import TensorProto

from trt_workbench.model.proto import STANDARD

_WHOLE = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32})
_WHOLE |= {TensorProto.UINT32, TensorProto.INT64, TensorProto.UINT64}
# The values stay what they are, whatever becomes of their shape or type.
_PASSING = frozenset(
    {
        "Cast",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)


def index_limits(graph: onnx.GraphProto) -> dict[str, int]:
    """Return by input of whole numbers the length of the shortest table that its values index, from 0.

    Gather's indices are followed from the inputs through what only moves them; a table is a constant, or has a known
    length. What is computed first (an offset is added, say) is not followed.
    """
    inputs = [value for value in graph.input if value.type.tensor_type.elem_type in _WHOLE]
    if not inputs:
        return {}
    lengths = _lengths(graph)
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in (node for node in graph.node if node.domain in STANDARD):
        for name in set(node.input):
            readers[name].append(node)
    found = {}
    for value in inputs:
        limits, waiting, seen = list[int](), [value.name], {value.name}
        while waiting:
            name = waiting.pop()
            for node in readers[name]:
                if node.op_type == "Gather" and name in node.input[1:2]:
                    axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 0)
                    shape = lengths.get(node.input[0], ())
                    if -len(shape) <= axis < len(shape) and shape[axis] > 0:
                        limits.append(shape[axis])
                if node.op_type in _PASSING and node.input[0] == name:
                    waiting += set(node.output) - seen
                    seen.update(node.output)
        if limits:
            found[value.name] = min(limits)
    return found


def _lengths(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Return the shapes of constants and of what is declared; 0 for a dimension that is not known."""
    shapes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.value_info, *graph.input)
    }
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            shapes.update(dict.fromkeys(node.output, tuple(node.attribute[0].t.dims)))
    return shapes
