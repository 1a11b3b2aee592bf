"""Why an If is still in a graph: what its condition depends on, in words."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx

from trt_workbench.model.constants import Array
from trt_workbench.model.sanitize.branches import has_if, known_values
from trt_workbench.model.walking import reads, subgraphs

_OF_SHAPES = frozenset({"Shape", "Size"})


@dataclass
class _Sources:
    """What a tensor depends on: values of inputs, sizes of inputs that are not fixed, or what a loop hands on."""

    values: set[str] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)
    loop: bool = False


def staying_ifs(model: onnx.ModelProto) -> list[str]:
    """Return a sentence for every If that is in a model, in its subgraphs too."""
    if not has_if(model.graph):
        return []
    makers: dict[str, onnx.NodeProto] = {}
    inner_inputs: set[str] = set()
    _gather(model.graph, makers, inner_inputs)
    inputs = {value.name: value for value in model.graph.input}
    found: list[str] = []

    def walk(graph: onnx.GraphProto, outer: dict[str, Array]) -> None:
        known = known_values(model, graph, outer)
        for node in graph.node:
            if node.op_type == "If":
                sources = _sources(node.input[0], makers, inputs, inner_inputs)
                found.append(f"If {node.name}: {_reason(sources, known.get(node.input[0]))}")
            for inner in subgraphs([node]):
                if has_if(inner):
                    walk(inner, known)

    walk(model.graph, {})
    return found


def _gather(graph: onnx.GraphProto, makers: dict[str, onnx.NodeProto], inner_inputs: set[str]) -> None:
    for node in graph.node:
        makers.update(dict.fromkeys(node.output, node))
        for inner in subgraphs([node]):
            inner_inputs.update(value.name for value in inner.input)
            _gather(inner, makers, inner_inputs)


def _sources(
    name: str, makers: dict[str, onnx.NodeProto], inputs: dict[str, onnx.ValueInfoProto], inner_inputs: set[str]
) -> _Sources:
    found = _Sources()
    left, seen = [(name, False)], set()
    while left:
        name, is_size = one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        if name in inputs:
            if is_size:
                found.sizes.update(_free_sizes(inputs[name]))
            else:
                found.values.add(name)
        elif name in inner_inputs:
            found.loop = True
        elif name in makers:
            maker = makers[name]
            left += [(read, is_size or maker.op_type in _OF_SHAPES) for read in reads(maker)]
    return found


def _free_sizes(value: onnx.ValueInfoProto) -> list[str]:
    """Return the dimensions of an input that are not fixed, by symbol or as `x[0]`."""
    dims = value.type.tensor_type.shape.dim
    free = [(place, dim) for place, dim in enumerate(dims) if not dim.HasField("dim_value") or dim.dim_value < 0]
    return [dim.dim_param or f"{value.name}[{place}]" for place, dim in free]


def _reason(sources: _Sources, value: Array | None) -> str:
    if value is not None:
        return "it stays although its condition is constant; inline-if puts the branch that is taken in its place"
    if sources.loop:
        return "it stays, as its condition changes from round to round of the loop around it"
    if sources.values:
        return f"it stays, as its condition depends on the values of {', '.join(sorted(sources.values))}"
    if sources.sizes:
        names = ", ".join(sorted(sources.sizes))
        return f"it stays, as its condition depends on sizes that are not fixed ({names}); --dim NAME=VALUE fixes one"
    return "it stays, as its condition cannot be computed here"
