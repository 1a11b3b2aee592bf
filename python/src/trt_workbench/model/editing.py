"""Editing a graph: names that are free, nodes and constants put in, readers rewired, and what nobody reads removed."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx.parser
from onnx import helper, numpy_helper

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.constants import Array
from trt_workbench.model.walking import all_graphs, all_nodes, defined, nodes_within, reads, subgraphs, use_counts

# Where axes are an input, from which operator set on; an attribute before.
_AXES_ARE_INPUTS = {"ReduceMax": 18, "ReduceSum": 13, "Squeeze": 13, "Unsqueeze": 13}


class Names:
    """The names of a model's tensors and nodes, in all of its graphs, and further ones that it does not have."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """Begin with these; a name may be there several times, as in both branches of an If."""
        self._taken = Counter(taken)
        self._next: dict[str, int] = {}

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Names:
        """Return all that are in a model, read ones that nothing defines included."""
        names = cls(name for graph in all_graphs(model) for name in defined(graph))
        names._taken.update(value.name for graph in all_graphs(model) for value in graph.output)
        for node in all_nodes(model):
            names._taken.update((*node.input, *node.output, node.name))
        return names

    def fresh(self, stem: str) -> str:
        """Return `stem`, or where that is taken, with the first number behind it that is not; it is taken then."""
        name = stem
        while self._taken[name] > 0:
            self._next[stem] = self._next.get(stem, 0) + 1
            name = f"{stem}_{self._next[stem]}"
        self._taken[name] += 1
        return name

    def drop(self, names: Iterable[str]) -> None:
        """Let go of names, once each: what had them is gone."""
        self._taken.subtract(names)
        self._next.clear()


class NodeWriter:
    """Makes nodes and constants with names of their own; they are put into a graph by whoever takes them.

    Attributes:
        names: of the model.
        nodes: made since they were taken last, in order; nodes of the graph may be put between them.
        initializers: constants that the nodes read.
    """

    def __init__(self, names: Names, stem: str = "made") -> None:
        """Take the names of the model; `stem` is of what gets no stem of its own."""
        self.names, self._stem = names, stem
        self._constants: dict[tuple[bytes, str, tuple[int, ...]], str] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def node(self, operator: str, *inputs: str, output: str = "", stem: str = "", **attributes: Any) -> str:
        """Add a node with one output and return that.

        Args:
            operator: its type.
            inputs: tensors that it reads.
            output: name of its output where it must have one; else that is a new one.
            stem: of the new name.
            attributes: as of `onnx.helper.make_node`.
        """
        made = output or self.fresh(stem)
        name = made if not output else self.names.fresh(f"{made}_{operator}")
        self.nodes.append(helper.make_node(operator, list(inputs), [made], name=name, **attributes))
        return made

    def along(self, operator: str, x: str, axis: int, version: int, **options: Any) -> str:
        """Add a node that takes axes, in the form of a version of ONNX's operators; see `node`."""
        if version >= _AXES_ARE_INPUTS[operator]:
            return self.node(operator, x, self.constant(np.array([axis], np.int64)), **options)
        return self.node(operator, x, axes=[axis], **options)

    def fresh(self, stem: str = "") -> str:
        """Return a name that nothing has."""
        return self.names.fresh(stem or self._stem)

    def outputs(self, operator: str, inputs: Iterable[str], stems: Iterable[str], **attributes: Any) -> list[str]:
        """Add a node with an output for each of these stems, and return the outputs."""
        made = [self.names.fresh(stem) for stem in stems]
        self.nodes.append(helper.make_node(operator, list(inputs), made, name=made[0], **attributes))
        return made

    def formula(self, text: str, stem: str = "", **names: str) -> str:
        """Add the nodes of a formula in ONNX's text format, such as "half = Mul(x, two) y = Floor(half)".

        Args:
            text: the statements; what they make has new names, but for `names`.
            stem: of the new names.
            names: tensors by what the text calls them: those that it reads, and those it makes that must have a name.

        Returns:
            What the text calls y; "" where it calls nothing so.
        """
        graph = onnx.parser.parse_graph(f"formula () => () {{ {text} }}")
        every = [*nodes_within(graph.node)]
        inner = subgraphs(every)
        # in the bodies, too: ONNX forbids a name that the graph around has
        made = [name for node in every for name in node.output] + [value.name for one in inner for value in one.input]
        known = {name: self.fresh(stem) for name in dict.fromkeys(made) if name not in names} | names
        for node in every:
            node.input[:] = [known.get(name, name) for name in node.input]
            node.output[:] = [known[name] for name in node.output]
            node.name = self.names.fresh(f"{node.output[0]}_{node.op_type}")
        for value in (value for one in inner for value in (*one.input, *one.output)):
            value.name = known[value.name]
        self.nodes += graph.node
        return known.get("y", "")

    def constant(self, value: Any, stem: str = "") -> str:
        """Return the name of a constant; without a stem it is the same for the same value."""
        array = np.asarray(value)
        key = (array.tobytes(), array.dtype.str, array.shape)
        if not stem and key in self._constants:
            return self._constants[key]
        name = self.fresh(stem)
        self.initializers.append(numpy_helper.from_array(array, name))
        if not stem:
            self._constants[key] = name
        return name

    def taken(self) -> list[onnx.NodeProto]:
        """Return the nodes made since the last call."""
        nodes, self.nodes = self.nodes, []
        return nodes

    def fill(self, graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto] | None = None) -> None:
        """Let a graph have what was made: these nodes, by default those since the last call, and the constants."""
        replace_nodes(graph, self.taken() if nodes is None else nodes)
        graph.initializer.extend(self.initializers)
        self.initializers.clear()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Give what is made within to a graph of its own; what was made around it is kept for that."""
        outer = self._constants, self.initializers, self.nodes
        self._constants, self.initializers, self.nodes = {}, [], []
        try:
            yield
        finally:
            self._constants, self.initializers, self.nodes = outer


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its own functions written out; the model itself where it has none."""
    return onnx.inliner.inline_local_functions(model) if model.functions else model


