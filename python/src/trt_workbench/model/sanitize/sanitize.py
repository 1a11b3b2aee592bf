"""Sanitise an ONNX file: named rewrites, a report of what they changed, and what is left for TensorRT to refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from trt_workbench.core.counts import some
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.model.constants import Array, constants
from trt_workbench.model.index import GraphIndex
from trt_workbench.model.opened import Model, checked_on_error
from trt_workbench.model.proto import is_external
from trt_workbench.model.sanitize.branches import has_if, known_values
from trt_workbench.model.sanitize.integers import outside_int32
from trt_workbench.model.sanitize.rewrites import REWRITES, SanitizeSettings
from trt_workbench.model.walking import all_graphs, reads, subgraphs
from trt_workbench.model.weights import inferred, light

_OF_SHAPES = frozenset({"Shape", "Size"})


def staying_ifs(model: onnx.ModelProto) -> list[str]:
    """Return a sentence for every If that is in a model, in its subgraphs too."""
    if not has_if(model.graph):
        return []
    graphs = list(all_graphs(model))
    makers = {name: node for graph in graphs for node in graph.node for name in node.output}
    inputs = {value.name: value for value in model.graph.input}
    handed_on = {value.name for graph in graphs for value in graph.input} - inputs.keys()
    found: list[str] = []

    def walk(graph: onnx.GraphProto, outer: Mapping[str, Array]) -> None:
        known = known_values(model, graph, outer)
        for node in graph.node:
            if node.op_type == "If" and node.input[0] in known:
                why = "although its condition is constant; inline-if replaces it by the branch taken"
                found.append(f"If {node.name}: it stays {why}")
            elif node.op_type == "If":
                why = _reason(node.input[0], makers, inputs, handed_on)
                found.append(f"If {node.name}: it stays because its condition {why}")
            for inner in subgraphs([node]):
                if has_if(inner):
                    walk(inner, known)

    walk(model.graph, {})
    return found


def _reason(
    name: str,
    makers: Mapping[str, onnx.NodeProto],
    inputs: Mapping[str, onnx.ValueInfoProto],
    handed_on: Collection[str],
) -> str:
    """Say what a condition depends on: what a loop hands on, values of inputs, or sizes that are not fixed."""
    values, sizes = set[str](), set[str]()
    left, seen = [(name, False)], set[tuple[str, bool]]()
    while left:
        name, is_size = one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        if name in inputs and is_size:
            sizes.update(_free_sizes(inputs[name]))
        elif name in inputs:
            values.add(name)
        elif name in makers:
            maker = makers[name]
            left += [(read, is_size or maker.op_type in _OF_SHAPES) for read in reads(maker)]
    if any(name in handed_on for name, _ in seen):
        return "changes between iterations of the enclosing loop"
    if values:
        return f"depends on the values of {some(sorted(values))}"
    if sizes:
        return f"depends on dynamic sizes ({some(sorted(sizes))}); --dim NAME=VALUE fixes one"
    return "cannot be computed statically"


def _free_sizes(value: onnx.ValueInfoProto) -> list[str]:
    """Return the dimensions of an input that are not fixed, by symbol or as `x[0]`."""
    dims = value.type.tensor_type.shape.dim
    free = [(place, dim) for place, dim in enumerate(dims) if not dim.HasField("dim_value") or dim.dim_value < 0]
    return [dim.dim_param or f"{value.name}[{place}]" for place, dim in free]


# One rewrite gives work to another: a frozen dimension lets shapes be folded, folded shapes leave nodes unused.
_ROUNDS = 6


@dataclass(frozen=True)
class SanitizeReport:
    """What was done.

    Attributes:
        changes: by rewrite, what changed, in words.
        before: operators of the file, with their counts.
        after: operators of the result.
        findings: what TensorRT may still refuse or clamp.
    """

    changes: dict[str, list[str]]
    before: dict[str, int]
    after: dict[str, int]
    findings: list[str]

    def document(self) -> dict[str, Any]:
        """Return the report as one JSON document."""
        return {
            "schema_version": 1,
            "rewrites": {name: {"changes": len(items), "what": items} for name, items in self.changes.items()},
            "nodes_before": sum(self.before.values()),
            "nodes_after": sum(self.after.values()),
            "operators_before": self.before,
            "operators_after": self.after,
            "findings": self.findings,
        }


def default_rewrites() -> tuple[str, ...]:
    """Return the rewrites that run by default."""
    return tuple(name for name, (_, default) in REWRITES.items() if default)


def chosen_rewrites(only: Sequence[str] = (), also: Sequence[str] = (), skip: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of `only`, or else the default rewrites and those of `also`, without those of `skip`.

    Raises:
        UsageProblem: a name is unknown, or `only` and `also` are both given.
    """
    _check_names([*only, *also, *skip])
    if only and also:
        raise UsageProblem("Give either --only or --also, not both: --only runs no other rewrite.")
    return tuple(name for name in (only or (*default_rewrites(), *also)) if name not in skip)


