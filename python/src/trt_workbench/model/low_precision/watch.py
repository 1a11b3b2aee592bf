"""The ranges of a model's inner values as one more output, so that what leaves a format's range can be named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from trt_workbench.model.editing import Names, NodeWriter, inlined, replace_nodes
from trt_workbench.model.graph_types import computed_results
from trt_workbench.model.low_precision.simulate import UNROUNDED
from trt_workbench.model.proto import copied, integer, kinds, opset
from trt_workbench.model.walking import all_nodes, reads, subgraphs
from trt_workbench.model.weights import inferred

FLAGS = "trtw__nan_flags"
_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})
_IS_NAN_OPSET = 9


def computed_floats(model: onnx.ModelProto) -> list[str]:
    """Return the floats that the nodes of the main graph compute, as far as their types are known."""
    typed = inferred(model)
    values = (*typed.graph.value_info, *typed.graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return [name for node in model.graph.node for name in node.output if types.get(name) in _FLOATS]


def with_flags(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """Return a copy with the further output FLAGS: for each of these tensors, the number of its elements that are NaN.

    Args:
        model: not changed.
        names: floats of its main graph.

    Returns:
        The copy; without FLAGS if there are no names, or operators are of before opset 9, which has no IsNaN.
    """
    copy = copied(model)
    if not names or opset(model) < _IS_NAN_OPSET:
        return copy
    graph, writer = copy.graph, NodeWriter(Names.of(copy), f"{FLAGS}_of")
    one, parts = writer.constant(np.array([1])), []
    for name in names:
        is_nan = writer.node("IsNaN", writer.node("Cast", name, to=TensorProto.FLOAT))
        count = writer.node("ReduceSum", writer.node("Cast", is_nan, to=TensorProto.FLOAT), keepdims=0)
        parts.append(writer.node("Reshape", count, one))
    writer.node("Concat", *parts, output=FLAGS, axis=0)
    graph.initializer.extend(writer.initializers)
    graph.node.extend(writer.taken())
    graph.output.append(helper.make_tensor_value_info(FLAGS, TensorProto.FLOAT, [len(names)]))
    return copy


def outputs_behind(model: onnx.ModelProto, tensors: set[str]) -> set[str]:
    """Return the outputs of a model that are, or are computed from, one of these tensors."""
    reached = set(tensors)
    for node in model.graph.node:
        if reached & reads(node).keys():
            reached.update(node.output)
    return reached & {value.name for value in model.graph.output}


RANGES = "trtw__ranges"
"""Output [watched, 4]: minus the least and the largest finite value of each tensor, 0 among them; 1 with infinities;
one over the least magnitude above 0, or 0."""
_COLUMNS = 4
_OLDEST = 9  # Where, and comparisons of all floats
_HALVES = (*kinds("fp16"), *kinds("bf16"))
# What a node reads before it is rounded.
Watches = Callable[[onnx.NodeProto], Sequence[str]]


@dataclass(frozen=True)
class Watched:
    """A tensor whose range is watched: its name, and the operator and name of the node that makes it."""

    tensor: str
    node: str


def with_ranges(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[Watched]]:
    """Return a copy of a model with the further output RANGES, and what its rows are about, in the graph's order.

    Of a simulated model, results are watched before they are rounded to a half type; of any other, all results of
    nodes that compute in fp32. Those in the bodies of If, Loop and Scan are among them.

    Args:
        model: with its weights; not changed.

    Returns:
        The copy; without RANGES if nothing can be watched.
    """
    copy = copied(inlined(model))
    if opset(copy) < _OLDEST:
        return copy, []
    nodes = list(all_nodes(copy))
    rounds = any(_rounded(node) for node in nodes)
    computed = {} if rounds else {name for name, kind in computed_results(copy).items() if kind == "fp32"}
    watcher = _Watcher(copy, _rounded if rounds else lambda node: [name for name in node.output if name in computed])
    with watcher.writer.apart():
        found, made = watcher.graph(copy.graph)
        if made:
            copy.graph.node.append(helper.make_node("Identity", [made], [RANGES], name=RANGES))
            copy.graph.output.append(helper.make_tensor_value_info(RANGES, TensorProto.FLOAT, [len(found), _COLUMNS]))
    return copy, found


def _rounded(node: onnx.NodeProto) -> list[str]:
    return list(node.input) if node.op_type == "Cast" and integer(node, "to") in _HALVES else []


class _Watcher:
    def __init__(self, model: onnx.ModelProto, watches: Watches) -> None:
        self.writer = NodeWriter(Names.of(model), "watched")
        self._opset, self._watches = opset(model), watches

    def graph(self, graph: onnx.GraphProto) -> tuple[list[Watched], str]:
        """Watch a graph in place; return what, and the tensor with its ranges, "" for none."""
        found: list[Watched] = []
        parts: list[str] = []
        nodes: list[onnx.NodeProto] = []
        makers = {name: node for node in graph.node for name in node.output}
        for node in list(graph.node):
            inside, part = self._inside(node)
            nodes += [node, *self.writer.taken()]
            if part:
                found, parts = found + inside, [*parts, part]
            for name in self._watches(node):
                maker = makers.get(name, node)
                found.append(Watched(name.removesuffix(UNROUNDED), f"{maker.op_type} {maker.name}".rstrip()))
                parts.append(self._range(name))
                nodes += self.writer.taken()
        made = self.writer.node("Concat", *parts, axis=0) if parts else ""
        nodes += self.writer.taken()
        replace_nodes(graph, nodes)
        graph.initializer.extend(self.writer.initializers)
        self.writer.initializers.clear()
        return found, made

    def _inside(self, node: onnx.NodeProto) -> tuple[list[Watched], str]:
        """Watch the graphs in a node, and return the tensor with their ranges that the node then makes."""
        bodies = list(subgraphs([node]))
        if not bodies or node.op_type not in ("If", "Loop", "Scan"):
            return [], ""
        rows: list[list[Watched]] = []
        for body in bodies:
            with self.writer.apart():
                rows.append(self.graph(body)[0])
        found = [one for several in rows for one in several]
        if not found:
            return [], ""
        for place, body in enumerate(bodies):
            with self.writer.apart():
                self._give_out(body, rows, place)
        made = self.writer.fresh()
        if node.op_type != "If":
            lacking = len(bodies[0].output) - (node.op_type == "Loop") - 1 - len(node.output)
            node.output.extend(self.writer.fresh() for _ in range(lacking))
            for entry in node.attribute:
                if entry.name in ("scan_output_axes", "scan_output_directions"):
                    entry.ints.append(0)
        node.output.append(made)
        return found, made if node.op_type == "If" else self._over_rounds(made, len(found))

    def _give_out(self, body: onnx.GraphProto, rows: Sequence[Sequence[Watched]], place: int) -> None:
        """Let a body return the ranges of all bodies of its node; of the others', zeros."""
        own = body.node[-1].output[0] if rows[place] else ""
        parts = [
            own if index == place else self.writer.constant(np.zeros((len(several), _COLUMNS), np.float32))
            for index, several in enumerate(rows)
            if several
        ]
        made = self.writer.node("Concat", *parts, axis=0)
        body.node.extend(self.writer.taken())
        body.initializer.extend(self.writer.initializers)
        body.output.append(helper.make_tensor_value_info(made, TensorProto.FLOAT, None))

    def _over_rounds(self, name: str, count: int) -> str:
        """Return the ranges over all rounds of a loop, of which there may be none."""
        none = self.writer.constant(np.zeros((1, count, _COLUMNS), np.float32))
        joined = self.writer.node("Concat", none, name, axis=0)
        return self.writer.along("ReduceMax", joined, 0, self._opset, keepdims=0)

    def _range(self, name: str) -> str:
        writer, zero = self.writer, self.writer.constant(np.zeros(1, np.float32))
        flat = writer.node("Reshape", name, writer.constant(np.array([-1], np.int64)))
        values = writer.node("Concat", flat, zero, axis=0)  # of a tensor without values there is no largest one
        sizes = writer.node("Abs", values)
        known = writer.node("Where", writer.node("Less", sizes, writer.constant(np.float32(np.inf))), values, zero)
        infinite = writer.node("Greater", sizes, writer.constant(np.finfo(np.float32).max))
        above = writer.node("Where", writer.node("Greater", sizes, zero), sizes, writer.constant(np.float32(np.inf)))
        flags = writer.node("Cast", infinite, to=TensorProto.FLOAT)
        columns = (writer.node("Neg", known), known, flags, writer.node("Reciprocal", above))
        row = writer.node("Concat", *(writer.node("ReduceMax", one, keepdims=1) for one in columns), axis=0)
        return writer.node("Reshape", row, writer.constant(np.array([1, _COLUMNS], np.int64)))
