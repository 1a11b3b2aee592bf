"""A model's main graph, indexed: who makes and uses each tensor, of what type and shape."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import onnx

from trt_workbench.model.editing import name_nodes
from trt_workbench.model.proto import Shape, operator_name, value_shape


@dataclass(frozen=True)
class TensorFacts:
    """Type and shape of a tensor, as far as shape inference finds them; a dynamic dimension is its symbol or None.

    The type is numpy's name, or "string".
    """

    dtype: str | None
    shape: Shape | None

    @property
    def size_bytes(self) -> int | None:
        """Size in memory; None if a dimension or the type is not known before running."""
        if self.dtype in (None, "string") or self.shape is None or not all(isinstance(dim, int) for dim in self.shape):
            return None
        size = onnx.helper.tensor_dtype_to_np_dtype(
            onnx.TensorProto.DataType.Value(_ONNX_NAMES[str(self.dtype)])
        ).itemsize
        for dim in self.shape:
            size *= int(dim or 0)
        return int(size)


_ONNX_NAMES = {
    str(onnx.helper.tensor_dtype_to_np_dtype(value).name): name
    for name, value in onnx.TensorProto.DataType.items()
    if name not in ("UNDEFINED", "STRING")
}


class GraphIndex:
    """The main graph of a model.

    Attributes:
        nodes: its nodes but Constant, with a name each: `Operator_N` where the file has none.
        producer: tensor to index of the node that makes it.
        users: tensor to indices of the nodes that read it.
        constants: tensors with an initial value.
        renamed: whether the file left nodes without a name or gave one name twice.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        """Index `model`; nodes without a name of their own are named in it."""
        self.model = model
        self.renamed = bool(name_nodes(model.graph.node))
        self.nodes = [node for node in model.graph.node if node.op_type != "Constant"]
        self.producer = {name: place for place, node in enumerate(self.nodes) for name in node.output if name}
        self.users: dict[str, list[int]] = defaultdict(list)
        for place, node in enumerate(self.nodes):
            for name in dict.fromkeys(node.input):
                if name:
                    self.users[name].append(place)
        made = {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
        self.constants = made.union(tensor.name for tensor in model.graph.initializer)
        self.tensors = _tensor_facts(model)

    def operator(self, place: int) -> str:
        """Return a node's operator, `domain::Name` outside the standard domain."""
        return operator_name(self.nodes[place])

    def facts(self, name: str) -> TensorFacts:
        """Return type and shape of a tensor."""
        return self.tensors.get(name, TensorFacts(None, None))


def _tensor_facts(model: onnx.ModelProto) -> dict[str, TensorFacts]:
    graph = model.graph
    found = {
        value.name: TensorFacts(_dtype(value.type.tensor_type.elem_type), value_shape(value))
        for value in (*graph.value_info, *graph.input, *graph.output)
    }
    weights = {tensor.name: TensorFacts(_dtype(tensor.data_type), tuple(tensor.dims)) for tensor in graph.initializer}
    return found | weights


def _dtype(element: int) -> str | None:
    if element == onnx.TensorProto.UNDEFINED:
        return None
    if element == onnx.TensorProto.STRING:
        return "string"
    return str(onnx.helper.tensor_dtype_to_np_dtype(element).name)
