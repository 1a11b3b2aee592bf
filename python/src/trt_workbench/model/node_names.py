"""A model's nodes by the names under which runtimes know them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx

from trt_workbench.model.opened import Model, once
from trt_workbench.model.walking import subgraphs


@dataclass(frozen=True)
class ModelNodes:
    """Names of a model's nodes; empty for a model that is not available.

    Attributes:
        operators: operator by node name, nodes of subgraphs included. A node without a name is listed as ONNX Runtime
            calls it (`Operator_INDEX`) and as TensorRT's parser does (`node_of_OUTPUT`).
        producers: name of the node that makes a tensor, by the tensor's name.
        sources: name of the node that makes a node's first input, by the node's name.
    """

    operators: Mapping[str, str] = field(default_factory=dict)
    producers: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


@once
def read_nodes(model: Model) -> ModelNodes:
    """Return the names of a model's nodes."""
    named = list(_named(model.proto.graph))
    producers = {tensor: name for name, node in named for tensor in node.output if tensor}
    operators = {name: node.op_type for name, node in named}
    operators |= {f"node_of_{node.output[0]}": node.op_type for _, node in named if not node.name and node.output}
    sources = {name: producers[node.input[0]] for name, node in named if node.input and node.input[0] in producers}
    return ModelNodes(operators, producers, sources)


def _named(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    for place, node in enumerate(graph.node):
        yield node.name or f"{node.op_type}_{place}", node
        for inner in subgraphs([node]):
            yield from _named(inner)
