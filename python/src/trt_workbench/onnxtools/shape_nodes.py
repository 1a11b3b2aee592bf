"""Which nodes of a graph compute shapes: they read sizes and constants alone, never the data."""

from __future__ import annotations

from collections import defaultdict

import onnx

from trt_workbench.onnxtools.proto import has_subgraph, operator_name

# What a node is called in a runtime's report: its operator (`domain::Name` outside the standard domain) and its name.
NodeKey = tuple[str, str]
_SOURCES = frozenset({"Shape", "Size", "Constant"})


def shape_nodes(graph: onnx.GraphProto) -> frozenset[NodeKey]:
    """Return the nodes whose values follow from the shapes of tensors and from constants.

    A runtime keeps such nodes on the CPU on purpose: their results are needed there to launch the next kernel. A node
    without a name is known by its operator alone, and counts only if every such node does.
    """
    constant = {tensor.name for tensor in graph.initializer}
    from_shapes: dict[NodeKey, list[bool]] = defaultdict(list)
    for node in graph.node:
        computes = node.op_type in _SOURCES or (
            bool(node.input) and all(not name or name in constant for name in node.input)
        )
        if computes and not has_subgraph(node):
            constant.update(node.output)
        from_shapes[operator_name(node), node.name].append(computes and not has_subgraph(node))
    return frozenset(key for key, found in from_shapes.items() if all(found))
