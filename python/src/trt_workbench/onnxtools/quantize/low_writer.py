"""What is put into a graph to make parts of it low: nodes and initialisers with names that it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trt_workbench.onnxtools.sanitize_graph import constants


class LowWriter:
    """Makes nodes and initialisers of a model's main graph; it changes nothing itself.

    Attributes:
        values: of the graph's constants, by name.
        initializers: all that were made.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.values = constants(model.graph)
        self._names = {name for node in model.graph.node for name in (*node.input, *node.output, node.name)}
        self._names |= {tensor.name for tensor in model.graph.initializer}
        self._nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def taken(self) -> Iterator[onnx.NodeProto]:
        """Yield the nodes made since the last call."""
        yield from self._nodes
        self._nodes = []

    def nodes(self, operator: str, inputs: list[str], stem: str, count: int = 1, **attributes: Any) -> list[str]:
        """Make a node, and return its `count` outputs; attributes as of `onnx.helper.make_node`."""
        names = [self._fresh(f"{stem}_{operator}" + (f"_{place}" if place else "")) for place in range(count)]
        self._nodes.append(helper.make_node(operator, inputs, names, name=names[0], **attributes))
        return names

    def node(self, operator: str, inputs: list[str], stem: str, **attributes: Any) -> str:
        """Make a node of one output, and return that."""
        return self.nodes(operator, inputs, stem, **attributes)[0]

    def constant(self, stem: str, values: Any) -> str:
        """Make an initialiser, and return its name."""
        name = self._fresh(stem)
        self.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def _fresh(self, stem: str) -> str:
        name, number = stem, 0
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        self._names.add(name)
        return name
