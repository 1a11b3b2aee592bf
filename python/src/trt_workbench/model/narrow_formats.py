"""The formats below fp16 that stand in a model's graph, and bf16: what not every runtime has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto

from trt_workbench.core.precision import FORMATS, get, names
from trt_workbench.model.constants import constants
from trt_workbench.model.proto import STANDARD, codes, integer, kinds, kinds_where
from trt_workbench.model.reading import all_tensors
from trt_workbench.model.walking import all_graphs, all_nodes

TENSORRT_DOMAIN: Final = "trt"
"""Of TensorRT's own ONNX operators."""

# Codes, whose values have scales.
_CODES = codes()
_SMALL_FLOATS = {kind: name for kind, name in _CODES.items() if "INT" not in TensorProto.DataType.Name(kind)}
_OPERATORS = {operator: one.name for one in FORMATS for operator in one.operators}
_INTEGER_OPERATORS = ("QLinear", "ConvInteger", "MatMulInteger", "QGemm", "QAttention", "DynamicQuantizeLinear")


def narrow_formats(model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the formats that a graph computes or holds weights in, below fp16, and bf16; weights are not read.

    They are in the order of the table, the coarsest first. The scales of NVFP4, which are fp8 themselves, do not count.
    """
    graphs = list(all_graphs(model))
    tensors = {tensor.name: tensor.data_type for tensor in all_tensors(model, graphs)}
    nodes = list(all_nodes(model))
    for node in [one for one in nodes if one.op_type == "Constant" and one.output]:
        tensors |= dict.fromkeys(node.output, max((entry.t.data_type for entry in node.attribute), default=0))
    values = {value.type.tensor_type.elem_type for graph in graphs for value in (*graph.input, *graph.output)}
    halves = kinds_where(lambda one: not one.cpu and not one.is_quantised)
    found = {halves[kind] for kind in (*tensors.values(), *values, *_targets(nodes)) if kind in halves}
    found |= {_SMALL_FLOATS[kind] for kind in _targets(nodes) if kind in _SMALL_FLOATS}
    scales = {node.input[1] for node in nodes if is_widening(node) and len(node.input) > 1}
    for node in nodes:
        if node.domain == TENSORRT_DOMAIN and node.op_type in _OPERATORS:
            found.add(_OPERATORS[node.op_type])
        elif node.domain in STANDARD and node.op_type == "QuantizeLinear":
            declared = tensors.get(node.input[2]) if len(node.input) > 2 else integer(node, "output_dtype")
            found.add(_CODES.get(declared or TensorProto.UINT8, "int8"))
        elif is_widening(node) and tensors.get(node.input[0]) in _CODES and not set(node.output) & scales:
            found.add(widened_from(node, tensors[node.input[0]]) or "int8")
        elif any(node.op_type.startswith(name) for name in _INTEGER_OPERATORS):
            found.add("int8")
    known = names()
    return tuple(sorted(found, key=lambda name: known.index(name) if name in known else -1))


def input_ranges(model: onnx.ModelProto) -> dict[str, tuple[float, float]]:
    """Return the range that calibration found for inputs of the graph that are quantised at once, by input."""
    graph, found = model.graph, dict[str, tuple[float, float]]()
    inputs, known = {value.name for value in graph.input}, constants(graph)
    for node in graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] in inputs and node.input[1] in known:
            zero = known.get(node.input[2], np.array(0.0)) if len(node.input) > 2 else np.zeros((), np.uint8)
            if zero.dtype.kind in "iu":
                levels = 2.0 ** (8 * zero.dtype.itemsize)
                least = 0.0 if zero.dtype.kind == "u" else -levels / 2
                scale, shift = known[node.input[1]].astype(np.float64), zero.astype(np.float64)
                low, high = ((end - shift) * scale for end in (least, least + levels - 1))
                found[node.input[0]] = float(low.min()), float(high.max())
    return found


def is_narrowing(node: onnx.NodeProto) -> bool:
    """Whether a node makes codes of floats."""
    own = node.domain in (*STANDARD, TENSORRT_DOMAIN)
    return own and node.op_type.endswith(("QuantizeLinear", "DynamicQuantize")) and not is_widening(node)


def is_widening(node: onnx.NodeProto) -> bool:
    """Whether a node makes floats of codes and scales."""
    whole = bool(node.input and node.output)
    return whole and node.op_type.endswith("DequantizeLinear") and node.domain in (*STANDARD, TENSORRT_DOMAIN)


def widened_from(node: onnx.NodeProto, kind: int) -> str | None:
    """Return the format of a widening node's codes of element type `kind`; None for a type that is no format."""
    if node.op_type in _OPERATORS:
        return _OPERATORS[node.op_type]
    if kind in kinds("fp4") and integer(node, "block_size") == get("nvfp4").block:
        return "nvfp4"
    return _CODES.get(kind)


def _targets(nodes: Iterable[onnx.NodeProto]) -> set[int]:
    """Return the element types that nodes make by name."""
    own = [node for node in nodes if node.domain in STANDARD]
    return {entry.i for node in own for entry in node.attribute if entry.name in ("to", "output_dtype", "dtype")}
