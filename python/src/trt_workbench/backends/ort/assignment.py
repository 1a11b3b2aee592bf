"""Which provider each node was really given to, read back from a loaded ONNX Runtime session."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.core.errors import CheckFailed
from trt_workbench.model.proto import operator_name
from trt_workbench.model.shape_nodes import NodeKey

if TYPE_CHECKING:
    import onnxruntime as ort

# Session setting that makes ONNX Runtime (1.24 and newer) keep the assignment.
RECORD_ENTRY = "session.record_ep_graph_assignment_info"
_LISTED = 12


@dataclass(frozen=True)
class AssignedGroup:
    """Nodes that one provider took together: a single kernel, or a subgraph that it compiles.

    Attributes:
        provider: ONNX Runtime's name of it.
        nodes: operator (`domain::Name` outside the standard domain) and name, as they are after ONNX Runtime's own
            rewrites: a fused node has a name that the file does not have.
    """

    provider: str
    nodes: tuple[NodeKey, ...]


@dataclass(frozen=True)
class Assignment:
    """All groups of a session."""

    groups: tuple[AssignedGroup, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of nodes by provider."""
        counts: Counter[str] = Counter()
        for group in self.groups:
            counts[group.provider] += len(group.nodes)
        return dict(sorted(counts.items()))

    def outside(self, *providers: str) -> tuple[tuple[str, NodeKey], ...]:
        """Return (provider, node) of every node that none of `providers` has."""
        return tuple(
            (group.provider, node) for group in self.groups if group.provider not in providers for node in group.nodes
        )


def read_assignment(session: ort.InferenceSession) -> Assignment:
    """Return the assignment of a session that was made with RECORD_ENTRY set to "1"."""
    return Assignment(
        tuple(
            AssignedGroup(group.ep_name, tuple(_key(node) for node in group.get_nodes()))
            for group in session.get_provider_graph_assignment_info()
        )
    )


def check_assignment(
    assignment: Assignment,
    providers: tuple[str, ...],
    shape_keys: frozenset[NodeKey],
    *,
    allow_fallback: bool,
    model: Path,
) -> dict[str, Any]:
    """Return the record of the assignment; fail if data is computed outside `providers`.

    Args:
        assignment: of the session.
        providers: where nodes may be; the first is the one that was asked for.
        shape_keys: nodes that compute shapes, which belong on the CPU.
        allow_fallback: list the nodes in the record instead of failing.
        model: the file, for the message.

    Raises:
        CheckFailed: the asked provider has no node, or nodes that compute data are outside and that was not allowed.
    """
    outside = assignment.outside(*providers)
    data = [(provider, node) for provider, node in outside if node not in shape_keys]
    counts = assignment.counts()
    if not allow_fallback:
        if data:
            raise CheckFailed(
                f"{len(data)} of {sum(counts.values())} nodes were not taken by {' or '.join(providers)}: "
                f"{_listed(data)}. Pass the option allow_fallback=true to run them elsewhere; `trtw partitions` says "
                f"why: {model}"
            )
        if counts and not counts.get(providers[0]):
            raise CheckFailed(
                f"{providers[0]} took no node of the model ({counts}); `trtw partitions` says why: {model}"
            )
    return {
        "nodes_by_provider": counts,
        "shape_nodes_on_cpu": len(outside) - len(data),
        "fallback_nodes": [{"provider": provider, "operator": op, "name": name} for provider, (op, name) in data],
        "allow_fallback": allow_fallback,
    }


def _key(node: Any) -> NodeKey:
    return (operator_name(node), node.name)


def _listed(nodes: list[tuple[str, NodeKey]]) -> str:
    shown = ", ".join(f"{op} {name or '(no name)'} on {provider}" for provider, (op, name) in nodes[:_LISTED])
    return shown if len(nodes) <= _LISTED else f"{shown} and {len(nodes) - _LISTED} more"
