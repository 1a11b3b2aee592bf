"""Finding attention in a graph: MatMul -> [Mul, Div, Add, Where, Cast]* -> Softmax -> [Cast]* -> MatMul."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from trt_workbench.model.proto import Dims, element_types, integer, static_dims
from trt_workbench.model.walking import readers, use_counts
from trt_workbench.model.weights import inferred

_TO_SOFTMAX = frozenset({"Add", "Sub", "Mul", "Div", "Where", "Cast", "Identity", "Clip", "Max", "Min"})
_AFTER_SOFTMAX = frozenset({"Cast", "Identity", "Dropout", "Mul", "Where"})
_LONGEST = 8


@dataclass(frozen=True)
class Attention:
    """One attention, its nodes in the order in which they run.

    Attributes:
        product: queries times keys.
        between: what lies between the product and the Softmax on the way of the scores.
        softmax: over the last dimension.
        after: what lies between the Softmax and the second product.
        mixing: shares times values.
        masked: the last Add of `between` whose other operand is no scalar, None without one.
        scores: its operand that comes from the product; empty without one.
        mask: its other operand; likewise.
    """

    product: onnx.NodeProto
    between: tuple[onnx.NodeProto, ...]
    softmax: onnx.NodeProto
    after: tuple[onnx.NodeProto, ...]
    mixing: onnx.NodeProto
    masked: onnx.NodeProto | None = None
    scores: str = ""
    mask: str = ""

    @property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """All of its nodes in order."""
        return (self.product, *self.between, self.softmax, *self.after, self.mixing)


class AttentionIndex:
    """The attentions of a model's main graph.

    Attributes:
        found: the attentions.
        dims: shape of every tensor of known rank, None for a dynamic dimension.
        types: element type of every tensor of known type.
        producer: tensor to node.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        """Find them; shapes are inferred."""
        graph = model.graph
        typed = inferred(model, data_prop=True).graph
        self.dims: Dims = static_dims(typed)
        self.types = element_types(typed)
        self.producer = {name: node for node in graph.node for name in node.output if name}
        self._uses = use_counts(graph)
        self._readers = readers(graph.node)
        self.found = [one for node in graph.node if node.op_type == "Softmax" for one in self._attention(node)]

    def dim(self, name: str, axis: int) -> int | None:
        """Return a dimension counted from the end (-1 is the last); None if it is dynamic or unknown."""
        dims = self.dims.get(name, [])
        return dims[axis] if len(dims) >= -axis else None

    def rank(self, name: str) -> int | None:
        """Return the number of dimensions; None if it is unknown."""
        return len(self.dims[name]) if name in self.dims else None

    def is_scalar(self, name: str) -> bool:
        """Whether a tensor is known to have one element."""
        dims = self.dims.get(name)
        return dims is not None and all(dim == 1 for dim in dims)

    def is_closed(self, place: Attention) -> bool:
        """Whether only its own nodes read the tensors inside an attention."""
        return all(self._uses[node.output[0]] == 1 for node in place.nodes[:-1])

    def _attention(self, softmax: onnx.NodeProto) -> Iterator[Attention]:
        rank = len(self.dims.get(softmax.input[0], []))
        axis = integer(softmax, "axis", -1)
        before, following = self._before(softmax.input[0], _LONGEST), self._after(softmax.output[0])
        if axis not in (-1, rank - 1) or before is None or not following:
            return
        (product, *between), (*after, mixing) = before, following
        masked, scores, mask = None, "", ""
        way = {product.output[0], *(node.output[0] for node in between)}
        for node in reversed(between):
            if node.op_type == "Add" and not self.is_scalar(other := _other(node, way)):
                masked, mask = node, other
                scores = next(name for name in node.input if name in way)
                break
        yield Attention(product, tuple(between), softmax, tuple(after), mixing, masked, scores, mask)

    def _before(self, name: str, depth: int) -> list[onnx.NodeProto] | None:
        """Return the way from a product to a tensor; None without one."""
        node = self.producer.get(name)
        if node is None or depth == 0:
            return None
        if node.op_type == "MatMul":
            return [node]
        if node.op_type not in _TO_SOFTMAX:
            return None
        ways = (self._before(one, depth - 1) for one in node.input)
        return next(([*way, node] for way in ways if way is not None), None)

    def _after(self, name: str) -> list[onnx.NodeProto]:
        """Return the way from the shares to the product with the values; nothing without one."""
        way: list[onnx.NodeProto] = []
        for _ in range(_LONGEST):
            following = self._readers[name]
            if len(following) != 1:
                return []
            way.append(following[0])
            if following[0].op_type == "MatMul" and following[0].input[0] == name:
                return way
            if following[0].op_type not in _AFTER_SOFTMAX:
                return []
            name = following[0].output[0]
        return []


def _other(node: onnx.NodeProto, way: set[str]) -> str:
    names: list[str] = list(node.input)
    return next((name for name in names if name not in way), names[0])
