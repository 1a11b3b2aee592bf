"""fp64 that becomes fp32 where every value stays the same: TensorRT has no fp64 and would narrow all of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from trt_workbench.core.compare import difference
from trt_workbench.core.precision import get
from trt_workbench.model.constants import Array, constant_value
from trt_workbench.model.proto import STANDARD, element_types, integer, is_external, kinds_where
from trt_workbench.model.reading import all_tensors
from trt_workbench.model.walking import all_graphs, all_nodes, nodes_within, readers, subgraphs
from trt_workbench.model.weights import inferred

# fp32 holds every whole number up to here.
_WHOLE = 2.0**24
# Largest absolute values of whole types.
_LARGEST: dict[int, float] = {
    TensorProto.BOOL: 1.0,
    TensorProto.INT8: 2.0**7,
    TensorProto.UINT8: 2.0**8,
    TensorProto.INT16: 2.0**15,
    TensorProto.UINT16: 2.0**16,
    TensorProto.INT32: 2.0**31,
    TensorProto.UINT32: 2.0**32,
    TensorProto.INT64: 2.0**63,
    TensorProto.UINT64: 2.0**64,
}
_SINGLES = frozenset(kinds_where(lambda one: one is get("fp32") or get("fp32").holds(one)))
# They pass values on: from these inputs (none named: from all). Max, Min and their kind commute with rounding.
_ROWS: tuple[tuple[tuple[int, ...], str], ...] = (
    (
        (0,),
        "Identity Reshape Transpose Squeeze Unsqueeze Flatten Expand Tile Slice Split Gather GatherElements GatherND",
    ),
    ((0,), "Neg Abs Relu ReduceMax ReduceMin MaxPool GlobalMaxPool ReverseSequence DepthToSpace SpaceToDepth Compress"),
    ((1, 2), "Where"),
    ((0, 2), "Pad"),
    ((), "Concat Max Min Clip"),
)
_PASSED = {name: places for places, names in _ROWS for name in names.split()}
_ROUNDS = frozenset({"Floor", "Ceil", "Round"})


@dataclass(frozen=True)
class _Values:
    """What is known of a tensor's values.

    Attributes:
        bound: no absolute value is larger.
        whole: all are whole numbers.
        exact: all are values of fp32.
        rounded: all are, or are the fp64 results of one +, -, *, / or square root of values of fp32. Such a result
            rounded to fp32 is what fp32 itself computes, as 53 digits are more than 2 * 24 + 1 (S. Figueroa, When is
            double rounding innocuous?, 1995).
    """

    bound: float = math.inf
    whole: bool = False
    exact: bool = False
    rounded: bool = False

    @classmethod
    def of_type(cls, kind: int) -> _Values:
        single = kind in _SINGLES
        return cls.of_whole(_LARGEST[kind]) if kind in _LARGEST else cls(exact=single, rounded=single)

    @classmethod
    def of_whole(cls, bound: float) -> _Values:
        return cls(bound, whole=True, exact=bound <= _WHOLE, rounded=bound <= _WHOLE)

    @classmethod
    def of(cls, value: Array) -> _Values:
        numbers = value.astype(np.float64)
        with np.errstate(over="ignore"):
            single = numbers.astype(np.float32).astype(np.float64)
        exact = difference(single, numbers).equal
        finite = bool(np.isfinite(numbers).all())
        bound = float(np.abs(numbers).max(initial=0)) if finite else math.inf
        return cls(bound, finite and bool((numbers == np.trunc(numbers)).all()), exact, exact)

    def __or__(self, other: _Values) -> _Values:
        """Return what holds of the values of both."""
        return _Values(
            max(self.bound, other.bound),
            self.whole and other.whole,
            self.exact and other.exact,
            self.rounded and other.rounded,
        )


def double_to_float(model: onnx.ModelProto) -> list[str]:
    """Compute in fp32 what the graph computes in fp64, where all values stay the same; inputs and outputs stay.

    Tensors that nodes connect change together or not at all.

    Returns:
        What was changed, in words.
    """
    graph = model.graph
    kinds = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    if TensorProto.DOUBLE in kinds or not _says_double(model):
        return []
    found = _Doubles(model)
    narrow = {name for group in found.groups() if all(found.stays_same(name) for name in group) for name in group}
    changed = _to_float(graph, narrow)
    if changed:
        del graph.value_info[:]  # the types there are those of before
    return changed


def _says_double(model: onnx.ModelProto) -> bool:
    """Whether a constant or an attribute is fp64, without which there is nothing to narrow."""
    attributes = [one for node in all_nodes(model) for one in node.attribute]
    return any(one.data_type == TensorProto.DOUBLE for one in all_tensors(model, all_graphs(model))) or any(
        one.name in ("to", "dtype") and one.i == TensorProto.DOUBLE for one in attributes
    )


class _Doubles:
    """The tensors of fp64 of a model, in all its graphs, by name: equal names of two branches are taken as one."""

    def __init__(self, model: onnx.ModelProto) -> None:
        typed = inferred(model)
        self._types: dict[str, int] = {}
        self._values: dict[str, _Values] = {}
        for graph in all_graphs(typed):
            self._types |= element_types(graph)
            for value in graph.input:
                self._join(value.name, _Values.of_type(self._types[value.name]))
        for graph in all_graphs(model):
            for tensor in graph.initializer:
                known = tensor.data_type in (*_LARGEST, *_SINGLES, TensorProto.DOUBLE) and not is_external(tensor)
                value = numpy_helper.to_array(tensor) if known else None
                self._join(tensor.name, _Values.of_type(tensor.data_type) if value is None else _Values.of(value))
        self._nodes = list(nodes_within(typed.graph.node))
        self._visit(typed.graph.node)
        self._readers = readers(self._nodes)

    def groups(self) -> Iterator[set[str]]:
        """Yield the tensors of fp64 that are connected by nodes other than casts, with what may hold fp64 in them.

        Of a sequence, an optional value and what is made of them no value is known, so that such a group stays.
        """
        group: dict[str, set[str]] = {}
        for node in self._nodes:
            inner = [value.name for graph in subgraphs([node]) for value in (*graph.input, *graph.output)]
            linked = [name for name in (*node.input, *node.output, *inner) if name and self._may_be_double(name)]
            merged = set(linked).union(*(group.get(name, set()) for name in linked))
            group.update(dict.fromkeys(merged, merged))
        yield from {id(one): one for one in group.values()}.values()

    def stays_same(self, name: str) -> bool:
        """Whether the results are the same with fp32 in place of a tensor."""
        values, following = self._values.get(name, _Values()), self._readers[name]
        # a function of the model or a custom operator may say fp64 itself
        known = all(node.domain in STANDARD for node in following)
        return known and (values.exact or (values.rounded and all(map(_commutes, following))))

    def _may_be_double(self, name: str) -> bool:
        return self._types.get(name, TensorProto.UNDEFINED) in (TensorProto.DOUBLE, TensorProto.UNDEFINED)

    def _join(self, name: str, values: _Values) -> None:
        self._values[name] = self._values[name] | values if name in self._values else values

    def _visit(self, nodes: Iterable[onnx.NodeProto]) -> None:
        for node in nodes:
            branches = subgraphs([node])
            for graph in branches:
                self._visit(graph.node)
            for place, name in enumerate(node.output):
                known = self._made(node) if not branches else None
                ends = [graph.output[place].name for graph in branches if place < len(graph.output)]
                if node.op_type == "If" and node.domain in STANDARD and len(ends) == 2:
                    known = self._values.get(ends[0], _Values()) | self._values.get(ends[1], _Values())
                self._join(name, self._as_type(known, self._types.get(name, 0)))

    def _as_type(self, known: _Values | None, kind: int) -> _Values:
        """Return what holds of values once they are of a type."""
        of_type = _Values.of_type(kind)
        if known is None or (kind in _SINGLES and (kind != TensorProto.FLOAT or known.bound > _WHOLE)):
            return of_type
        if kind in _LARGEST:
            return _Values.of_whole(min(known.bound, of_type.bound))
        return known if kind == TensorProto.DOUBLE else _Values(known.bound, known.whole, exact=True, rounded=True)

    def _made(self, node: onnx.NodeProto) -> _Values | None:
        """Return what is known of a node's results beyond their types, None for nothing."""
        operator = node.op_type
        if node.domain not in STANDARD:
            return None
        if operator == "Constant":
            value = constant_value(node)
            return None if value is None or value.dtype.kind not in "bifu" else _Values.of(value)
        if operator == "ConstantOfShape":
            given = [numpy_helper.to_array(one.t) for one in node.attribute if one.name == "value"]
            return _Values.of(given[0]) if given else _Values.of_whole(0)
        if operator == "EyeLike":
            return _Values.of_whole(1)
        read = [self._values.get(name, _Values()) for name in node.input]
        if operator in ("Cast", *_PASSED):
            places = _PASSED.get(operator, (0,))
            chosen = [one for place, one in enumerate(read) if node.input[place] and (not places or place in places)]
            return functools.reduce(lambda joined, one: joined | one, chosen)
        if operator in _ROUNDS:
            return _Values(read[0].bound + 1, whole=True, exact=read[0].exact, rounded=read[0].exact)
        if operator in ("Add", "Sub", "Mul") and all(one.whole for one in read):
            first, second = (one.bound for one in read)
            bound = first * second if operator == "Mul" else first + second
            if bound <= _WHOLE:
                return _Values.of_whole(bound)
        if operator in ("Add", "Sub", "Mul", "Div", "Sqrt", "Reciprocal"):
            return _Values(rounded=all(one.exact for one in read))
        return None


