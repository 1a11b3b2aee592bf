"""The precision of an ONNX graph: the types that its arithmetic nodes compute in, and those of its weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx
from onnx import TensorProto

from trt_workbench.core.precision import FORMATS, find
from trt_workbench.model.editing import inlined
from trt_workbench.model.narrow_formats import is_widening, widened_from
from trt_workbench.model.opened import Model, once
from trt_workbench.model.precision import Precision, shares_of
from trt_workbench.model.proto import codes, codes_of, integer, kinds_where
from trt_workbench.model.walking import Scope, subgraphs

_FLOATS = kinds_where(lambda one: not one.is_quantised)
_NAMES = codes() | _FLOATS

# Nodes that multiply their first two inputs and add, where a model's time goes.
_ARITHMETIC = frozenset(
    {"Conv", "ConvTranspose", "DeformConv", "Gemm", "MatMul", "Einsum", "LSTM", "GRU", "RNN", "Attention"}
    | {"FusedConv", "NhwcFusedConv", "FusedMatMul", "FusedGemm", "MultiHeadAttention", "GroupQueryAttention"}
)
_IN_INT8 = frozenset(
    {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "QGemm", "QAttention", "MatMulIntegerToFloat"}
    | {"DynamicQuantizeMatMul", "QOrderedMatMul"}
)
# Weights of a few bits that are widened inside the kernel: it computes in the type of its input.
_PACKED_WEIGHTS = frozenset({"MatMulNBits", "MatMulBnb4", "GatherBlockQuantized"})
# Their attribute `accuracy_level` of this value lets ONNX Runtime round the activations to int8.
_ACTIVATIONS_INT8 = 4
# What passes values on without computing: between a DequantizeLinear and what uses it.
_PASSES_ON = frozenset(
    {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Expand", "Flatten", "Slice", "ReorderInput"}
)
_NO_COMPUTATION = _PASSES_ON | {
    "Cast", "CastLike", "Constant", "ConstantOfShape", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
    "TRT_FP4DynamicQuantize", "TRT_MXFP8DynamicQuantize", "TRT_MXFP8DequantizeLinear", "TRT_FP8QuantizeLinear",
    "TRT_FP8DequantizeLinear", "Concat", "Split", "Gather", "Pad", "If", "Loop", "Scan", "ReorderOutput",
}  # fmt: skip
# What these nodes make, those of TensorRT's domain among them.
_MAKES: Mapping[str, int] = {
    **{name: codes_of(one) for one in FORMATS for name in one.operators if not name.endswith("DequantizeLinear")},
    **dict.fromkeys(("Shape", "Size", "NonZero", "ArgMax", "ArgMin"), TensorProto.INT64),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), TensorProto.BOOL),
    **dict.fromkeys(("Not", "And", "Or", "IsNaN"), TensorProto.BOOL),
    "DynamicQuantizeLinear": TensorProto.UINT8,
}
# Whose result has the type of another input than the first: the place of that, and the type without it.
_AS_INPUT = {"CastLike": (1, 0), "DequantizeLinear": (1, 0), "QuantizeLinear": (2, TensorProto.UINT8)}


@dataclass
class _Found:
    """What is counted while the graphs are walked: arithmetic by the type asked for and the one it computes in."""

    arithmetic: Counter[tuple[str, str]] = field(default_factory=Counter)
    others: Counter[tuple[str, str]] = field(default_factory=Counter)
    weights: Counter[str] = field(default_factory=Counter)
    results: dict[str, str] = field(default_factory=dict)

    @property
    def counted(self) -> tuple[Counter[tuple[str, str]], str]:
        """What determines the precision, and what it counts."""
        return (self.arithmetic, "arithmetic nodes") if self.arithmetic else (self.others, "nodes")


@dataclass
class _Scope(Scope):
    """Element types of a graph's tensors, the nodes that make them, and its weights."""

    types: dict[str, int]
    producers: dict[str, onnx.NodeProto]
    weights: dict[str, onnx.TensorProto]


