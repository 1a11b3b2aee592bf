"""Tensors of 16 bits that are fp32 inside of a graph: their types, and those that its inputs and outputs keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx
from onnx import TensorProto

from trt_workbench.model.editing import NodeWriter, rename_uses, replace_nodes


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
        rename_uses(graph, value.name, writer.node("Cast", value.name, to=TensorProto.FLOAT))
        before += writer.taken()
    for value in [one for one in graph.output if one.name in types]:
        value.type.tensor_type.elem_type = types[value.name]
        if value.name in inputs:
            continue
        inner = writer.fresh()
        rename_uses(graph, value.name, inner)
        for node in graph.node:
            node.output[:] = [inner if name == value.name else name for name in node.output]
        if value.name in initial:
            initial[value.name].name = inner
        writer.node("Cast", inner, output=value.name, to=types[value.name])
    replace_nodes(graph, [*before, *graph.node, *writer.taken()])
