"""Two profiles of one model, layer by layer: operations are grouped by the ONNX nodes that they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trt_workbench.backends.profiling import OVERHEAD, Operation
from trt_workbench.core.counts import grouped


@dataclass(frozen=True)
class LayerGroup:
    """Operations of both sides that compute the same nodes.

    A layer of one side may correspond to several of the other: what only one side fuses forms one group.

    Attributes:
        onnx_nodes: of all operations; empty for a layer that the runtime made up.
        target: operations of the profiled engine or model.
        against: operations of the one it is compared with.
    """

    onnx_nodes: tuple[str, ...]
    target: tuple[Operation, ...]
    against: tuple[Operation, ...]

    @property
    def target_ms(self) -> float:
        """Mean time of the target's operations in one run, milliseconds: means add up to the run's, medians do not."""
        return _time(self.target)

    @property
    def against_ms(self) -> float:
        """The same of the other side."""
        return _time(self.against)

    @property
    def difference_ms(self) -> float:
        """How much longer the target takes; negative where it is faster."""
        return self.target_ms - self.against_ms

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the operations that are no computation of the model's, each once."""
        return tuple(dict.fromkeys(one.role for one in (*self.target, *self.against) if one.role in OVERHEAD))

    @property
    def computes(self) -> bool:
        """Whether any operation computes something of the model's."""
        return any(one.role not in OVERHEAD for one in (*self.target, *self.against))

    @property
    def longest_ms(self) -> float:
        """Time of its longest operation, of either side."""
        return max((one.mean_ms or 0.0 for one in (*self.target, *self.against)), default=0.0)

    @property
    def only_in(self) -> str:
        """The only side that has operations: "target", "against" or "" for both."""
        return "" if self.target and self.against else "target" if self.target else "against"


def difference(target: Sequence[Operation], against: Sequence[Operation]) -> list[LayerGroup]:
    """Return the groups of two profiles, the largest difference first.

    Operations without a node (reformat layers, kernels' layouts) are grouped by their own name.

    Args:
        target: operations of the profiled engine or model.
        against: operations of the one it is compared with.
    """
    operations = [one for one in (*target, *against) if one.mean_ms is not None]
    parent: dict[str, str] = {}
    for one in operations:
        keys = _keys(one)
        for key in keys:
            _join(parent, keys[0], key)
    members = grouped(operations, lambda one: _root(parent, _keys(one)[0]))
    return sorted((_group(found) for found in members.values()), key=lambda group: -abs(group.difference_ms))


def telling(groups: Sequence[LayerGroup], count: int) -> list[LayerGroup]:
    """Return the first `count` groups; that of the longest operation of both sides is always one of them.

    Args:
        groups: as `difference` orders them.
        count: at least one.
    """
    first = list(groups[:count])
    longest = max(groups, key=lambda group: group.longest_ms, default=None)
    return first if longest is None or longest in first else [*first[: count - 1], longest]


def overhead(operations: Iterable[Operation]) -> list[Operation]:
    """Return the reformat, cast, quantize and copy operations, the longest first."""
    return sorted([one for one in operations if one.role in OVERHEAD], key=lambda one: -(one.mean_ms or 0.0))


def _group(found: Sequence[Operation]) -> LayerGroup:
    nodes = tuple(dict.fromkeys(node for one in found for node in one.onnx_nodes))
    sides = {side: tuple(one for one in found if one.side == side) for side in ("target", "against")}
    return LayerGroup(nodes, sides["target"], sides["against"])


def _keys(one: Operation) -> list[str]:
    return [f"node {node}" for node in one.onnx_nodes] or [f"name {one.name}"]


def _root(parent: dict[str, str], key: str) -> str:
    while parent.setdefault(key, key) != key:
        parent[key] = parent[parent[key]]
        key = parent[key]
    return key


def _join(parent: dict[str, str], one: str, other: str) -> None:
    parent[_root(parent, other)] = _root(parent, one)


def _time(operations: Iterable[Operation]) -> float:
    return sum(one.mean_ms or 0.0 for one in operations)