@once
def read_precision(opened: Model) -> Precision:
    """Return what an ONNX graph computes in.

    Nodes that multiply and add are counted, each with the type of the values that it multiplies: one whose operands
    all come from DequantizeLinear counts as quantised, as runtimes fuse them; where only the weights do, it computes in
    the type of its other operand. A graph without such nodes is judged by all that compute on floats. Weights are
    counted by elements.
    """
    model = opened.proto
    from trt_workbench.model.low_precision.evidence import is_calibrated

    found = _walked(model)
    counts, unit = found.counted
    asked = [name for (name, _), count in counts.items() for _ in range(count)]
    calibrated = is_calibrated({entry.key: entry.value for entry in model.metadata_props})
    weights = shares_of(found.weights)
    return Precision(shares_of(asked), unit, counts.total(), "graph", weights, calibrated=calibrated)


def as_optimised(graph: onnx.ModelProto, asked: Precision) -> Precision:
    """Return what a runtime computes in, by the graph that it has made of a model: with its own fused operators.

    A product whose factors all come from DequantizeLinear still is computed in floats there: what the model asks for is
    simulated.

    Args:
        graph: as the runtime has optimised it.
        asked: of the model itself.
    """
    counts, unit = _walked(graph).counted
    if not counts:
        return asked
    names = [name for (name, _), count in counts.items() for _ in range(count)]
    low = Counter({pair: count for pair, count in counts.items() if _bits(pair[0]) < 32})
    native = sum(count for (name, computed), count in low.items() if name == computed) / (low.total() or 1)
    return replace(
        asked,
        shares=shares_of(names),
        unit=unit,
        counted=counts.total(),
        source="optimised graph",
        native=native if low else 1.0,
    )


def computed_results(model: onnx.ModelProto) -> dict[str, str]:
    """Return the types of the floats that nodes compute, by tensor; values that are only moved are left out."""
    return _walked(model).results


def _walked(model: onnx.ModelProto) -> _Found:
    found = _Found()
    _walk(inlined(model).graph, _Scope({}, {}, {}), found)
    return found


def _walk(graph: onnx.GraphProto, scope: _Scope, found: _Found) -> None:
    for tensor in graph.initializer:
        scope.types[tensor.name], scope.weights[tensor.name] = tensor.data_type, tensor
    for value in (*graph.value_info, *graph.input, *graph.output):
        if value.type.tensor_type.elem_type:
            scope.types.setdefault(value.name, value.type.tensor_type.elem_type)
    for node in graph.node:
        for inner in subgraphs([node]):
            seen = scope.inside(inner)
            _walk(inner, seen, found)
            # a Loop's first output is its condition
            outer = [value.name for value in inner.output][len(inner.output) - len(node.output) :]
            known = [(name, seen.types.get(own)) for name, own in zip(node.output, outer, strict=False)]
            scope.types |= {name: kind for name, kind in known if kind}
        made = output_type(node, scope.types)
        for name in filter(None, node.output):
            scope.types.setdefault(name, made)
            scope.producers[name] = node
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.HasField("t"):
                    scope.types[node.output[0]], scope.weights[node.output[0]] = attribute.t.data_type, attribute.t
        _count(node, scope, found)
    _count_weights(graph, scope, found)


def _count(node: onnx.NodeProto, scope: _Scope, found: _Found) -> None:
    operator = node.op_type
    computed = None if operator in _NO_COMPUTATION else _FLOATS.get(scope.types.get(next(iter(node.output), ""), 0))
    if computed:
        found.results |= {name: computed for name in node.output if scope.types.get(name) in _FLOATS}
    if operator in _IN_INT8 or (operator in _PACKED_WEIGHTS and integer(node, "accuracy_level") == _ACTIVATIONS_INT8):
        found.arithmetic["int8", "int8"] += 1
    elif operator.startswith("QLinear"):
        found.others["int8", "int8"] += 1
    elif operator in _PACKED_WEIGHTS:
        if name := _NAMES.get(scope.types.get(node.input[0], 0)):
            found.arithmetic[name, name] += 1
    elif operator in _ARITHMETIC:
        if types := _computes_in(node, scope):
            found.arithmetic[types] += 1
    elif computed:
        found.others[computed, computed] += 1


