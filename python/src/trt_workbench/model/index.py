"""A model's main graph, indexed: who makes and uses each tensor, of what type and shape."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import onnx
from onnx import numpy_helper

from trt_workbench.model.constants import Array, constant_value
from trt_workbench.model.editing import name_nodes
from trt_workbench.model.proto import Shape, is_external, operator_name, value_shape
from trt_workbench.model.tensorrt_operators import OperatorUse, why_not

# Of a constant whose values restrictions ask for.
_MOST_ELEMENTS = 4096


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
        self._initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self._constant_nodes = {node.output[0]: node for node in model.graph.node if node.op_type == "Constant"}
        self.constants = frozenset(self._initializers) | self._constant_nodes.keys()
        self.tensors = _tensor_facts(model)

    def operator(self, place: int) -> str:
        """Return a node's operator, `domain::Name` outside the standard domain."""
        return operator_name(self.nodes[place])

    def facts(self, name: str) -> TensorFacts:
        """Return type and shape of a tensor."""
        return self.tensors.get(name, TensorFacts(None, None))

    def use(self, place: int) -> OperatorUse:
        """Return what an operator's restrictions are checked against."""
        node = self.nodes[place]
        first = self.facts(node.input[0]).shape if node.input else None
        return OperatorUse(
            operator=self.operator(place),
            input_types=tuple(self.facts(name).dtype for name in node.input),
            constant_inputs=tuple(name in self.constants for name in node.input),
            constant_values={
                i: value for i, name in enumerate(node.input) if (value := self._scalar(name)) is not None
            },
            rank=None if first is None else len(first),
            attributes={entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute},
            arrays={i: array for i, name in enumerate(node.input) if (array := self._array(name)) is not None},
            shapes=tuple(self.facts(name).shape for name in node.input),
            outputs=sum(1 for name in node.output if name and (self.users.get(name) or self._is_output(name))),
        )

    def refused(self) -> list[str]:
        """Return the nodes that TensorRT's parser would leave out, as far as is known, each with the reason."""
        reasons = ((place, why_not(self.use(place))) for place in range(len(self.nodes)))
        return [f"{self.operator(place)} {self.nodes[place].name}: {reason}" for place, reason in reasons if reason]

    def _is_output(self, name: str) -> bool:
        return any(value.name == name for value in self.model.graph.output)

    def _scalar(self, name: str) -> float | None:
        value = self._array(name)
        if value is None or value.shape not in ((), (1,)) or value.dtype.kind not in "iuf":
            return None
        return float(value.reshape(-1)[0])

    def _array(self, name: str) -> Array | None:
        if name in self._constant_nodes:
            value = constant_value(self._constant_nodes[name])
            return value if value is not None and value.size <= _MOST_ELEMENTS else None
        tensor = self._initializers.get(name)
        if tensor is None or is_external(tensor) or math.prod(tensor.dims) > _MOST_ELEMENTS:
            return None
        return None if tensor.data_type == onnx.TensorProto.STRING else numpy_helper.to_array(tensor)


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
