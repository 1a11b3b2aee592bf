"""The formats below fp16 that stand in a model's graph, and bf16: what not every runtime has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import onnx
from onnx import TensorProto

from trt_workbench.model.proto import STANDARD, integer
from trt_workbench.model.reading import all_graphs, all_tensors

TENSORRT_DOMAIN: Final = "trt"
"""Of TensorRT's own ONNX operators."""
SIMULATED = ("nvfp4", "fp4", "mxfp8", "fp8", "bf16")
"""What ONNX Runtime's CPU provider does not run."""
TENSORRT_FROM = {"fp8": 10, "int4": 10, "bf16": 10, "mxfp8": 10, "fp4": 10, "nvfp4": 11}
"""Major version of TensorRT that a format needs; activations in NVFP4 need 11."""
NVFP4_BLOCK = 16

_FLOAT8 = {value: "fp8" for name, value in TensorProto.DataType.items() if name.startswith("FLOAT8E")}
_INTEGERS = dict.fromkeys((TensorProto.INT8, TensorProto.UINT8), "int8")
_INT4 = dict.fromkeys((TensorProto.INT4, TensorProto.UINT4), "int4")
_KINDS = {**_FLOAT8, **_INTEGERS, **_INT4, TensorProto.FLOAT4E2M1: "fp4"}
_OPERATORS = {
    "TRT_FP8QuantizeLinear": "fp8",
    "TRT_FP8DequantizeLinear": "fp8",
    "TRT_MXFP8DynamicQuantize": "mxfp8",
    "TRT_MXFP8DequantizeLinear": "mxfp8",
    "TRT_FP4DynamicQuantize": "nvfp4",
    "TRT_INT4QuantizeLinear": "int4",
    "TRT_INT4DequantizeLinear": "int4",
}
_INTEGER_OPERATORS = ("QLinear", "ConvInteger", "MatMulInteger", "QGemm", "QAttention", "DynamicQuantizeLinear")


def narrow_formats(model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the formats that a graph computes or holds weights in, below fp16, and bf16; weights are not read.

    They are "nvfp4", "fp4", "mxfp8", "fp8", "int4", "int8", "bf16", in this order. The scales of NVFP4, which are fp8
    themselves, do not count.
    """
    graphs = list(all_graphs(model))
    tensors = {tensor.name: tensor.data_type for tensor in all_tensors(model, graphs)}
    nodes = [node for graph in graphs for node in graph.node]
    nodes += [node for function in model.functions for node in function.node]
    for node in [one for one in nodes if one.op_type == "Constant" and one.output]:
        tensors |= dict.fromkeys(node.output, max((entry.t.data_type for entry in node.attribute), default=0))
    values = [value for graph in graphs for value in (*graph.input, *graph.output)]
    found = {"bf16"} if TensorProto.BFLOAT16 in {*tensors.values(), *_value_types(values), *_targets(nodes)} else set()
    found |= {_FLOAT8[kind] for kind in _targets(nodes) if kind in _FLOAT8}
    scales = {node.input[1] for node in nodes if is_widening(node) and len(node.input) > 1}
    for node in nodes:
        if node.domain == TENSORRT_DOMAIN and node.op_type in _OPERATORS:
            found.add(_OPERATORS[node.op_type])
        elif node.domain in STANDARD and node.op_type == "QuantizeLinear":
            told = tensors.get(node.input[2]) if len(node.input) > 2 else integer(node, "output_dtype")
            found.add(_KINDS.get(told or TensorProto.UINT8, "int8"))
        elif is_widening(node) and tensors.get(node.input[0]) in _KINDS and not set(node.output) & scales:
            found.add(widened_from(node, tensors[node.input[0]]) or "int8")
        elif any(node.op_type.startswith(name) for name in _INTEGER_OPERATORS):
            found.add("int8")
    return tuple(name for name in ("nvfp4", "fp4", "mxfp8", "fp8", "int4", "int8", "bf16") if name in found)


def is_widening(node: onnx.NodeProto) -> bool:
    """Whether a node makes floats of codes and scales."""
    whole = bool(node.input and node.output)
    return whole and node.op_type.endswith("DequantizeLinear") and node.domain in (*STANDARD, TENSORRT_DOMAIN)


def widened_from(node: onnx.NodeProto, kind: int) -> str | None:
    """Return the format of a widening node's codes of element type `kind`; None for a type that is no format."""
    if node.op_type in _OPERATORS:
        return _OPERATORS[node.op_type]
    if kind == TensorProto.FLOAT4E2M1 and integer(node, "block_size") == NVFP4_BLOCK:
        return "nvfp4"
    return _KINDS.get(kind)


def _targets(nodes: Iterable[onnx.NodeProto]) -> set[int]:
    """Return the element types that nodes make by name."""
    own = [node for node in nodes if node.domain in STANDARD]
    return {entry.i for node in own for entry in node.attribute if entry.name in ("to", "output_dtype", "dtype")}


def _value_types(values: Iterable[onnx.ValueInfoProto]) -> set[int]:
    return {value.type.tensor_type.elem_type for value in values}
