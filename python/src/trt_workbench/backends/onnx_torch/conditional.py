"""If: one of two modules runs. What both read of the graph around them is handed to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from torch import nn

from trt_workbench.model.proto import subgraphs

BRANCHES = ("then_branch", "else_branch")


class Conditional(nn.Module):
    """Two branches, called with a condition on the host and with what they read."""

    def __init__(self, then: nn.Module, other: nn.Module) -> None:
        """Take the branches, each of which returns a tuple."""
        super().__init__()
        self.then, self.other = then, other

    def forward(self, condition: Any, *captured: Any) -> Any:
        """Run one of them."""
        holds = condition[0] if isinstance(condition, list) else condition
        return self.then(*captured) if holds else self.other(*captured)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph and of the branches within it."""
    for node in graph.node:
        yield node
        for inner in subgraphs([node]):
            yield from all_nodes(inner)


def captured(graph: onnx.GraphProto) -> list[str]:
    """Return the tensors that a branch reads and does not make, in the order of reading."""
    own = {tensor.name for tensor in graph.initializer} | {name for node in graph.node for name in node.output}
    read = [
        name
        for node in graph.node
        for name in (*node.input, *(found for inner in subgraphs([node]) for found in captured(inner)))
    ]
    read += [value.name for value in graph.output]
    return [name for name in dict.fromkeys(read) if name and name not in own]
