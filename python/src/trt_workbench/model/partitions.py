"""Partitions of a graph: which nodes go to which provider, in which subgraphs, and what crosses their borders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trt_workbench.model.index import GraphIndex
from trt_workbench.model.walking import components


@dataclass(frozen=True)
class PartitionRequest:
    """What is asked.

    Attributes:
        model: ONNX file.
        minimum: fewest nodes of a TensorRT subgraph.
        exclude: operators kept from TensorRT.
    """

    model: Path
    minimum: int = 1
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedNode:
    """A node and where it goes.

    Attributes:
        name: of the node.
        operator: `domain::Name` outside the standard domain.
        provider: ONNX Runtime's name of it.
        subgraph: index of the subgraph it belongs to.
        reason: why it is not with the provider that was asked for; "" if it is.
        types: dtypes of its inputs that are not constants.
        shapes: shapes of the same.
    """

    name: str
    operator: str
    provider: str
    subgraph: int
    reason: str
    types: tuple[str | None, ...]
    shapes: tuple[tuple[int | str | None, ...] | None, ...]


@dataclass(frozen=True)
class Subgraph:
    """Nodes of one provider that belong together, and the tensors that enter and leave."""

    provider: str
    nodes: int
    operators: dict[str, int]
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Partitions:
    """All partitions of a graph.

    Attributes:
        asked: the provider that was asked for.
        basis: who was asked, and how.
        nodes: in the order of the file.
        subgraphs: in the order in which they first occur.
    """

    asked: str
    basis: str
    nodes: tuple[PlacedNode, ...]
    subgraphs: tuple[Subgraph, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of nodes by provider."""
        return dict(sorted(Counter(node.provider for node in self.nodes).items()))

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON document."""
        return {
            "schema_version": 2,
            "provider_asked": self.asked,
            "basis": self.basis,
            "nodes_by_provider": self.counts(),
            "subgraphs": [asdict(subgraph) for subgraph in self.subgraphs],
            "fallen_out": [asdict(node) for node in self.nodes if node.reason],
            "nodes": [asdict(node) for node in self.nodes],
        }


def make_partitions(
    index: GraphIndex,
    asked: str,
    providers: Sequence[str],
    reasons: Sequence[str],
    *,
    basis: str,
    groups: Sequence[int | None] = (),
) -> Partitions:
    """Return the partitions that follow from where each node goes.

    Args:
        index: of the graph.
        asked: the provider that was asked for.
        providers: of each node, in the order of the file.
        reasons: why a node is not with `asked`, "" where it is.
        basis: who was asked, and how.
        groups: subgraph of each node as the runtime reported it, None where it did not.
    """
    labels = _labels(index, providers, groups)
    nodes = tuple(
        PlacedNode(
            name=node.name,
            operator=index.operator(place),
            provider=providers[place],
            subgraph=labels[place],
            reason=reasons[place],
            types=tuple(index.facts(name).dtype for name in _data_inputs(index, place)),
            shapes=tuple(index.facts(name).shape for name in _data_inputs(index, place)),
        )
        for place, node in enumerate(index.nodes)
    )
    count = max(labels, default=-1) + 1
    subgraphs = tuple(_subgraph(index, labels, label, providers) for label in range(count))
    return Partitions(asked, basis, nodes, subgraphs)


def _labels(index: GraphIndex, providers: Sequence[str], groups: Sequence[int | None]) -> list[int]:
    """Return the subgraph of each node.

    Neighbours with one provider belong together unless a path between them leaves the provider: a subgraph that is
    compiled as one must not depend on itself. So nodes are layered by how often the provider changes on the way to
    them, and neighbours join within a layer.
    """
    layers: list[int] = []
    for place, node in enumerate(index.nodes):
        layer = 0
        for name in node.input:
            source = index.producer.get(name)
            if source is not None and source < place:
                layer = max(layer, layers[source] + (providers[source] != providers[place]))
        layers.append(layer)
    joined: list[tuple[int, int]] = []
    reported: dict[int, int] = {}
    for place, node in enumerate(index.nodes):
        group = groups[place] if groups else None
        if group is not None:
            joined.append((place, reported.setdefault(group, place)))
            continue
        for name in node.input:
            source = index.producer.get(name)
            same = source is not None and (not groups or groups[source] is None)
            if same and source is not None and (providers[source], layers[source]) == (providers[place], layers[place]):
                joined.append((place, source))
    return list(components(range(len(index.nodes)), joined).values())


def _data_inputs(index: GraphIndex, place: int) -> list[str]:
    return [name for name in index.nodes[place].input if name and name not in index.constants]


def _subgraph(index: GraphIndex, labels: list[int], label: int, providers: Sequence[str]) -> Subgraph:
    members = [place for place, own in enumerate(labels) if own == label]
    inside = set(members)
    entering = dict.fromkeys(
        name for place in members for name in _data_inputs(index, place) if index.producer.get(name, -1) not in inside
    )
    results = {value.name for value in index.model.graph.output}
    leaving = dict.fromkeys(
        name
        for place in members
        for name in index.nodes[place].output
        if name and (name in results or any(user not in inside for user in index.users.get(name, ())))
    )
    return Subgraph(
        provider=providers[members[0]],
        nodes=len(members),
        operators=dict(Counter(index.operator(place) for place in members).most_common()),
        inputs=tuple(_border(index, name) for name in entering),
        outputs=tuple(_border(index, name) for name in leaving),
    )


def _border(index: GraphIndex, name: str) -> dict[str, Any]:
    facts = index.facts(name)
    shape = None if facts.shape is None else list(facts.shape)
    return {"name": name, "dtype": facts.dtype, "shape": shape, "size_bytes": facts.size_bytes}
