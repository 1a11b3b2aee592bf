"""A model's main graph, indexed: who makes and uses each tensor, of what type and shape."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from trt_workbench.core.array_files import numpy_dtype
from trt_workbench.model.editing import name_nodes
from trt_workbench.model.proto import Shape, operator_name, value_shape
from trt_workbench.model.weights import inferred, light


@dataclass(frozen=True)
class TensorFacts:
    """Type and shape of a tensor, as far as shape inference finds them; a dynamic dimension is its symbol or None.

    The type is numpy's name, or "string".
    """

    dtype: str | None
    shape: Shape | None

    @property
    def size_bytes(self) -> int | None:
        """Size in memory; None if a dimension or the type is not known before running."""
        if self.dtype in (None, "string") or self.shape is None or not all(isinstance(dim, int) for dim in self.shape):
            return None
        return numpy_dtype(str(self.dtype)).itemsize * math.prod(int(dim or 0) for dim in self.shape)


class GraphIndex:
    """The main graph of a model.

    Attributes:
        nodes: its nodes but Constant, with a name each: `Operator_N` where the file has none.
        producer: tensor to index of the node that makes it.
        users: tensor to indices of the nodes that read it.
        constants: tensors with an initial value.
        renamed: whether the file left nodes without a name or gave one name twice.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        """Index `model`; nodes without a name of their own are named in it."""
        self.model = model
        self.renamed = bool(name_nodes(model.graph.node))
        self.nodes = [node for node in model.graph.node if node.op_type != "Constant"]
        self.producer = {name: place for place, node in enumerate(self.nodes) for name in node.output if name}
        self.users: dict[str, list[int]] = defaultdict(list)
        for place, node in enumerate(self.nodes):
            for name in dict.fromkeys(node.input):
                if name:
                    self.users[name].append(place)
        made = {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
        self.constants = made.union(tensor.name for tensor in model.graph.initializer)
        graph = model.graph
        found = {
            value.name: TensorFacts(_dtype(value.type.tensor_type.elem_type), value_shape(value))
            for value in (*graph.value_info, *graph.input, *graph.output)
        }
        weights = {
            tensor.name: TensorFacts(_dtype(tensor.data_type), tuple(tensor.dims)) for tensor in graph.initializer
        }
        self.tensors = found | weights

    def operator(self, place: int) -> str:
        """Return a node's operator, `domain::Name` outside the standard domain."""
        return operator_name(self.nodes[place])

    def facts(self, name: str) -> TensorFacts:
        """Return type and shape of a tensor."""
        return self.tensors.get(name, TensorFacts(None, None))


def _dtype(element: int) -> str | None:
    if element == onnx.TensorProto.UNDEFINED:
        return None
    if element == onnx.TensorProto.STRING:
        return "string"
    return str(onnx.helper.tensor_dtype_to_np_dtype(element).name)


_SLIDING = frozenset({"AveragePool", "Conv", "LpPool", "MaxPool"})


Sizes = Mapping[str, Sequence[int | str | None]]


def empty_tensors(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> set[str]:
    """Return the inner tensors and outputs that have no elements at these input shapes, as shape inference finds them.

    A pool or convolution whose kernel is larger than what it slides over makes one; runtimes differ there.
    """
    sizes = _sizes_at(model, shapes)
    empty = {name for name, shape in sizes.items() if any(isinstance(dim, int) and dim < 1 for dim in shape)}
    return (empty - shapes.keys()) | {node.output[0] for node in model.graph.node if _slides_off(node, sizes)}


def rounded_sizes(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> list[str]:
    """Return a clause for each size of a Resize that depends on the type in which it is multiplied by its scale."""
    sizes, found = _sizes_at(model, shapes), dict[str, None]()
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    constants |= {node.output[0]: node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"}
    for node in (node for node in model.graph.node if node.op_type in ("Resize", "Upsample")):
        scales = constants.get(node.input[min(2, len(node.input) - 1)], onnx.TensorProto(data_type=1, dims=[0]))
        for size, scale in zip(sizes.get(node.input[0], ()), onnx.numpy_helper.to_array(scales).ravel(), strict=False):
            known = size if isinstance(size, int) else 0
            in_doubles, in_fp32 = int(known * float(scale)), int(np.float32(known) * np.float32(scale))
            if in_doubles != in_fp32:
                product = f"floor({size} * {scale:g}) of {node.name or node.op_type}"
                found[f"{product} is {in_doubles} in doubles, {in_fp32} in fp32"] = None
    return list(found)


def _sizes_at(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> Sizes:
    """Return the shapes of all tensors at these input shapes, as far as shape inference finds them."""
    fixed = light(model)
    del fixed.graph.value_info[:]
    for value in (value for value in fixed.graph.input if value.name in shapes):
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes[value.name], strict=False):
            dim.dim_value = size
    for value in fixed.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        graph = inferred(fixed, data_prop=True).graph
    except Exception:  # as it fails on graphs that runtimes take
        return {}
    sizes = {value.name: value_shape(value) or () for value in (*graph.value_info, *graph.input, *graph.output)}
    return {**sizes, **{tensor.name: tuple(tensor.dims) for tensor in graph.initializer}}


def _slides_off(node: onnx.NodeProto, sizes: Sizes) -> bool:
    """Whether a kernel is larger than what it slides over with its pads: inference rounds that up to a size of 1."""
    attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    kernel = attributes.get("kernel_shape") or (sizes.get(node.input[1], ())[2:] if node.op_type == "Conv" else ())
    if node.op_type not in _SLIDING or attributes.get("auto_pad", b"NOTSET") != b"NOTSET" or not kernel:
        return False
    pads = attributes.get("pads") or [0] * (2 * len(kernel))
    apart = attributes.get("dilations") or [1] * len(kernel)
    over = zip(sizes.get(node.input[0], ())[2:], kernel, apart, pads, pads[len(kernel) :], strict=False)
    return any(
        isinstance(size, int) and isinstance(own, int) and size + before + after < (own - 1) * step + 1
        for size, own, step, before, after in over
    )
