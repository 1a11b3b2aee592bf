"""The values of Constant nodes, and the results of nodes of constants."""

from __future__ import annotations

import warnings
from collections import UserDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from trt_workbench.model.proto import STANDARD, is_external
from trt_workbench.model.walking import has_subgraph

Array = NDArray[np.generic]
# Different at every run, or constants already.
_NEVER = frozenset(
    {"Constant", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
# Scales in front of weights are what a quantised model is made of; folding would remove them.
SCALED = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})


def constant_value(node: onnx.NodeProto) -> Array | None:
    """Return what a Constant node holds; None for text and sparse values."""
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.name == "value":
            return numpy_helper.to_array(value)
        if attribute.name in ("value_int", "value_ints"):
            return np.array(value, np.int64)
        if attribute.name in ("value_float", "value_floats"):
            return np.array(value, np.float32)
    return None


def evaluated(model: onnx.ModelProto, node: onnx.NodeProto, values: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return the outputs of a node by name; None if they are not constant or cannot be computed here."""
    known = all(not name or name in values for name in node.input)
    fixed = node.op_type not in _NEVER | SCALED and node.domain in STANDARD
    if not (known and fixed) or has_subgraph(node):
        return None
    from onnx.reference import ReferenceEvaluator  # it imports a module for every operator

    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(values[name].dtype), None)
        for name in dict.fromkeys(filter(None, node.input))
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    single = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of arithmetic on values that the graph may never use
            results = ReferenceEvaluator(single).run(None, {value.name: values[value.name] for value in inputs})
    except Exception:  # the reference lacks some operators and types: such a node stays as it is
        return None
    return dict(zip((value.name for value in outputs), [np.asarray(result) for result in results], strict=True))


class Constants(UserDict[str, Any]):
    """Arrays by name; one of a model is read from it whenever it is asked for, and not kept."""

    def __getitem__(self, name: str) -> Array:
        """Return an array."""
        value = self.data[name]
        return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)

    def facts(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Return the type and the shape of an array, which is not read for that."""
        value = self.data[name]
        if isinstance(value, onnx.TensorProto):
            return onnx.helper.tensor_dtype_to_np_dtype(value.data_type), tuple(value.dims)
        return value.dtype, value.shape


def constants(graph: onnx.GraphProto) -> Constants:
    """Return the values of initialisers and Constant nodes by name; a graph input with a default is no constant.

    Values that `light` leaves out are not known.
    """
    defaults = {value.name for value in graph.input}
    inside = (tensor for tensor in graph.initializer if tensor.name not in defaults and not is_external(tensor))
    found = Constants({tensor.name: tensor for tensor in inside})
    for node in graph.node:
        if node.op_type == "Constant":
            held = next((one.t for one in node.attribute if one.name == "value"), None)
            if (value := constant_value(node) if held is None else held) is not None and node.output:
                found[node.output[0]] = value
    return found
