"""Where a model's nodes go, as ONNX Runtime assigned them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.backend import OrtBackend
from trt_workbench.backends.ort.common import (
    CPU_PROVIDER,
    CUDA_PROVIDER,
    TENSORRT_PROVIDER,
    method,
    session_config,
    translated,
)
from trt_workbench.backends.ort.libraries import preload
from trt_workbench.core.counts import counted, some
from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem, did_you_mean
from trt_workbench.engine.parser import ask_parser
from trt_workbench.model.index import GraphIndex
from trt_workbench.model.opened import Model
from trt_workbench.model.partitions import PartitionRequest, Partitions, make_partitions
from trt_workbench.model.proto import copied, operator_name
from trt_workbench.model.shape_nodes import NodeKey, shape_nodes
from trt_workbench.model.weights import is_in_own_file, restore, weights_of

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
            AssignedGroup(group.ep_name, tuple((operator_name(node), node.name) for node in group.get_nodes()))
            for group in method(session, "get_provider_graph_assignment_info")()
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
        providers: where nodes may be; the first is the requested one.
        shape_keys: nodes that compute shapes, which belong on the CPU.
        allow_fallback: list the nodes in the record instead of failing.
        model: the file, for the message.

    Raises:
        CheckFailed: the asked provider has no node, or nodes that compute data are outside and not allowed.
    """
    outside = assignment.outside(*providers)
    data = [(provider, node) for provider, node in outside if node not in shape_keys]
    counts = assignment.counts()
    if not allow_fallback:
        if data:
            raise CheckFailed(
                f"{' or '.join(providers)} did not take {len(data)} of {counted(sum(counts.values()), 'node')}: "
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


def _listed(nodes: list[tuple[str, NodeKey]]) -> str:
    return some((f"{op} {name or '(no name)'} on {provider}" for provider, (op, name) in nodes), _LISTED)


_FOLDER_ENTRY = "session.model_external_initializers_file_folder_path"


def ort_partitions(backend: OrtBackend, request: PartitionRequest) -> Partitions:
    """Return where the nodes of the model go, as `Backend.partitions` describes."""
    provider = backend.provider
    if provider != TENSORRT_PROVIDER and (request.exclude or request.minimum > 1):
        raise UsageProblem(f"--exclude and --min-subgraph-size are options of ort-trt; {backend.name} has neither.")
    model = Model.open(request.model)
    index = model.index
    operators = {index.operator(place) for place in range(len(index.nodes))}
    if unknown := [name for name in request.exclude if name not in operators]:
        raise UsageProblem(
            f"The model has no operator {unknown[0]!r} to exclude; {did_you_mean(unknown[0], sorted(operators))}"
        )
    if provider != CPU_PROVIDER and not (found := backend.availability()).ok:
        raise ComponentMissing(f"{provider} is not available: {found.reason} {found.fix}")
    import onnxruntime as ort

    assignment = _ask(ort, request, index, provider)
    names = {node.name: place for place, node in enumerate(index.nodes)}
    providers: list[str | None] = [None] * len(index.nodes)
    groups: list[int | None] = [None] * len(index.nodes)
    for number, group in enumerate(assignment.groups):
        for _, name in group.nodes:
            if name in names:
                providers[names[name]] = group.provider
                # a group of CUDA or the CPU is a single kernel; of TensorRT it is what becomes one engine
                groups[names[name]] = number if group.provider == TENSORRT_PROVIDER else None
    # constants are folded into their users before nodes are assigned
    placed = [name or "folded" for name in providers]
    reasons = _reasons(request, model, provider, placed)
    basis = f"onnxruntime {ort.__version__}, without its own rewrites, asked for its graph assignment"
    return make_partitions(index, provider, placed, reasons, basis=basis, groups=groups)


def _ask(ort: Any, request: PartitionRequest, index: GraphIndex, provider: str) -> Assignment:
    """Load the model without rewrites, so that nodes keep their names, and read the assignment."""
    config, _ = session_config(ort, SessionOptions(threads=1), "disable", allow_spinning=False)
    config.add_session_config_entry(RECORD_ENTRY, "1")
    if provider != CPU_PROVIDER:
        preload(ort)
    model: Any = request.model
    if index.renamed:
        named = copied(index.model)
        restore(weights_of(named, request.model, wanted=is_in_own_file))
        model = named.SerializeToString()
        config.add_session_config_entry(_FOLDER_ENTRY, str(request.model.parent.resolve()))
    chain: list[Any] = [(provider, _provider_options(request, provider))]
    if provider == TENSORRT_PROVIDER:
        chain.append(CUDA_PROVIDER)
    try:
        session = ort.InferenceSession(model, config, providers=chain, enable_fallback=0)
    except Exception as error:
        if problem := translated(error, f"ONNX Runtime cannot load the model on {provider}", request.model):
            raise problem from error
        raise
    return read_assignment(session)


def _provider_options(request: PartitionRequest, provider: str) -> dict[str, str]:
    if provider != TENSORRT_PROVIDER:
        return {}
    options = {"trt_min_subgraph_size": str(request.minimum)}
    if request.exclude:
        options["trt_op_types_to_exclude"] = ",".join(request.exclude)
    return options


def _reasons(request: PartitionRequest, model: Model, provider: str, placed: Sequence[str]) -> list[str]:
    index = model.index
    shapes = shape_nodes(index.model.graph)
    # ONNX Runtime does not say why TensorRT left a node out; its parser does, where it is an operator
    lacks = ask_parser(model) if provider == TENSORRT_PROVIDER and set(placed) - {provider, "folded"} else None
    reasons = []
    for place, where in enumerate(placed):
        node, operator = index.nodes[place], index.operator(place)
        if where in (provider, "folded"):
            reasons.append("")
        elif operator in request.exclude:
            reasons.append(f"excluded: {operator} is excluded from TensorRT (trt_op_types_to_exclude)")
        elif lacks and operator in lacks.refused:
            reasons.append(f"operator: the parser of TensorRT {lacks.version} does not import it")
        elif lacks:
            reasons.append("unknown: the runtime does not say why")
        elif (operator, node.name) in shapes:
            reasons.append("shape: it computes shapes, which ONNX Runtime keeps on the CPU")
        else:
            types = ", ".join(index.facts(name).dtype or "?" for name in node.input)
            reasons.append(f"operator or dtype: {provider} has no kernel of {operator} for {types}")
    return reasons
