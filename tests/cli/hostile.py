"""What tests of hostile input share."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.in_app import stderr_of


def refused(*words: object, text: str = "", code: int = 2) -> str:
    """Run a command that has to refuse, and return its one paragraph."""
    said = stderr_of(*words, code=code)
    errors = [line for line in said.splitlines() if line.startswith(("error: ", "Error: "))]
    assert len(errors) == 1, said
    assert text in errors[0]
    assert "\x1b" not in said
    assert "\0" not in said
    return errors[0]


def model(**parts: Any) -> onnx.ModelProto:
    """y = x + one, with parts of the graph or the model replaced."""
    nodes = parts.pop("nodes", [helper.make_node("Add", ["x", "one"], ["y"])])
    inputs = parts.pop("inputs", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])])
    outputs = parts.pop("outputs", [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    tensors = parts.pop("tensors", [numpy_helper.from_array(np.ones(2, np.float32), "one")])
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, **parts)
