"""Which tensors of a model are NaN somewhere, as one more output: ONNX leaves it to a runtime what Max makes of NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from trt_workbench.model.editing import Names, NodeWriter
from trt_workbench.model.proto import opset
from trt_workbench.model.walking import reads

FLAGS = "trtw__nan_flags"
_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})
_IS_NAN_OPSET = 9


def computed_floats(model: onnx.ModelProto) -> list[str]:
    """Return the floats that the nodes of the main graph compute, as far as their types are known."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=False)
    values = (*inferred.graph.value_info, *inferred.graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return [name for node in model.graph.node for name in node.output if types.get(name) in _FLOATS]


def with_flags(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """Return a copy with the further output FLAGS: for each of these tensors, the number of its elements that are NaN.

    Args:
        model: not changed.
        names: floats of its main graph.

    Returns:
        The copy; without FLAGS if there are no names, or operators are of before opset 9, which has no IsNaN.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if not names or opset(model) < _IS_NAN_OPSET:
        return copy
    graph, writer = copy.graph, NodeWriter(Names.of(copy), f"{FLAGS}_of")
    one, parts = writer.constant(np.array([1])), []
    for name in names:
        is_nan = writer.node("IsNaN", writer.node("Cast", name, to=TensorProto.FLOAT))
        count = writer.node("ReduceSum", writer.node("Cast", is_nan, to=TensorProto.FLOAT), keepdims=0)
        parts.append(writer.node("Reshape", count, one))
    writer.node("Concat", *parts, output=FLAGS, axis=0)
    graph.initializer.extend(writer.initializers)
    graph.node.extend(writer.taken())
    graph.output.append(helper.make_tensor_value_info(FLAGS, TensorProto.FLOAT, [len(names)]))
    return copy


def outputs_behind(model: onnx.ModelProto, tensors: set[str]) -> set[str]:
    """Return the outputs of a model that are, or are computed from, one of these tensors."""
    reached = set(tensors)
    for node in model.graph.node:
        if reached & reads(node).keys():
            reached.update(node.output)
    return reached & {value.name for value in model.graph.output}
