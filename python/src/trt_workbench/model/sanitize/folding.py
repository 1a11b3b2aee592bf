"""Folding: nodes whose result is known before running become constants."""

from __future__ import annotations

import numpy as np
import onnx

from trt_workbench.model.constants import Array, constants, evaluated
from trt_workbench.model.editing import remove_nodes, set_constant
from trt_workbench.model.proto import static_dims
from trt_workbench.model.weights import inferred


def fold_constants(model: onnx.ModelProto, limit_bytes: int) -> list[str]:
    """Evaluate nodes of the standard domain whose inputs are all constant, with ONNX's reference implementation.

    Args:
        model: changed in place.
        limit_bytes: a result that is larger than this and than its inputs stays a computation.
    """
    values = constants(model.graph)
    changed, gone = [], []
    outputs = {value.name for value in model.graph.output}
    for node in list(model.graph.node):
        results = evaluated(model, node, values) if outputs.isdisjoint(node.output) else None
        if results is None:
            continue
        allowed = max(limit_bytes, sum(values[name].nbytes for name in node.input if name))
        if sum(result.nbytes for result in results.values()) > allowed:
            continue
        values.update(results)
        gone.append((node, results))
        changed.append(f"{node.op_type} {node.name}".strip())
    remove_nodes(model.graph, [node for node, _ in gone])
    for _, results in gone:
        for name, result in results.items():
            set_constant(model.graph, name, result)
    return changed


def fold_shapes(model: onnx.ModelProto, limit_bytes: int) -> list[str]:
    """Replace Shape and Size of fixed shapes, and Gather of a fixed dimension from a Shape, by constants."""
    del limit_bytes  # a shape is small
    graph = model.graph
    shapes = static_dims(inferred(model, data_prop=True).graph)
    values = constants(graph)
    of_shape = {
        node.output[0]: node.input[0] for node in graph.node if (node.op_type == "Shape" and _range(node) == (0, None))
    }
    found: dict[str, Array] = {}
    for node in graph.node:
        dims = shapes.get(node.input[0]) if node.input else None
        if node.op_type == "Shape" and dims is not None:
            start, end = _range(node)
            if None not in dims[start:end]:
                found[node.output[0]] = np.array(dims[start:end], np.int64)
        elif node.op_type == "Size" and dims is not None and None not in dims:
            found[node.output[0]] = np.array(np.prod([dim or 0 for dim in dims], dtype=np.int64))
        elif node.op_type == "Gather" and node.input[0] in of_shape and node.input[1] in values:
            source = shapes.get(of_shape[node.input[0]])
            index = values[node.input[1]]
            chosen = None if source is None else [source[int(place)] for place in index.reshape(-1)]
            if chosen is not None and None not in chosen:
                found[node.output[0]] = np.array(chosen, np.int64).reshape(index.shape)
    results = {value.name for value in graph.output}
    gone = [node for node in graph.node if node.output and node.output[0] in found and node.output[0] not in results]
    changed = [f"{node.op_type} {node.name} = {found[node.output[0]].tolist()}" for node in gone]
    names = [node.output[0] for node in gone]
    remove_nodes(graph, gone)
    for name in names:
        set_constant(graph, name, found[name])
    return changed


def _range(node: onnx.NodeProto) -> tuple[int, int | None]:
    given = {attribute.name: attribute.i for attribute in node.attribute}
    return given.get("start", 0), given.get("end")
