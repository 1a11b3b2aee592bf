"""Convolutions over one dimension, written over two: TensorRT 8.6 fails on some of the first, with `_Map_base::at`."""

from __future__ import annotations

from collections import Counter
from functools import cache

import onnx

from trt_workbench.model.editing import Names, NodeWriter
from trt_workbench.model.proto import STANDARD, Dims, opset, static_dims
from trt_workbench.model.walking import subgraphs, use_counts
from trt_workbench.model.weights import inferred

# Where the second dimension goes: in front of the one that is there.
_AXIS = 2
# Attributes with numbers by dimension, and how many they have with one.
_PER_DIMENSION = {"dilations": 1, "kernel_shape": 1, "pads": 2, "strides": 1}


def conv_2d(model: onnx.ModelProto) -> list[str]:
    """Give every Conv over one dimension a second one, of size 1; what is around it stays as it is.

    Returns:
        What was changed, in words.
    """
    names, version = Names.of(model), opset(model)
    changed: list[str] = []

    def walk(graph: onnx.GraphProto, typed: onnx.GraphProto, outer: Dims) -> None:
        dims = {**outer, **static_dims(typed)}
        changed.extend(_widen(graph, dims, NodeWriter(names, "axis"), version))
        for inner, known in zip(subgraphs(graph.node), subgraphs(typed.node), strict=True):
            walk(inner, known, dims)

    walk(model.graph, inferred(model).graph, {})
    return changed


def _widen(graph: onnx.GraphProto, dims: Dims, writer: NodeWriter, version: int) -> list[str]:
    convs = [node for node in graph.node if _has_one_dimension(node, dims)]
    if not convs:
        return []
    reshaped = _reshape_weights(graph, convs)

    @cache
    def wide(name: str) -> str:
        return writer.along("Unsqueeze", name, _AXIS, version, stem=f"{name}_2d")

    places = set(map(id, convs))
    for node in graph.node:
        if id(node) not in places:
            writer.nodes.append(node)
            continue
        node.input[0] = wide(node.input[0])
        if node.input[1] not in reshaped:
            node.input[1] = wide(node.input[1])
        for attribute in node.attribute:
            if attribute.name in _PER_DIMENSION:
                first = 0 if attribute.name == "pads" else 1
                attribute.ints[:] = [one for number in attribute.ints for one in (first, number)]
        output, node.output[0] = node.output[0], writer.fresh(f"{node.output[0]}_2d")
        writer.nodes.append(node)
        writer.along("Squeeze", node.output[0], _AXIS, version, output=output)
    writer.fill(graph)
    return [f"Conv {node.name}" for node in convs]


def _has_one_dimension(node: onnx.NodeProto, dims: Dims) -> bool:
    if node.op_type != "Conv" or node.domain not in STANDARD:
        return False
    written = any(len(one.ints) == _PER_DIMENSION.get(one.name) for one in node.attribute)
    return written or any(len(dims.get(name, ())) == 3 for name in node.input[:2])


def _reshape_weights(graph: onnx.GraphProto, convs: list[onnx.NodeProto]) -> set[str]:
    """Give constants that these nodes alone read, as their weights, the second dimension themselves."""
    reads, weights = use_counts(graph), Counter(node.input[1] for node in convs)
    defaults = {value.name for value in graph.input}
    own = {name for name, count in weights.items() if reads[name] == count} - defaults
    found = [tensor for tensor in graph.initializer if tensor.name in own]
    for tensor in found:
        tensor.dims.insert(_AXIS, 1)
    reshaped = {tensor.name for tensor in found}
    for value in [one for one in graph.value_info if one.name in reshaped]:
        graph.value_info.remove(value)
    return reshaped
