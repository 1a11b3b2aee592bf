"""Which nodes of a graph compute shapes: they read sizes, lengths and constants alone, never the data."""

from __future__ import annotations

from collections import defaultdict

import onnx

from trt_workbench.model.proto import operator_name, value_shape
from trt_workbench.model.walking import has_subgraph

# What a node is called in a runtime's report: its operator (`domain::Name` outside the standard domain) and its name.
NodeKey = tuple[str, str]
_SOURCES = frozenset({"Shape", "Size", "Constant"})
_INTEGERS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
# Element by element: of a number a row they make a number a row.
_OF_LENGTHS = frozenset({"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Cast", "Identity"})


def shape_nodes(graph: onnx.GraphProto) -> frozenset[NodeKey]:
    """Return the nodes whose values follow from the shapes of tensors, from constants, and from lengths beside these.

    A runtime keeps such nodes on the CPU on purpose: their results are needed there to launch the next kernel. A length
    is an integer input of at most one dimension, as the filled part of a cache; what adds a size to it is placed there
    with the size (ONNX Runtime, framework/fallback_cpu_capability.cc). A node without a name is known by its operator
    alone, and counts only if every such node does.
    """
    constant = {tensor.name for tensor in graph.initializer}
    lengths = {one.name for one in graph.input if _is_length(one)} - constant
    from_shapes: dict[NodeKey, list[bool]] = defaultdict(list)
    for node in graph.node:
        of_length = node.op_type in _OF_LENGTHS and bool(constant.intersection(node.input))
        computes = node.op_type in _SOURCES or (
            bool(node.input)
            and all(not name or name in constant or (of_length and name in lengths) for name in node.input)
        )
        if computes and not has_subgraph(node):
            # a mask that is made of a length is data
            (lengths if lengths.intersection(node.input) else constant).update(node.output)
        from_shapes[operator_name(node), node.name].append(computes and not has_subgraph(node))
    return frozenset(key for key, found in from_shapes.items() if all(found))


def _is_length(value: onnx.ValueInfoProto) -> bool:
    shape = value_shape(value)
    return value.type.tensor_type.elem_type in _INTEGERS and shape is not None and len(shape) <= 1
