"""Ifs that are always decided the same way: the branch that is taken replaces the If."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
from onnx import helper

from trt_workbench.model.constants import Array, Constants, constants, evaluated
from trt_workbench.model.editing import Names, name_nodes, replace_nodes
from trt_workbench.model.sanitize.folding import fold_constants, fold_shapes
from trt_workbench.model.walking import defined, nodes_within, subgraphs

_CONDITION = 0
_BRANCHES = ("else_branch", "then_branch")


def has_if(graph: onnx.GraphProto) -> bool:
    """Whether a graph, or a graph within it, has an If."""
    return any(node.op_type == "If" for node in nodes_within(graph.node))


def inline_ifs(model: onnx.ModelProto) -> list[str]:
    """Put the branch that a constant condition takes in the place of its If, in subgraphs too.

    Outputs of an If that stays get other names in one branch than in the other, as TensorRT asks for.
    """
    return _Inlining(model).of_graph(model.graph, {}) if has_if(model.graph) else []


def settle_ifs(model: onnx.ModelProto, limit_bytes: int) -> None:
    """Fold shapes and constants, and inline Ifs, as long as that takes an If away."""
    if not has_if(model.graph):
        return
    while True:
        fold_shapes(model, limit_bytes)
        fold_constants(model, limit_bytes)
        if not inline_ifs(model) or not has_if(model.graph):
            break


def known_values(model: onnx.ModelProto, graph: onnx.GraphProto, outer: Mapping[str, Array]) -> Constants:
    """Return the constants of a graph, and what conditions are computed from if it is known without an input.

    Args:
        model: for its opsets.
        graph: its main graph, or one within it.
        outer: values that are known in the graphs around it.
    """
    own = set(defined(graph))
    known = Constants({name: outer[name] for name in outer if name not in own}) | constants(graph)
    wanted = _needed(graph)
    for node in graph.node:
        if wanted.intersection(node.output) and all(name in known for name in node.input if name):
            known.update(evaluated(model, node, known) or {})
    return known


def _needed(graph: onnx.GraphProto) -> set[str]:
    """Return the tensors that conditions in a graph, and in those within it, are computed from."""
    wanted = {node.input[_CONDITION] for node in graph.node if node.op_type == "If"}
    for node in graph.node:
        for inner in subgraphs([node]):
            if has_if(inner):
                wanted |= _needed(inner)
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
    return wanted


class _Inlining:
    """One pass over a model; names stay unique in all of it."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._names = Names(_definitions(model.graph))
        self._changed: list[str] = []

    def of_graph(self, graph: onnx.GraphProto, outer: Mapping[str, Array]) -> list[str]:
        """Change a graph and those within it in place, and return what changed."""
        known = known_values(self._model, graph, outer)
        while any(_taken(node, known) is not None for node in graph.node):
            nodes: list[onnx.NodeProto] = []
            for node in graph.node:
                taken = _taken(node, known)
                nodes += [node] if taken is None else self._inlined(graph, node, taken)
            replace_nodes(graph, nodes)
            name_nodes(node for node in graph.node if node.name)
            known = known_values(self._model, graph, outer)
        for node in graph.node:
            for inner in subgraphs([node]):
                if has_if(inner):
                    self.of_graph(inner, known)
            if node.op_type == "If":
                self._name_apart(node)
        return self._changed

    def _inlined(self, graph: onnx.GraphProto, node: onnx.NodeProto, taken: str) -> list[onnx.NodeProto]:
        """Return the nodes of the branch that is taken; its initialisers go to the graph."""
        branch = _branch(node, taken)
        self._changed.append(f"If {node.name} takes {taken}, nodes: {len(branch.node)}")
        for attribute in node.attribute:
            self._names.drop((defined if attribute.name == taken else _definitions)(attribute.g))
        computed = {name for one in branch.node for name in one.output}
        names: dict[str, str] = {}
        copied = []
        for result, wanted in zip((value.name for value in branch.output), node.output, strict=True):
            if wanted and result in computed and result not in names:
                names[result] = wanted
            elif wanted:  # a tensor of outside, an initialiser, or one that is a result twice
                copied.append((result, wanted))
        for name in defined(branch):
            if name not in names:
                names[name] = self._names.fresh(name)
        self._rename(branch, names)
        graph.initializer.extend(branch.initializer)
        graph.sparse_initializer.extend(branch.sparse_initializer)
        copies = [helper.make_node("Identity", [names.get(result, result)], [wanted]) for result, wanted in copied]
        return [*branch.node, *copies]

    def _name_apart(self, node: onnx.NodeProto) -> None:
        """Give results other names in the branch that is taken if the condition is false."""
        first, second = _branch(node, _BRANCHES[1]), _branch(node, _BRANCHES[0])
        shared = {value.name for value in first.output} & set(defined(second))
        names = {value.name: "" for value in second.output if value.name in shared}
        for name in names:
            names[name] = self._names.fresh(name)
            self._changed.append(f"If {node.name}: {name} of {_BRANCHES[0]} is now {names[name]}")
        if names:
            self._rename(second, names)

    def _rename(self, graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
        """Rename tensors in a graph, where they are made and wherever they are read."""
        given = set(names.values())
        for tensor in graph.initializer:
            tensor.name = names.get(tensor.name, tensor.name)
        for sparse in graph.sparse_initializer:
            sparse.values.name = names.get(sparse.values.name, sparse.values.name)
        for value in (*graph.input, *graph.output, *graph.value_info):
            value.name = names.get(value.name, value.name)
        for node in graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
            for inner in subgraphs([node]):
                own = defined(inner)
                changed = {name: new for name, new in names.items() if name not in own}
                changed |= {name: self._names.fresh(name) for name in own if name in given}
                self._rename(inner, changed)


def _taken(node: onnx.NodeProto, known: Mapping[str, Array]) -> str | None:
    """Return the name of the branch that an If always takes; None if that is not known, or for another node."""
    condition = known.get(node.input[_CONDITION]) if node.op_type == "If" else None
    return None if condition is None or condition.size != 1 else _BRANCHES[bool(condition.reshape(-1)[0])]


def _branch(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    graph: onnx.GraphProto = next(attribute.g for attribute in node.attribute if attribute.name == name)
    return graph


def _definitions(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names that a graph and those within it define."""
    yield from defined(graph)
    for inner in subgraphs(graph.node):
        yield from _definitions(inner)