def sanitize(
    source: Model, rewrites: Sequence[str], settings: SanitizeSettings | None = None
) -> tuple[onnx.ModelProto, SanitizeReport]:
    """Return the rewritten model, with all its weights, and the report.

    Raises:
        UsageProblem: a rewrite is unknown, or a dimension to fix does not exist.
    """
    _check_names(rewrites)
    settings = settings or SanitizeSettings()
    symbols = {dim for tensor in source.facts.inputs for dim in tensor.shape or () if isinstance(dim, str)}
    if missing := sorted(settings.dims.keys() - symbols):
        raise UsageProblem(
            f"The inputs have no dimension named {missing[0]}; {did_you_mean(missing[0], sorted(symbols))} "
            f"{source.path}"
        )
    model = source.load()
    before = _operators(model)
    with checked_on_error(source):
        changes = _rewrite(model, rewrites, settings)
        findings = _findings(model)
    findings += _checked(model, source.path)
    return model, SanitizeReport(changes, before, _operators(model), findings)


def _checked(model: onnx.ModelProto, path: Path) -> list[str]:
    """Return what ONNX's checker finds in the original model; raise if it rejects only the rewritten one.

    An operator that ONNX does not know, such as a plugin of TensorRT, is in the model on purpose.
    """
    bare = light(model)
    known = {value.name for value in bare.graph.input}
    # the checker looks for external data; an input has a type and a shape as well
    for tensor in [one for one in bare.graph.initializer if is_external(one)]:
        if tensor.name not in known:
            bare.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        bare.graph.initializer.remove(tensor)
    try:
        onnx.checker.check_model(bare)
    except onnx.checker.ValidationError:
        try:
            onnx.checker.check_model(path)
        except onnx.checker.ValidationError as error:
            return [f"ONNX's checker: {' '.join(str(error).split())}"]
        raise
    return []


def _rewrite(model: onnx.ModelProto, rewrites: Sequence[str], settings: SanitizeSettings) -> dict[str, list[str]]:
    changes: dict[str, list[str]] = {name: [] for name in REWRITES if name in rewrites}
    left = _ROUNDS
    while left:
        made = {name: REWRITES[name][0](model, settings) for name in changes}
        for name, found in changes.items():
            found += made[name]
        # behind an If that went, shapes become known, and another If may go
        left = _ROUNDS if made.get("inline-if") else left - 1
        if not any(made.values()):
            break
    return changes


def _check_names(names: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in REWRITES]:
        raise UsageProblem(f"There is no rewrite named {unknown[0]}; {did_you_mean(unknown[0], REWRITES)}")


def _operators(model: onnx.ModelProto) -> dict[str, int]:
    return dict(sorted(Counter(node.op_type for node in model.graph.node).items()))


def _findings(model: onnx.ModelProto) -> list[str]:
    """Return what TensorRT computes in another type or clamps, and every If that stays."""
    index = GraphIndex(inferred(model))
    found = []
    if wide := [
        f"{index.operator(place)} {node.name}"
        for place, node in enumerate(index.nodes)
        if "float64" in {index.facts(name).dtype for name in node.input}
    ]:
        found.append(
            f"{some(wide, 1)} in fp64, which TensorRT converts to fp32: it may not represent all of their values "
            "exactly"
        )
    values = constants(model.graph)
    if far := [name for name in values if values.facts(name)[0] == np.int64 and outside_int32(values[name])]:
        found.append(f"beyond the range of int32, to which TensorRT before 10 clamps: {some(far)}")
    return found + staying_ifs(model)
