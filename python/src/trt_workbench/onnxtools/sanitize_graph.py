"""Reading and rewiring a graph, its subgraphs included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import numpy_helper

from trt_workbench.model.constants import Array, constant_value
from trt_workbench.model.proto import is_external, value_shape
from trt_workbench.model.tensor_checks import declared_bytes

# Shapes by tensor, None for a dynamic dimension.
Dims = dict[str, list[int | None]]


# Smaller tensors may be shapes, indices and masks, whose values rewrites read.
_LARGE_WEIGHT = 1 << 20


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the initialisers, which is nearly all of a large model; protobuf cannot say it above 2 GiB."""
    return sum(map(tensor_bytes, model.graph.initializer))


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """Return the size of a tensor's values as raw data, wherever they are: in a field of their type, or in a file."""
    if tensor.raw_data:
        return len(tensor.raw_data)
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    if tensor.data_type == onnx.TensorProto.UNDEFINED:
        return 0
    return declared_bytes(tensor)


@contextmanager
def without_weights(model: onnx.ModelProto) -> Iterator[dict[str, bytes]]:
    """Take large initialisers' bytes out of the model while the block runs, so that protobuf can handle it.

    They are marked as external data meanwhile, and are raw data afterwards. Yields the bytes by name.
    """
    taken: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        held = not is_external(tensor) and tensor.data_type != onnx.TensorProto.STRING
        if held and tensor_bytes(tensor) > _LARGE_WEIGHT:
            if not tensor.raw_data:
                raw = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
                tensor.ClearField(onnx.helper.tensor_dtype_to_field(tensor.data_type))
                tensor.raw_data = raw
            taken[tensor.name] = tensor.raw_data
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights")
    try:
        yield taken
    finally:
        for tensor in model.graph.initializer:
            if tensor.name in taken and is_external(tensor):
                tensor.raw_data = taken[tensor.name]
                tensor.ClearField("data_location")
                del tensor.external_data[:]


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in a node's attributes, such as the branches of an If."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def use_counts(graph: onnx.GraphProto) -> Counter[str]:
    """Count how often each tensor is read, by nodes, by subgraphs that capture it, and as an output of the graph."""
    counts = Counter(value.name for value in graph.output)
    for node in graph.node:
        counts.update(name for name in node.input if name)
        for inner in subgraphs(node):
            counts.update(use_counts(inner))
    return counts


def rename_uses(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Make every reader of `old` read `new`, within subgraphs too where the name is not taken by their own tensor."""
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name == old:
                node.input[place] = new
        for inner in subgraphs(node):
            own = {value.name for value in inner.input} | {name for part in inner.node for name in part.output}
            if old not in own:
                rename_uses(inner, old, new)
                for value in inner.output:
                    if value.name == old:
                        value.name = new


def remove_nodes(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    """Take nodes out of the graph, by identity."""
    # by place, not by copying: callers hold on to the nodes that stay
    gone = {id(node) for node in nodes}
    for place in reversed([place for place, node in enumerate(graph.node) if id(node) in gone]):
        del graph.node[place]


def remove_unread(graph: onnx.GraphProto, names: Iterable[str]) -> None:
    """Remove those constants of these names, initialisers or Constant nodes, that nobody reads."""
    gone = set(names) - use_counts(graph).keys()
    for tensor in [one for one in graph.initializer if one.name in gone]:
        graph.initializer.remove(tensor)
    remove_nodes(graph, [node for node in graph.node if node.op_type == "Constant" and node.output[0] in gone])


def remove_unused(model: onnx.ModelProto) -> list[str]:
    """Remove nodes whose outputs nobody reads, and initialisers likewise."""
    graph = model.graph
    changed: list[str] = []
    while True:
        counts = use_counts(graph)
        gone = [node for node in graph.node if not any(counts[name] for name in node.output if name)]
        if not gone:
            break
        changed += [f"{node.op_type} {node.name}" for node in gone]
        remove_nodes(graph, gone)
    for tensor in list(graph.initializer):
        if not counts[tensor.name]:
            graph.initializer.remove(tensor)
            changed.append(f"initialiser {tensor.name}")
    return changed


def bypass(graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    """Let the readers of a node's first output read its first input; the node stays, without readers.

    Returns:
        False if the output is one of the graph's, whose name has to stay.
    """
    if node.output[0] in {value.name for value in graph.output}:
        return False
    rename_uses(graph, node.output[0], node.input[0])
    return True


def constants(graph: onnx.GraphProto) -> dict[str, Array]:
    """Return the values of initialisers and Constant nodes by name; a graph input with a default is no constant.

    Values that `without_weights` took out are not known.
    """
    defaults = {value.name for value in graph.input}
    inside = (tensor for tensor in graph.initializer if tensor.name not in defaults and not is_external(tensor))
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in inside}
    for node in graph.node:
        if node.op_type == "Constant" and (value := constant_value(node)) is not None:
            found[node.output[0]] = value
    return found


def static_dims(inferred: onnx.GraphProto) -> Dims:
    """Return the dimensions of every tensor of a graph, shapes inferred, whose rank is known."""
    dims: Dims = {tensor.name: list(tensor.dims) for tensor in inferred.initializer}
    for value in (*inferred.value_info, *inferred.input, *inferred.output):
        shape = value_shape(value)
        if shape is not None:
            dims[value.name] = [dim if isinstance(dim, int) else None for dim in shape]
    return dims


def set_constant(graph: onnx.GraphProto, name: str, value: Array) -> None:
    """Make `name` an initialiser with `value`, in place of an initialiser or Constant node of that name."""
    for tensor in [tensor for tensor in graph.initializer if tensor.name == name]:
        graph.initializer.remove(tensor)
    remove_nodes(graph, [node for node in graph.node if node.op_type == "Constant" and node.output[0] == name])
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))


def fresh_name(graph: onnx.GraphProto, stem: str) -> str:
    """Return a tensor name that the graph does not have."""
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken |= {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    return next(name for number in range(len(taken) + 1) if (name := f"{stem}_{number}") not in taken)
