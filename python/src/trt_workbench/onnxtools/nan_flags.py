"""Which tensors of a model are NaN somewhere, as one more output: ONNX leaves it to a runtime what Max makes of NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.model.proto import opset, subgraphs

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
    graph, one = copy.graph, f"{FLAGS}__one"
    graph.initializer.append(numpy_helper.from_array(np.array([1]), one))
    for place, name in enumerate(names):
        last = name
        for operator, more in (
            ("Cast", {"to": TensorProto.FLOAT}),
            ("IsNaN", {}),
            ("Cast", {"to": TensorProto.FLOAT}),
            ("ReduceSum", {"keepdims": 0}),
        ):
            made = f"{FLAGS}__{place}_{len(graph.node)}"
            graph.node.append(helper.make_node(operator, [last], [made], **more))
            last = made
        graph.node.append(helper.make_node("Reshape", [last, one], [f"{FLAGS}__{place}"]))
    parts = [f"{FLAGS}__{place}" for place in range(len(names))]
    graph.node.append(helper.make_node("Concat", parts, [FLAGS], axis=0))
    graph.output.append(helper.make_tensor_value_info(FLAGS, TensorProto.FLOAT, [len(names)]))
    return copy


def outputs_behind(model: onnx.ModelProto, tensors: set[str]) -> set[str]:
    """Return the outputs of a model that are, or are computed from, one of these tensors."""
    reached = set(tensors)
    for node in model.graph.node:
        if reached & _read(node):
            reached.update(node.output)
    return reached & {value.name for value in model.graph.output}


def _read(node: onnx.NodeProto) -> set[str]:
    """Return the tensors that a node reads, those that its graphs capture among them."""
    inner = [one for graph in subgraphs([node]) for one in graph.node]
    return set(node.input).union(*(_read(one) for one in inner)) if inner else set(node.input)
