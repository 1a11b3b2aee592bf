"""LSTM, GRU and RNN as loops of the operators that they are made of, so that the result of each can be rounded.

One node keeps what it adds up from step to step in fp32. Semantics: the ONNX operator documentation; sums and products
are in the order in which PyTorch computes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trt_workbench.model.editing import NodeWriter, replace_nodes
from trt_workbench.model.proto import STANDARD, integer, opset
from trt_workbench.model.walking import all_graphs, all_nodes, subgraphs
from trt_workbench.model.weights import inferred

# By gate: what the input adds to it in a step; weights and bias of the state.
Fed = Mapping[str, str]
Recurrent = Mapping[str, tuple[str, str]]
_ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_GATES = {"LSTM": "iofc", "GRU": "zrh", "RNN": "h"}
_KNOWN = frozenset({"Sigmoid", "Tanh", "Relu"})
_OLDEST = 9  # Scan without a batch
# sequence_lens and peepholes, which no exporter of a model in 16 bits writes.
_REFUSED_INPUTS = (4, 7)
_REFUSED = ("clip", "input_forget", "activation_alpha", "activation_beta", "layout")


def step_by_step(model: onnx.ModelProto, kinds: Collection[int], writer: NodeWriter) -> None:
    """Put loops in place of the recurrent nodes that compute in one of the types `kinds`; those of rare forms stay.

    Args:
        model: changed.
        kinds: element types.
        writer: names what is made.
    """
    if opset(model) < _OLDEST or not any(map(_is_known, all_nodes(model))):
        return
    types = _types(inferred(model).graph)
    for graph in all_graphs(model):
        nodes: list[onnx.NodeProto] = []
        with writer.apart():
            for node in list(graph.node):
                if _is_known(node) and types.get(node.input[0]) in kinds:
                    _Loop(node, types[node.input[0]], writer).write()
                    nodes += writer.taken()
                else:
                    nodes.append(node)
            graph.initializer.extend(writer.initializers)
        replace_nodes(graph, nodes)


def _types(graph: onnx.GraphProto) -> dict[str, int]:
    """Return the element types of a graph's tensors and of those in its nodes' graphs."""
    found = {tensor.name: tensor.data_type for tensor in graph.initializer}
    values = (*graph.value_info, *graph.input, *graph.output)
    found |= {value.name: value.type.tensor_type.elem_type for value in values}
    for inner in subgraphs(graph.node):
        found |= _types(inner)
    return found


def _is_known(node: onnx.NodeProto) -> bool:
    if node.op_type not in _GATES or node.domain not in STANDARD:
        return False
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    named = [one.decode() for one in attributes.get("activations", ())]
    given = any(len(node.input) > place and node.input[place] for place in _REFUSED_INPUTS)
    return _KNOWN.issuperset(named) and not given and not any(attributes.get(name) for name in _REFUSED)


class _Loop:
    """One recurrent node in type `kind`."""

    def __init__(self, node: onnx.NodeProto, kind: int, writer: NodeWriter) -> None:
        self._node, self._kind, self._writer = node, kind, writer
        attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        self._size = integer(node, "hidden_size")
        direction = attributes.get("direction", b"forward").decode()
        self._reversed = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}[direction]
        usual = _ACTIVATIONS[node.op_type] * len(self._reversed)
        self._activations = [one.decode() for one in attributes.get("activations", ())] or list(usual)
        self._after_product = bool(integer(node, "linear_before_reset"))

    def write(self) -> None:
        """Write the nodes that make the outputs of the node."""
        found = [self._direction(place) for place in range(len(self._reversed))]
        shapes = ([0, 1, -1, self._size], [1, -1, self._size], [1, -1, self._size])
        for output, parts, shape in zip(self._node.output, zip(*found, strict=True), shapes, strict=False):
            if output:
                axis = 1 if len(shape) == 4 else 0
                rows = [self._make("Reshape", part, self._constant(shape)) for part in parts]
                self._make("Concat", *rows, output=output, axis=axis)

    def _direction(self, place: int) -> tuple[str, ...]:
        """Return all states, the last one, and of an LSTM its cell, [T,N,H] or [N,H]."""
        node, gates = self._node, _GATES[self._node.op_type]
        weights, state, bias = (self._of(node.input[1], place), self._of(node.input[2], place), self._input(3))
        bias = bias and self._of(bias, place)
        fed, recurrent = [], {}
        for number, gate in enumerate(gates):
            own = self._bias(bias, number)
            fed.append(self._fed(self._rows(weights, number), own))
            recurrent[gate] = self._rows(state, number), self._bias(bias, len(gates) + number)
        states = [self._initial(5, place)] + ([self._initial(6, place)] if node.op_type == "LSTM" else [])
        body = self._body(recurrent, place, len(states))
        last = [self._writer.fresh() for _ in states]
        every = self._writer.fresh()
        way = self._reversed[place]
        self._writer.nodes.append(
            helper.make_node(
                "Scan", [*states, *fed], [*last, every], name=f"{node.name or node.output[0]}_steps_{place}", body=body,
                num_scan_inputs=len(fed), scan_input_directions=[way] * len(fed), scan_output_directions=[way],
            )
        )  # fmt: skip
        return every, *last

    def _body(self, recurrent: Recurrent, place: int, states: int) -> onnx.GraphProto:
        with self._writer.apart():
            carried = [self._writer.fresh() for _ in range(states)]
            parts = {gate: self._writer.fresh() for gate in recurrent}
            acts = self._activations[len(_ACTIVATIONS[self._node.op_type]) * place :]
            step = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self._node.op_type]
            made = step(carried, parts, recurrent, acts)
            every = self._make("Identity", made[0])
            return helper.make_graph(
                self._writer.taken(), f"{self._node.name or self._node.output[0]}_step",
                [self._value(name) for name in (*carried, *parts.values())],
                [self._value(name) for name in (*made, every)],
                list(self._writer.initializers),
            )  # fmt: skip

    def _lstm(self, carried: Sequence[str], fed: Fed, recurrent: Recurrent, acts: Sequence[str]) -> list[str]:
        hidden, cell = carried
        sums = {gate: self._make("Add", fed[gate], self._product(hidden, *recurrent[gate])) for gate in "iofc"}
        enter, leave, keep = (self._make(acts[0], sums[gate]) for gate in "iof")
        kept = self._make("Mul", keep, cell)
        new = self._make("Add", kept, self._make("Mul", enter, self._make(acts[1], sums["c"])))
        return [self._make("Mul", leave, self._make(acts[2], new)), new]

    def _gru(self, carried: Sequence[str], fed: Fed, recurrent: Recurrent, acts: Sequence[str]) -> list[str]:
        hidden = carried[0]
        update, reset = (
            self._make(acts[0], self._make("Add", fed[gate], self._product(hidden, *recurrent[gate]))) for gate in "zr"
        )
        if self._after_product:
            given = self._make("Mul", reset, self._product(hidden, *recurrent["h"]))
        else:
            given = self._product(self._make("Mul", reset, hidden), *recurrent["h"])
        new = self._make(acts[1], self._make("Add", fed["h"], given))
        return [self._make("Add", self._make("Mul", self._make("Sub", hidden, new), update), new)]

    def _rnn(self, carried: Sequence[str], fed: Fed, recurrent: Recurrent, acts: Sequence[str]) -> list[str]:
        return [self._make(acts[0], self._make("Add", fed["h"], self._product(carried[0], *recurrent["h"])))]

    def _fed(self, weights: str, bias: str) -> str:
        """Return what the input adds to a gate in every step, [T,N,H]."""
        source = self._node.input[0]
        width = self._make("Shape", weights)
        flat = self._make("Reshape", source, self._make("Concat", self._constant([-1]), self._last(width), axis=0))
        shape = self._make("Concat", self._first_two(), self._constant([self._size]), axis=0)
        return self._make("Reshape", self._product(flat, weights, bias), shape)

    def _product(self, rows: str, weights: str, bias: str) -> str:
        """Return rows [N,I] times weights [H,I], plus the bias: rounded once."""
        return self._make("Gemm", rows, weights, *([bias] if bias else []), transB=1)

    def _initial(self, place: int, direction: int) -> str:
        if given := self._input(place):
            return self._of(given, direction)
        batch = self._make("Gather", self._make("Shape", self._node.input[0]), self._constant([1]))
        shape = self._make("Concat", batch, self._constant([self._size]), axis=0)
        zero = helper.make_tensor("zero", self._kind, [1], [0.0])
        return self._make("ConstantOfShape", shape, value=zero)

    def _first_two(self) -> str:
        return self._make("Gather", self._make("Shape", self._node.input[0]), self._constant([0, 1]))

    def _last(self, shape: str) -> str:
        return self._make("Gather", shape, self._constant([1]))

    def _input(self, place: int) -> str:
        return self._node.input[place] if len(self._node.input) > place else ""

    def _of(self, name: str, direction: int) -> str:
        return self._make("Gather", name, self._writer.constant(np.array(direction, np.int64)), axis=0)

    def _rows(self, name: str, gate: int) -> str:
        return self._make("Gather", name, self._constant(range(gate * self._size, (gate + 1) * self._size)), axis=0)

    def _bias(self, name: str, gate: int) -> str:
        return name and self._rows(name, gate)

    def _constant(self, values: Sequence[int] | range) -> str:
        return self._writer.constant(np.array(list(values), np.int64))

    def _value(self, name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, self._kind, [None, self._size])

    def _make(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        return self._writer.node(operator, *inputs, output=output, **attributes)
