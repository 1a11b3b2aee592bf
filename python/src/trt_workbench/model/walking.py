"""Walking a model's graphs, those within nodes and functions included: what each defines, reads and sees."""

from __future__ import annotations

from collections import Counter, UserDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import onnx


def subgraphs(nodes: Iterable[onnx.NodeProto]) -> list[onnx.GraphProto]:
    """Return the graphs that nodes hold in their attributes, such as the branches of an If."""
    return [
        graph
        for node in nodes
        for attribute in node.attribute
        if attribute.HasField("g") or attribute.graphs  # most hold none, and a call for each takes twice the time
        for graph in graphs_of(attribute)
    ]


def graphs_of(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    """Return the graphs of an attribute."""
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def has_subgraph(node: onnx.NodeProto) -> bool:
    """Return whether a node holds graphs of its own, as If and Loop do."""
    return bool(subgraphs([node]))


def all_graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the graph and every subgraph, those in functions included."""
    waiting = [model.graph, *(graph for function in model.functions for graph in subgraphs(function.node))]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += subgraphs(graph.node)


def nodes_within(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield each node, followed by those of the graphs in it."""
    for node in nodes:
        yield node
        for graph in subgraphs([node]):
            yield from nodes_within(graph.node)


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a model, those in subgraphs and functions included."""
    yield from nodes_within(model.graph.node)
    for function in model.functions:
        yield from nodes_within(function.node)


def defined(graph: onnx.GraphProto) -> list[str]:
    """Return the tensors that a graph itself defines, in order: inputs, initialisers, and what its nodes make."""
    named = [value.name for value in graph.input]
    named += [tensor.name for tensor in graph.initializer] + [one.values.name for one in graph.sparse_initializer]
    named += [name for node in graph.node for name in node.output]
    return list(dict.fromkeys(filter(None, named)))


def reads(node: onnx.NodeProto) -> Counter[str]:
    """Count what a node reads, in order: its inputs, and what the graphs in it take from around them."""
    counts = Counter(name for name in node.input if name)
    for graph in subgraphs([node]):
        counts.update(captured(graph))
    return counts


def readers(nodes: Iterable[onnx.NodeProto]) -> defaultdict[str, list[onnx.NodeProto]]:
    """Return by tensor the nodes that have it as an input, each once and in order."""
    found: defaultdict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in nodes:
        for name in dict.fromkeys(node.input):
            found[name].append(node)
    return found


def use_counts(graph: onnx.GraphProto) -> Counter[str]:
    """Count how often each tensor is read, by nodes, by subgraphs that capture it, and as an output of the graph."""
    counts = Counter[str]()
    for node in graph.node:
        counts.update(reads(node))
    counts.update(value.name for value in graph.output)
    return counts


def components(things: Sequence[int], pairs: Collection[tuple[int, int]]) -> dict[int, int]:
    """Return the number of the part that each thing is in, of parts that pairs of things join, in their order."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    places = {thing: place for place, thing in enumerate(things)}
    links = tuple([places[one] for one in ends] for ends in zip(*pairs, strict=True)) or ([], [])
    joined = coo_array((np.ones(len(pairs)), links), shape=(len(things), len(things)))
    return dict(zip(things, connected_components(joined, directed=False)[1].tolist(), strict=True))


def captured(graph: onnx.GraphProto) -> Counter[str]:
    """Count what a graph reads and does not define, in order: tensors of the graphs around it."""
    counts = use_counts(graph)
    for name in defined(graph):
        counts.pop(name, None)
    return counts


@dataclass
class Scope:
    """What is known of the tensors that a graph sees: subclasses have fields that are sets, or dicts by name."""

    def inside(self, graph: onnx.GraphProto) -> Self:
        """Return what a graph within sees: what it defines itself hides what has the same name outside.

        It can be added to without a change of this one.
        """
        own = set(defined(graph))

        def seen(table: Any) -> Any:
            if isinstance(table, set):
                return table - own
            if isinstance(table, UserDict):  # which reads its values when they are asked for
                return type(table)({name: fact for name, fact in table.data.items() if name not in own})
            kept = {name: fact for name, fact in table.items() if name not in own}
            return {name: dict(fact) if isinstance(fact, dict) else fact for name, fact in kept.items()}

        return type(self)(**{one.name: seen(getattr(self, one.name)) for one in fields(self)})
