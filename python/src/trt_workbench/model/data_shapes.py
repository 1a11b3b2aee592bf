"""Which outputs of a graph have a shape that depends on values, not on the shapes of the inputs alone."""

from __future__ import annotations

import onnx

from trt_workbench.model.proto import operator_name
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
        sizes = [node.input[place] for place in _size_inputs(node) if place < len(node.input) and node.input[place]]
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


def _size_inputs(node: onnx.NodeProto) -> tuple[int, ...]:
    return (1,) if node.op_type.startswith("Reduce") else _SIZES.get(node.op_type, ())