def _computes_in(node: onnx.NodeProto, scope: _Scope) -> tuple[str, str] | None:
    """Return the type that a node multiplies its first inputs in as its graph asks, and the type that they have.

    None for integers, which compute shapes.
    """
    operands = list(filter(None, node.input))[:2]
    floats = [_FLOATS[scope.types[name]] for name in operands if scope.types.get(name) in _FLOATS]
    quantised = [name for operand in operands if (name := _quantised_type(operand, scope))]
    if quantised and len(quantised) == len(operands):
        # a wider operand decides: int4 weights are widened to meet int8 values
        return max(quantised, key=_bits), next(iter(floats), "fp32")
    return (floats[0], floats[0]) if floats else None


def _bits(name: str) -> int:
    row = find(name)
    return row.bits if row else 0


def _quantised_type(name: str, scope: _Scope) -> str | None:
    """Return the quantised type that a tensor was widened from by a DequantizeLinear."""
    for _ in range(8):  # a chain of more nodes that pass a value on is no quantised operand
        node = scope.producers.get(name)
        if node is None or not node.input:
            return None
        if is_widening(node):
            kind = scope.types.get(node.input[0], 0)
            return widened_from(node, kind) or _NAMES.get(kind)
        if node.op_type not in _PASSES_ON:
            return None
        name = node.input[0]
    return None


def output_type(node: onnx.NodeProto, types: Mapping[str, int]) -> int:
    """Return the element type of a node's first output; 0 if unknown."""
    operator = node.op_type
    if operator in _MAKES:
        return _MAKES[operator]
    attributes = {entry.name: entry for entry in node.attribute}
    inputs = [types.get(name, 0) for name in node.input]
    for name in ("to", "output_dtype", "dtype"):
        if name in attributes and attributes[name].i:
            return int(attributes[name].i)
    if operator in _AS_INPUT:
        place, otherwise = _AS_INPUT[operator]
        return next(iter(inputs[place : place + 1]), 0) or otherwise
    if operator == "ConstantOfShape":
        return attributes["value"].t.data_type if "value" in attributes else TensorProto.FLOAT
    if operator == "Where":
        inputs = inputs[1:]
    if operator == "Constant":
        return TensorProto.FLOAT if {"value_float", "value_floats"} & attributes.keys() else TensorProto.INT64
    return (inputs[0] if inputs[:1] and inputs[0] in _NAMES else 0) or next(
        (one for one in inputs if one in _FLOATS), inputs[0] if inputs else 0
    )


def _count_weights(graph: onnx.GraphProto, scope: _Scope, found: _Found) -> None:
    """Count the elements of a graph's own weights: scales and zero points are none, nor are single values."""
    kept_as: dict[str, str] = {}
    packed: dict[str, int] = {}
    not_weights: set[str] = set()
    scales = {node.input[1] for node in graph.node if is_widening(node) and len(node.input) > 1}
    for node in graph.node:
        if node.op_type == "QuantizeLinear" or is_widening(node):
            not_weights.update(node.input[1:])
        if is_widening(node) and (kind := widened_from(node, scope.types.get(node.input[0], 0))):
            kept_as[node.input[0]] = kind
            if node.output[0] in scales:
                not_weights.add(node.input[0])
        if node.op_type == "QuantizeLinear":  # fp32 in the file, quantised before it is used
            kept_as[node.input[0]] = _NAMES.get(scope.types.get(node.output[0], 0), "int8")
        if node.op_type in _PACKED_WEIGHTS and len(node.input) > 1:
            bits = next((int(entry.i) for entry in node.attribute if entry.name == "bits" and 0 < entry.i <= 8), 4)
            kept_as[node.input[1]], packed[node.input[1]] = f"int{bits}", 8 // bits
            not_weights.update(node.input[2:])
    fixed = [node for node in graph.node if node.op_type == "Constant"]
    named = [node.output[0] for node in fixed if any(entry.name == "value" for entry in node.attribute)]
    for name in (*(tensor.name for tensor in graph.initializer), *named):
        tensor = scope.weights[name]
        elements, kind = math.prod(tensor.dims) * packed.get(name, 1), kept_as.get(name) or _NAMES.get(tensor.data_type)
        if kind and elements > 1 and name not in not_weights:
            found.weights[kind] += elements
