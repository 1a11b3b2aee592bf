"""Which nodes of a graph compute shapes: they read only sizes, lengths and constants, never the data."""

from __future__ import annotations

from collections import defaultdict

import onnx

from trt_workbench.model.proto import operator_name, value_shape
from trt_workbench.model.walking import has_subgraph

# Operators whose output shapes are counted or chosen from values.
_COUNTED = frozenset(
    {"Compress", "NonMaxSuppression", "NonZero", "StringNormalizer", "StringSplit", "ImageDecoder", "Unique"}
)
# A sequence or an optional holds tensors whose shapes no rule here follows.
_CONTAINERS = ("Sequence", "Optional")
# Inputs whose values set the output's shape, in any version of the operator.
_SIZES = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "DFT": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1, 2),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
# Operators of other domains that keep to the shapes of their inputs; any other one is taken to count.
_FOREIGN = frozenset(
    f"com.microsoft::{name}"
    for name in (
        "BiasGelu",
        "DequantizeLinear",
        "FastGelu",
        "FusedConv",
        "FusedGemm",
        "FusedMatMul",
        "Gelu",
        "MatMulNBits",
        "QLinearAdd",
        "QLinearMul",
        "QLinearSigmoid",
        "QuantizeLinear",
        "QuickGelu",
        "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
    )
)


def data_shaped_outputs(graph: onnx.GraphProto) -> frozenset[str]:
    """Return the outputs whose shape may differ between two runs with inputs of the same shapes.

    An output is left out only where each node on the way to it is known to keep to shapes: an operator that is not
    known, control flow, and a node before those that it reads count as depending on the data.
    """
    settled = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    values = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if not _keeps_to_shapes(node):
            continue
        given = [name for name in node.input if name]
        places = (1,) if node.op_type.startswith("Reduce") else _SIZES.get(node.op_type, ())
        sizes = [node.input[place] for place in places if place < len(node.input) and node.input[place]]
        if not settled.issuperset(given) or not values.issuperset(sizes):
            continue
        settled.update(node.output)
        if node.op_type in ("Shape", "Size", "Constant") or (given and values.issuperset(given)):
            values.update(node.output)
    return frozenset(value.name for value in graph.output if value.name not in settled)


def _keeps_to_shapes(node: onnx.NodeProto) -> bool:
    if has_subgraph(node) or node.op_type in _COUNTED or any(word in node.op_type for word in _CONTAINERS):
        return False
    operator = operator_name(node)
    return operator in _FOREIGN or bool(onnx.defs.has(operator))


# What a node is called in a runtime's report: its operator (`domain::Name` outside the standard domain) and its name.
NodeKey = tuple[str, str]
_SOURCES = frozenset({"Shape", "Size", "Constant"})
_INTEGERS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
# Element by element: of a number a row they make a number a row.
_OF_LENGTHS = frozenset({"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Cast", "Identity"})


def shape_nodes(graph: onnx.GraphProto) -> frozenset[NodeKey]:
    """Return the nodes whose values follow from the shapes of tensors, from constants, and from lengths with these.

    A runtime keeps such nodes on the CPU on purpose: their results are needed there to launch the next kernel. A length
    is an integer input of at most one dimension, as the filled part of a cache; what adds a size to it is placed there
    with the size (ONNX Runtime, framework/fallback_cpu_capability.cc). A node without a name is known only by its
    operator, and counts only if every such node does.
    """
    constant = {tensor.name for tensor in graph.initializer}
    lengths = {one.name for one in graph.input if _is_length(one)} - constant
    from_shapes: dict[NodeKey, list[bool]] = defaultdict(list)
    for node in graph.node:
        of_length = node.op_type in _OF_LENGTHS and bool(constant.intersection(node.input))
        computes = node.op_type in _SOURCES or (
            bool(node.input)
            and all(not name or name in constant or (of_length and name in lengths) for name in node.input)
        )
        if computes and not has_subgraph(node):
            # a mask that is made of a length is data
            (lengths if lengths.intersection(node.input) else constant).update(node.output)
        from_shapes[operator_name(node), node.name].append(computes and not has_subgraph(node))
    return frozenset(key for key, found in from_shapes.items() if all(found))


def _is_length(value: onnx.ValueInfoProto) -> bool:
    shape = value_shape(value)
    return value.type.tensor_type.elem_type in _INTEGERS and shape is not None and len(shape) <= 1
