"""Sizes that a Reshape takes from its own input become 0, which says the same without a computation.

Exporters write `x.reshape(x.shape[0], …)` as Shape, Gather and Concat, and a compiler has to prove that such a size is
the input's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from trt_workbench.model.constants import Array, constants
from trt_workbench.model.editing import Names, NodeWriter, put_nodes
from trt_workbench.model.proto import Dims, integer, static_dims


@dataclass(frozen=True)
class _Part:
    """One input of the Concat that makes a shape: numbers, or dimensions of a tensor from `first` on."""

    name: str
    numbers: Sequence[int] = ()
    tensor: str = ""
    first: int = 0
    count: int = 0

    @property
    def length(self) -> int:
        return self.count or len(self.numbers)


def copy_sizes(model: onnx.ModelProto) -> list[str]:
    """Write 0 where an element of a Reshape's shape is the size of its input at the same place.

    Returns:
        What was changed, in words.
    """
    graph = model.graph
    known = _Known(
        constants(graph),
        {name: node for node in graph.node for name in node.output},
        static_dims(onnx.shape_inference.infer_shapes(model).graph),
    )
    writer, changed = NodeWriter(Names.of(model)), []
    for node in list(graph.node):
        if node.op_type != "Reshape" or integer(node, "allowzero"):
            continue
        parts = known.parts(node.input[1])
        written = _with_zeros(parts, node.input[0])
        if written == parts:
            continue
        _set_shape(graph, node, written, writer)
        copied = sum(new.length for new, old in zip(written, parts, strict=True) if new != old)
        changed.append(f"Reshape {node.name} copies {copied} of its input's sizes")
    graph.initializer.extend(writer.initializers)
    return changed


@dataclass(frozen=True)
class _Known:
    """What tells of a shape where it comes from."""

    values: Mapping[str, Array]
    made_by: Mapping[str, onnx.NodeProto]
    dims: Dims

    def parts(self, shape: str) -> list[_Part]:
        """Return what a shape is concatenated of; nothing where that is not known."""
        node = self.made_by.get(shape)
        if node is None or node.op_type != "Concat":
            return []
        parts = [part for name in node.input if (part := self._part(name))]
        return parts if len(parts) == len(node.input) else []

    def _part(self, name: str) -> _Part | None:
        if name in self.values:
            return _Part(name, numbers=[int(number) for number in self.values[name].reshape(-1)])
        node = self.made_by.get(name)
        if node is not None and node.op_type == "Unsqueeze":
            node = self.made_by.get(node.input[0])
        if node is None or node.op_type not in ("Gather", "Slice"):
            return None
        source = self.made_by.get(node.input[0])
        chosen = [self.values.get(one) for one in node.input[1:]]
        if source is None or source.op_type != "Shape" or source.attribute:
            return None
        numbers = [int(one.item()) for one in chosen if one is not None and one.size == 1]
        if len(numbers) < len(chosen):
            return None
        first, last = (numbers[0], numbers[0] + 1) if node.op_type == "Gather" else numbers[:2]
        rank = len(self.dims.get(source.input[0], ()))
        if not 0 <= first < last <= rank or (node.op_type == "Slice" and numbers[2:] not in ([], [0], [0, 1])):
            return None
        return _Part(name, tensor=source.input[0], first=first, count=last - first)


def _with_zeros(parts: Sequence[_Part], data: str) -> list[_Part]:
    written, place = [], 0
    for part in parts:
        own = part.tensor == data and part.first == place
        written.append(_Part(part.name, numbers=[0] * part.count) if own else part)
        place += part.length
    return written


def _set_shape(graph: onnx.GraphProto, node: onnx.NodeProto, parts: Sequence[_Part], writer: NodeWriter) -> None:
    """Let the node read the shape: a constant where all of it is known, else a Concat of its own."""

    def constant(numbers: Sequence[int]) -> str:
        return writer.constant(np.array(numbers, np.int64), f"{node.output[0]}_sizes")

    if all(part.numbers for part in parts):
        node.input[1] = constant([number for part in parts for number in part.numbers])
        return
    names = [constant(part.numbers) if part.numbers else part.name for part in parts]
    node.input[1] = writer.node("Concat", *names, stem=f"{node.output[0]}_shape", axis=0)
    put_nodes(graph, next(place for place, one in enumerate(graph.node) if one is node), writer.taken())