def _commutes(node: onnx.NodeProto) -> bool:
    """Whether a node makes the same of a tensor in fp64 and of the same rounded to fp32, up to that rounding."""
    to_float = node.op_type == "Cast" and integer(node, "to") == TensorProto.FLOAT
    return node.domain in STANDARD and (to_float or node.op_type in _PASSED)


def _to_float(graph: onnx.GraphProto, names: set[str]) -> list[str]:
    """Let these tensors of a graph, and of those within it, be fp32."""
    changed = []
    for tensor in graph.initializer:
        if tensor.name in names and tensor.data_type == TensorProto.DOUBLE:
            _narrow(tensor)
            changed.append(f"constant {tensor.name}")
    for node in graph.node:
        for attribute in node.attribute:
            if not names.intersection(node.output):
                continue
            if attribute.name in ("to", "dtype") and attribute.i == TensorProto.DOUBLE:
                attribute.i = TensorProto.FLOAT
            elif attribute.name == "value" and attribute.t.data_type == TensorProto.DOUBLE:
                _narrow(attribute.t)
            else:
                continue
            constant = node.op_type == "Constant"
            changed.append(f"constant {node.output[0]}" if constant else f"{node.op_type} {node.name}")
        for inner in subgraphs([node]):
            changed += _to_float(inner, names)
            for value in (*inner.input, *inner.output):
                if value.name in names and value.type.tensor_type.elem_type == TensorProto.DOUBLE:
                    value.type.tensor_type.elem_type = TensorProto.FLOAT
            del inner.value_info[:]
    return changed


def _narrow(tensor: onnx.TensorProto) -> None:
    with np.errstate(over="ignore"):
        value = np.asarray(numpy_helper.to_array(tensor).astype(np.float32))
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