def in_order(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """Let every node stand after those whose outputs it reads, and else where it is.

    ONNX demands that order, ONNX Runtime does not, and its own converter to fp16 puts the casts of inputs last.

    Returns:
        What stood before a node that it reads, and that node: the first output of each, or its operator without one.

    Raises:
        UsageProblem: nodes read one another's outputs in a circle.
    """
    late = []
    for graph in chain(all_graphs(model), model.functions):  # not a list: sorting a graph copies those in it
        makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
        read = [[makers[name] for name in reads(node) if name in makers] for node in graph.node]
        names = [next(filter(None, node.output), node.op_type) for node in graph.node]
        late += [(names[place], names[max(of)]) for place, of in enumerate(read) if max(of, default=-1) > place]
        sorter = TopologicalSorter(dict(enumerate(read)))
        try:
            sorter.prepare()
        except CycleError as error:
            circle = ", ".join(names[place] for place in error.args[1][1:])
            raise UsageProblem(f"The nodes of the model form a cycle: {circle}; export it again.") from error
        ready, order = list[int](), list[int]()
        while sorter.is_active():
            for place in sorter.get_ready():
                heapq.heappush(ready, place)
            order.append(heapq.heappop(ready))
            sorter.done(order[-1])
        if order != list(range(len(order))):
            replace_nodes(graph, [graph.node[place] for place in order])
    return late


def replace_nodes(graph: onnx.GraphProto | onnx.FunctionProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Let these be the nodes of a graph; some of them may be its own."""
    kept = list(nodes)
    del graph.node[:]
    graph.node.extend(kept)


def put_nodes(graph: onnx.GraphProto, at: int, nodes: Iterable[onnx.NodeProto]) -> None:
    """Put nodes into a graph before the one at a place."""
    for place, node in enumerate(nodes, at):
        graph.node.insert(place, node)


def name_nodes(nodes: Iterable[onnx.NodeProto]) -> list[tuple[str, str]]:
    """Give a name to nodes without one, `Operator_PLACE`, and another to those whose name an earlier node has.

    Returns:
        Old and new names of those that changed.
    """
    every = list(nodes)
    names = Names({node.name for node in every if node.name})
    seen: set[str] = set()
    changed = []
    for place, node in enumerate(every):
        if not node.name or node.name in seen:
            old, node.name = node.name, names.fresh(f"{node.name or node.op_type}_{place}")
            changed.append((old, node.name))
        seen.add(node.name)
    return changed


def rename_uses(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Make readers of names read others, within subgraphs too where a name is not taken by their own tensor."""
    for node in graph.node:
        if not names.keys().isdisjoint(node.input):
            node.input[:] = [names.get(name, name) for name in node.input]
        for inner in subgraphs([node]):
            outside = {old: names[old] for old in names.keys() - defined(inner)}
            rename_uses(inner, outside)
            for value in inner.output:
                value.name = outside.get(value.name, value.name)


def remove_nodes(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    """Take nodes out of the graph, by identity."""
    # by place, not by copying: callers hold on to the nodes that stay
    gone = {id(node) for node in nodes}
    for place in reversed([place for place, node in enumerate(graph.node) if id(node) in gone]):
        del graph.node[place]


def remove_unread(graph: onnx.GraphProto, names: Iterable[str]) -> None:
    """Remove those constants of these names, initialisers or Constant nodes, that nobody reads."""
    _remove_constants(graph, set(names) - use_counts(graph).keys())


def _remove_constants(graph: onnx.GraphProto, names: Collection[str]) -> None:
    for tensor in [one for one in graph.initializer if one.name in names]:
        graph.initializer.remove(tensor)
    remove_nodes(graph, [node for node in graph.node if node.op_type == "Constant" and node.output[0] in names])


def remove_unused(model: onnx.ModelProto) -> list[str]:
    """Remove nodes whose outputs nobody reads, and initialisers likewise, with the inputs that they are values of."""
    graph = model.graph
    changed: list[str] = []
    while True:
        counts = use_counts(graph)
        gone = [node for node in graph.node if not any(counts[name] for name in node.output if name)]
        if not gone:
            break
        changed += [f"{node.op_type} {node.name}" for node in gone]
        remove_nodes(graph, gone)
    unread = dict.fromkeys(tensor.name for tensor in graph.initializer if not counts[tensor.name])
    for values in (graph.initializer, graph.input):  # older exporters name initialisers among the inputs, too
        for value in [one for one in values if one.name in unread]:
            values.remove(value)
    return [*changed, *(f"initialiser {name}" for name in unread)]


def bypass(graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    """Let the readers of a node's first output read its first input; the node stays, without readers.

    Returns:
        False if the output is one of the graph's, whose name has to stay.
    """
    if node.output[0] in {value.name for value in graph.output}:
        return False
    rename_uses(graph, {node.output[0]: node.input[0]})
    return True


def set_constant(graph: onnx.GraphProto, name: str, value: Array) -> None:
    """Make `name` an initialiser with `value`, in place of an initialiser or Constant node of that name."""
    _remove_constants(graph, [name])
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
