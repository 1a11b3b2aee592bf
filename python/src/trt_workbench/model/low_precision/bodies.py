"""Bodies of If, Loop, Scan and their like as models of their own, so that the arithmetic in them can be counted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from trt_workbench.model.constants import Array, constant_value
from trt_workbench.model.index import GraphIndex, TensorFacts
from trt_workbench.model.proto import integer, is_external, value_shape
from trt_workbench.model.walking import captured, graphs_of, has_subgraph
from trt_workbench.model.weights import tensor_bytes

# Larger constants are no shapes, and shape inference does not read them.
_VALUES_READ = 1 << 12


class Body(NamedTuple):
    """A graph in an attribute of a node.

    Attributes:
        name: of the node and the attribute, such as "loop_3.body".
        model: the graph; what it captures is an input, or a constant with or without its values.
        times: how often it runs in one run of the node: the trip count of a Loop that is constant and that no condition
            ends, the length of what a Scan goes over, else 1, as then it is not known before running.
    """

    name: str
    model: onnx.ModelProto
    times: int


def bodies(node: onnx.NodeProto, index: GraphIndex, computed: Collection[str]) -> Iterator[Body]:
    """Yield the bodies of a node.

    Args:
        node: of the graph that is indexed.
        index: of the graph around it, with the shapes that a call has.
        computed: tensors of that graph that depend on its inputs.
    """
    for entry in node.attribute:
        for graph in graphs_of(entry):
            model = _as_model(graph, _given(node, graph, index), index, computed)
            yield Body(f"{node.name}.{entry.name}", model, _times(node, graph, index, computed))


def _given(node: onnx.NodeProto, graph: onnx.GraphProto, index: GraphIndex) -> dict[str, TensorFacts]:
    """Return type and shape of the inputs of a body; what a Loop carries on has the shape that it begins with."""
    if node.op_type not in ("Loop", "Scan") or len(node.input) != len(graph.input):
        return {}
    found = [index.facts(name) for name in node.input]
    for place, axis in _scanned(node).items():
        shape = found[place].shape
        if shape and axis < len(shape):
            found[place] = TensorFacts(found[place].dtype, tuple(np.delete(np.array(shape, object), axis)))
    return {value.name: facts for value, facts in zip(graph.input, found, strict=True)}


def _scanned(node: onnx.NodeProto) -> dict[int, int]:
    """Return the axis along which a Scan goes over an input, by the place of the input."""
    if node.op_type != "Scan":
        return {}
    count = integer(node, "num_scan_inputs")
    axes = next((tuple(entry.ints) for entry in node.attribute if entry.name == "scan_input_axes"), (0,) * count)
    return dict(enumerate(axes, len(node.input) - count))


def _times(node: onnx.NodeProto, graph: onnx.GraphProto, index: GraphIndex, computed: Collection[str]) -> int:
    length: object = None
    for place, axis in _scanned(node).items():
        shape = index.facts(node.input[place]).shape
        length = shape[axis] if shape and axis < len(shape) else None
    if node.op_type == "Loop" and not _ends_early(graph, computed):
        length = next((int(value.reshape(-1)[0]) for value in _values(index, node.input[0]) if value.size), None)
    return max(length, 0) if isinstance(length, int) else 1


def _values(index: GraphIndex, name: str) -> Iterator[Array]:
    """Yield the value of a tensor, if it is a constant."""
    graph = index.model.graph
    yield from (numpy_helper.to_array(one) for one in graph.initializer if one.name == name and not is_external(one))
    for node in graph.node:
        if node.op_type == "Constant" and name in node.output and (value := constant_value(node)) is not None:
            yield value


def _ends_early(graph: onnx.GraphProto, computed: Collection[str]) -> bool:
    """Whether the condition of a Loop depends on anything but itself and constants."""
    moving = {value.name for place, value in enumerate(graph.input) if place != 1} | set(computed)
    for node in graph.node:
        if moving & set(node.input) or has_subgraph(node):
            moving.update(node.output)
    return graph.output[0].name in moving


def _as_model(
    graph: onnx.GraphProto, given: Mapping[str, TensorFacts], index: GraphIndex, computed: Collection[str]
) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.CopyFrom(onnx.ModelProto(ir_version=index.model.ir_version, opset_import=index.model.opset_import))
    model.graph.CopyFrom(graph)
    for value in model.graph.input:
        _complete(value, given.get(value.name, TensorFacts(None, None)))
    outside = set(captured(graph))
    model.graph.input.extend(_value(name, index.facts(name)) for name in sorted(outside & set(computed)))
    outside -= set(computed)
    there = {tensor.name: tensor for tensor in index.model.graph.initializer}
    made = {name: node for node in index.model.graph.node if node.op_type == "Constant" for name in node.output}
    constants = [made[name] for name in sorted(outside & made.keys())]
    for place, node in enumerate(constants):
        model.graph.node.insert(place, node)
    for name in sorted(outside - made.keys()):
        small = name in there and tensor_bytes(there[name]) <= _VALUES_READ
        if small:
            model.graph.initializer.append(there[name])
        elif name in there or index.facts(name).shape is not None:
            model.graph.initializer.append(_without_values(name, index.facts(name)))
    return model


def _complete(value: onnx.ValueInfoProto, facts: TensorFacts) -> None:
    """Give the input of a body the type and shape that it has outside, where it declares less."""
    if value.type.WhichOneof("value") not in (None, "tensor_type"):
        return
    shape = value_shape(value)
    whole = shape is not None and all(isinstance(dim, int) for dim in shape)
    element = value.type.tensor_type.elem_type or _element(facts)
    if not whole and facts.shape is not None:
        shape = facts.shape
    value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, element, shape))


def _value(name: str, facts: TensorFacts) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, _element(facts), facts.shape)


def _without_values(name: str, facts: TensorFacts) -> onnx.TensorProto:
    """Return a constant of which only the shape is known, marked as external data so that nothing reads it."""
    dims = [dim if isinstance(dim, int) else 1 for dim in facts.shape or ()]
    tensor = onnx.TensorProto(name=name, data_type=_element(facts), dims=dims)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights")
    return tensor


def _element(facts: TensorFacts) -> int:
    if facts.dtype is None:
        return int(onnx.TensorProto.FLOAT)
    if facts.dtype == "string":
        return int(onnx.TensorProto.STRING)
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(facts.dtype)))
