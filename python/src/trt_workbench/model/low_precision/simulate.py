"""Formats that ONNX Runtime's CPU provider cannot run, computed in fp32 with exactly the formats' values.

Tensors in a narrow type become fp32 tensors of the values that their codes stand for, scales included; constants are
widened, and what quantises is written in standard operators that round as the format does. fp16 and bf16 are fp32 whose
every result is rounded to them, beyond their range to infinity: products sum in fp32, as hardware does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, version_converter

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import get
from trt_workbench.model.constants import Array, constant_value
from trt_workbench.model.editing import Names, NodeWriter, inlined, rename_uses, replace_nodes
from trt_workbench.model.graph_types import output_type
from trt_workbench.model.low_precision import formats
from trt_workbench.model.low_precision.recurrent_steps import step_by_step
from trt_workbench.model.low_precision.rounding_nodes import (
    in_rows,
    keep_nan,
    largest,
    not_zero,
    power_of_two,
    rounded,
    shaped_like,
)
from trt_workbench.model.narrow_formats import TENSORRT_DOMAIN
from trt_workbench.model.noise import MOVES
from trt_workbench.model.proto import SCALES, STANDARD, copied, integer, kinds_where, opset
from trt_workbench.model.walking import Scope, all_nodes, has_subgraph, reads, subgraphs
from trt_workbench.model.weights import inferred


def widen_type(kind: onnx.TypeProto, kinds: Collection[int]) -> None:
    """Let a tensor, or what a sequence or an optional value holds, be fp32 in place of a type of `kinds`."""
    which = kind.WhichOneof("value")
    if which == "tensor_type" and kind.tensor_type.elem_type in kinds:
        kind.tensor_type.elem_type = TensorProto.FLOAT
    elif which in ("sequence_type", "optional_type"):
        widen_type(getattr(kind, which).elem_type, kinds)


def keep_types(graph: onnx.GraphProto, types: Mapping[str, int], writer: NodeWriter) -> None:
    """Let inputs and outputs of a model, which are fp32 in its graph, have these types, by a Cast behind and before.

    Args:
        graph: of the model; changed.
        types: element types by name, of those that are to be kept. Inputs with an initial value stay fp32.
        writer: names what is made.
    """
    initial = {tensor.name: tensor for tensor in graph.initializer}
    inputs = {value.name for value in graph.input}
    before: list[onnx.NodeProto] = []
    for value in [one for one in graph.input if one.name in types and one.name not in initial]:
        value.type.tensor_type.elem_type = types[value.name]
        rename_uses(graph, {value.name: writer.node("Cast", value.name, to=TensorProto.FLOAT)})
        before += writer.taken()
    for value in [one for one in graph.output if one.name in types]:
        value.type.tensor_type.elem_type = types[value.name]
        if value.name in inputs:
            continue
        inner = writer.fresh()
        rename_uses(graph, {value.name: inner})
        for node in graph.node:
            node.output[:] = [inner if name == value.name else name for name in node.output]
        if value.name in initial:
            initial[value.name].name = inner
        writer.node("Cast", inner, output=value.name, to=types[value.name])
    replace_nodes(graph, [*before, *graph.node, *writer.taken()])


# What is widened: codes with scales, powers of two that scale them, and floats that are rounded to.
_NARROW = {**kinds_where(lambda one: one.is_quantised and not one.cpu), **dict.fromkeys(SCALES, "e8m0")}
_NAMES = _NARROW | kinds_where(lambda one: not one.is_quantised and not one.cpu)
_HALVES = kinds_where(lambda one: one.is_half)
# Nodes of TensorRT's domain that do what ONNX's own do.
_WIDENS = frozenset({"DequantizeLinear", "TRT_FP8DequantizeLinear", "TRT_MXFP8DequantizeLinear"})
_NARROWS = frozenset({"QuantizeLinear", "TRT_FP8QuantizeLinear"})
_MXFP8, _NVFP4 = "TRT_MXFP8DynamicQuantize", "TRT_FP4DynamicQuantize"
_PASSES_ON = frozenset(
    {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Flatten", "Slice", "Concat", "Split"}
)
# Narrow types that values are rounded to by Cast, which knows them from here on.
_CAST = kinds_where(lambda one: one.is_quantised and one.simulation == "cast")
_OLDEST = max((get(name).since for name in _CAST.values()), default=0)
_TYPE_ATTRIBUTES = ("dtype", "output_dtype", "precision")
UNROUNDED = "__unrounded"
"""Ends the name of a result before it is rounded to a half type."""


def simulated(model: onnx.ModelProto, halves: Collection[str] = ("bf16",)) -> onnx.ModelProto:
    """Return a model of standard operators and fp32 that computes with the values of the formats in `model`.

    Args:
        model: with its weights; not changed.
        halves: types of 16 bits that are simulated, of "fp16" and "bf16"; the other one stays in the model.

    Raises:
        UsageProblem: an input or output is in such a format, a node computes in it otherwise than by widening it, or
            blocks of a tensor that is no constant lie along another axis than the last.
    """
    kinds = frozenset({*_NARROW, *kinds_where(lambda one: one.name in halves)})
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type in kinds & {*_NAMES}:
            kind = _NAMES[value.type.tensor_type.elem_type]
            raise UsageProblem(f"{value.name} is in {kind}, which cannot be exchanged with numpy; make it fp32.")
    copy = copied(inlined(model))
    writer = NodeWriter(Names.of(copy), "simulated")
    step_by_step(copy, kinds, writer)
    rewriter = _Rewriter(writer, kinds)
    rewriter.model(copy.graph, inferred(copy).graph)
    if not any(node.domain == TENSORRT_DOMAIN for node in all_nodes(copy)):
        for entry in [entry for entry in copy.opset_import if entry.domain == TENSORRT_DOMAIN]:
            copy.opset_import.remove(entry)
    if opset(copy) < _OLDEST and any(kind in _CAST for kind in rewriter.rounded):
        try:
            copy = version_converter.convert_version(copy, _OLDEST)
        except (RuntimeError, ValueError, IndexError) as error:
            raise UsageProblem(
                f"The model's operator set {opset(copy)} is too old for its formats ({error})."
            ) from error
    copy.ir_version = max(copy.ir_version, 9)
    return copy


@dataclass
class _Tensors(Scope):
    """What is known of the tensors that a graph sees.

    Attributes:
        types: element types in the model as it was.
        ranks: numbers of dimensions.
        given: constants of the model.
        folded: values of constants that stand in place of nodes, or of narrow ones.
        compound: sequences and their like: what they hold is rounded already.
    """

    types: dict[str, int] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    given: dict[str, onnx.TensorProto] = field(default_factory=dict)
    folded: dict[str, Array] = field(default_factory=dict)
    compound: set[str] = field(default_factory=set)


class _Rewriter:
    """Rewrites graphs in place.

    Attributes:
        rounded: types that results are rounded to.
    """

    def __init__(self, writer: NodeWriter, kinds: frozenset[int]) -> None:
        """Rewrite into `writer`; tensors of one of the types `kinds` become fp32."""
        self._writer, self._kinds = writer, kinds
        self._at = _Tensors()
        self.rounded: set[int] = set()

    def model(self, graph: onnx.GraphProto, inferred: onnx.GraphProto) -> None:
        """Rewrite a model's graph; its inputs and outputs keep their types."""
        typed = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
        self.graph(graph, inferred)
        keep_types(graph, {name: kind for name, kind in typed.items() if kind in self._kinds}, self._writer)

    def graph(self, graph: onnx.GraphProto, inferred: onnx.GraphProto) -> None:
        for value in (*inferred.value_info, *inferred.input, *inferred.output):
            if kind := value.type.tensor_type.elem_type:
                self._at.types[value.name] = kind
            if value.type.WhichOneof("value") not in (None, "tensor_type"):
                self._at.compound.add(value.name)
            if value.type.tensor_type.HasField("shape"):
                self._at.ranks[value.name] = len(value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.output):
            widen_type(value.type, self._kinds)
        for tensor in graph.initializer:
            self._at.types[tensor.name], self._at.ranks[tensor.name] = tensor.data_type, len(tensor.dims)
            self._at.given[tensor.name] = tensor
        before = frozenset(self._at.folded)
        nodes: list[onnx.NodeProto] = []
        for node, known in zip(list(graph.node), inferred.node, strict=True):
            for inner, facts in zip(subgraphs([node]), subgraphs([known]), strict=True):
                outer, self._at = self._at, self._at.inside(inner)
                with self._writer.apart():
                    self.graph(inner, facts)
                self._at = outer
            self._node(node)
            nodes += self._writer.taken()
        self._finish(graph, nodes, self._at.folded.keys() - before)

    def _finish(self, graph: onnx.GraphProto, nodes: list[onnx.NodeProto], folded: set[str]) -> None:
        """Set the nodes, and the constants that they read, widened in place of the narrow; `folded` are its own."""
        read = {name for node in nodes for name in reads(node)} | {value.name for value in graph.output}
        own = {value.name for value in graph.input}
        tensors = []
        for tensor in graph.initializer:
            if tensor.data_type == TensorProto.FLOAT16 in self._kinds and tensor.name in read - own:
                # widened when it is loaded, so that the file is no larger
                wide, tensor.name = tensor.name, self._writer.fresh()
                self._writer.node("Cast", tensor.name, output=wide, to=TensorProto.FLOAT)
                tensors.append(tensor)
            elif tensor.data_type in self._kinds and tensor.name in read:
                tensors.append(numpy_helper.from_array(self._as_floats(numpy_helper.to_array(tensor)), tensor.name))
            elif tensor.name in read | own:
                tensors.append(tensor)
        nodes = [*self._writer.taken(), *nodes]
        values = {name: self._at.folded.pop(name) for name in sorted(folded)}
        tensors += [numpy_helper.from_array(value, name) for name, value in values.items() if name in read]
        tensors += self._writer.initializers
        del graph.initializer[:], graph.value_info[:]
        graph.initializer.extend(tensors)
        replace_nodes(graph, nodes)

    def _node(self, node: onnx.NodeProto) -> None:
        operator = node.op_type
        if not integer(node, "saturate", 1) and output_type(node, self._at.types) in _CAST:
            raise UsageProblem(
                f"{operator} {node.name} has saturate=0: values beyond the range become NaN or infinity, which "
                "cannot be simulated on the CPU."
            )
        standard, ours = node.domain in STANDARD, node.domain == TENSORRT_DOMAIN
        kinds = [self._at.types.get(name, 0) for name in node.input]
        if standard and operator == "Constant":
            self._constant(node)
        elif ours and operator in (_MXFP8, _NVFP4):
            self._dynamic(node)
        elif operator in _WIDENS and (ours or kinds[0] in _NARROW):
            self._widen(node)
        elif operator in _NARROWS and (ours or output_type(node, self._at.types) in _NARROW):
            self._narrow(node)
        elif standard and operator == "Cast":
            self._cast(node, kinds[0])
        else:
            if any(kind in _NARROW for kind in kinds) and operator not in _PASSES_ON and not has_subgraph(node):
                kind = next(_NAMES[one] for one in kinds if one in _NARROW)
                raise UsageProblem(
                    f"{operator} {node.name} computes with {kind} codes directly, which cannot be simulated on the CPU."
                )
            self._other(node)

    def _constant(self, node: onnx.NodeProto) -> None:
        value = constant_value(node)
        if value is None:
            self._writer.nodes.append(node)
            return
        name = node.output[0]
        self._at.given[name], self._at.ranks[name] = numpy_helper.from_array(value), value.ndim
        self._at.types[name] = self._at.given[name].data_type
        if self._at.types[name] in self._kinds:
            self._at.folded[name] = self._as_floats(value)
        else:
            self._writer.nodes.append(node)

    def _other(self, node: onnx.NodeProto) -> None:
        """Keep a node; what it makes in a half type is rounded to that, what it passes on is narrow still."""
        for name in node.output:
            if name and not self._at.types.get(name) and name not in self._at.compound:
                self._at.types[name] = output_type(node, self._at.types)
        for entry in node.attribute:
            if entry.name in _TYPE_ATTRIBUTES and entry.i in self._kinds:
                entry.i = TensorProto.FLOAT
            if entry.HasField("t") and entry.t.data_type in self._kinds:
                entry.t.CopyFrom(numpy_helper.from_array(self._as_floats(numpy_helper.to_array(entry.t))))
        half = bool(node.output) and self._at.types.get(node.output[0]) in self._kinds
        exact = node.op_type in MOVES or has_subgraph(node)
        rounds = [] if exact else [name for name in node.output if self._at.types.get(name) in self._kinds - {*_NARROW}]
        plain = {name: self._writer.fresh(f"{name}{UNROUNDED}") for name in rounds}
        node.output[:] = [plain.get(name, name) for name in node.output]
        self._writer.nodes.append(node)
        if half:
            keep_nan(self._writer, node)
        for name in rounds:
            self._round(plain[name], self._at.types[name], name)

    def _cast(self, node: onnx.NodeProto, kind: int) -> None:
        to = integer(node, "to")
        self._at.types[node.output[0]] = to
        if to not in self._kinds:
            self._writer.nodes.append(node)
        elif kind == to:
            self._writer.node("Identity", node.input[0], output=node.output[0])
        else:
            self._round(self._floats(node.input[0]), to, node.output[0])

    def _narrow(self, node: onnx.NodeProto) -> None:
        self._plain_zero(node)
        kind = output_type(node, self._at.types) if node.domain in STANDARD else TensorProto.FLOAT8E4M3FN
        self._at.types[node.output[0]] = kind
        scale = self._per_axis(node)
        self._round(self._writer.node("Div", self._floats(node.input[0]), scale), kind, node.output[0])

    def _widen(self, node: onnx.NodeProto) -> None:
        self._plain_zero(node)
        codes, scale, made = node.input[0], node.input[1], node.output[0]
        kind = integer(node, "output_dtype") or self._at.types.get(scale, TensorProto.FLOAT)
        kind = kind if kind in _HALVES else TensorProto.FLOAT
        self._at.types[made] = kind
        block = integer(node, "block_size")
        constants = self._constant_of(codes), self._constant_of(scale)
        if constants[0] is not None and constants[1] is not None:
            floats = self._as_floats(constants[0]).astype(np.float32)
            of = constants[1]  # bytes are exponents
            scales = formats.e8m0_values(of.view(np.uint8)) if of.dtype == np.uint8 else of.astype(np.float32)
            values = _product(floats, scales, integer(node, "axis", 1), block)
            dtype: Any = onnx.helper.tensor_dtype_to_np_dtype(kind)
            self._at.folded[made] = self._as_floats(values.astype(dtype))
            self._at.ranks[made] = values.ndim
            return
        wide = made if kind == TensorProto.FLOAT else ""
        if not block:
            found = self._writer.node("Mul", self._floats(codes), self._per_axis(node), output=wide)
        else:
            self._last_axis(node)
            rows = in_rows(self._writer, self._floats(codes), block)
            product = self._writer.node("Mul", rows, in_rows(self._writer, self._floats(scale), 1))
            found = shaped_like(self._writer, product, codes, wide)
        if kind in self._kinds:
            self._round(found, kind, made)
        elif kind != TensorProto.FLOAT:
            self._writer.node("Cast", found, output=made, to=kind)

    def _dynamic(self, node: onnx.NodeProto) -> None:
        self._last_axis(node)
        writer, (codes, scales) = self._writer, node.output
        source = self._floats(node.input[0])
        is_mxfp8 = node.op_type == _MXFP8
        rows = in_rows(
            writer, source, integer(node, "block_size", formats.MXFP8_BLOCK if is_mxfp8 else formats.NVFP4_BLOCK)
        )
        tops = largest(writer, rows)
        if is_mxfp8:
            self._at.types[codes], self._at.types[scales] = TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT
            scale = power_of_two(writer, tops)
            found = rounded(writer, writer.node("Div", rows, scale), TensorProto.FLOAT8E4M3FN)
            writer.node("Identity", scale, output=scales)
        else:
            self._at.types[codes] = TensorProto.FLOAT4E2M1
            self._at.types[scales] = TensorProto.FLOAT8E4M3FN
            whole = self._floats(node.input[1])
            share = writer.node("Div", writer.node("Div", tops, writer.constant(np.float32(formats.E2M1_MAX))), whole)
            scale = not_zero(writer, rounded(writer, share, TensorProto.FLOAT8E4M3FN))
            writer.node("Identity", scale, output=scales)
            found = rounded(writer, writer.node("Div", rows, writer.node("Mul", scale, whole)), TensorProto.FLOAT4E2M1)
        self.rounded.add(TensorProto.FLOAT8E4M3FN)
        shaped_like(writer, found, source, codes)

    def _round(self, name: str, kind: int, output: str) -> None:
        self.rounded.add(kind)
        rounded(self._writer, name, kind, output)

    def _as_floats(self, values: Array) -> Array:
        """Return codes as the fp32 values that they stand for; other arrays as they are."""
        known = onnx.helper.np_dtype_to_tensor_dtype(values.dtype) in self._kinds
        return values.astype(np.float32) if known else values

    def _constant_of(self, name: str) -> Array | None:
        """Return the value of a constant, given or folded; codes as codes."""
        if name in self._at.folded and name not in self._at.given:
            return self._at.folded[name]
        return numpy_helper.to_array(self._at.given[name]) if name in self._at.given else None

    def _floats(self, name: str) -> str:
        """Return a tensor in fp32."""
        kind = self._at.types.get(name, TensorProto.FLOAT)
        is_float = kind == TensorProto.FLOAT or kind in self._kinds
        return name if is_float else self._writer.node("Cast", name, to=TensorProto.FLOAT)

    def _per_axis(self, node: onnx.NodeProto) -> str:
        """Return the scale of a node in a shape that meets the tensor's."""
        scale = node.input[1]
        rank = self._at.ranks.get(node.input[0])
        if self._at.ranks.get(scale, 0) != 1 or (scale in self._at.given and self._at.given[scale].dims[0] == 1):
            return self._floats(scale)
        if rank is None:
            raise UsageProblem(f"{node.op_type} {node.name} has scales along an axis of a tensor of unknown rank.")
        shape = [1] * rank
        shape[integer(node, "axis", 1)] = -1
        return self._writer.node("Reshape", self._floats(scale), self._writer.constant(np.array(shape, np.int64)))

    def _last_axis(self, node: onnx.NodeProto) -> None:
        axis, rank = integer(node, "axis", -1), self._at.ranks.get(node.input[0])
        if axis != -1 and (rank is None or axis != rank - 1):
            raise UsageProblem(
                f"{node.op_type} {node.name} has blocks along axis {axis}; only the last axis can be simulated."
            )

    def _plain_zero(self, node: onnx.NodeProto) -> None:
        zero = self._constant_of(node.input[2]) if len(node.input) > 2 else None
        if zero is not None and zero.astype(np.float32).any():
            raise UsageProblem(
                f"{node.op_type} {node.name} has a zero point other than 0, which no floating-point format has."
            )


def _product(wide: Array, scales: Any, axis: int, block: int) -> Array:
    """Return values times scales: one for all, one for each index of an axis, or one for each block along it."""
    if block:
        scales = np.repeat(scales, block, axis=axis)[tuple(slice(0, size) for size in wide.shape)]
    elif scales.ndim == 1 and scales.size > 1:
        shape = [1] * wide.ndim
        shape[axis] = -1
        scales = scales.reshape(shape)
    return np.asarray(wide * scales)
