"""Operators whose results differ from run to run by design."""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model
from trt_workbench.model.proto import is_external, operator_name
from trt_workbench.model.walking import all_graphs, all_nodes

# A seed does not help: every runtime draws other numbers from it, and other ones again at the next call.
_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Sampling"}
)
# Operators that are random while training alone, with the place of the input that says so.
_TRAINED = {"Dropout": 2, "BitmaskDropout": 2, "BiasDropout": 4, "BitmaskBiasDropout": 4}


def refuse_random(model: Model, done: str, otherwise: str = "") -> None:
    """Raise UsageProblem for a model of which no two right runs are the same, or that cannot be read.

    Args:
        model: the opened file.
        done: what cannot be done with it, such as "verified".
        otherwise: what the user may do in place of that, a sentence.
    """
    if found := random_operators(model.proto):
        raise UsageProblem(
            f"The model is random by design ({', '.join(found)}): two right runs of it differ, whatever its seeds are, "
            f"so nothing can be {done}. Export it without (for inference), or cut it before"
            f"{'; ' + otherwise if otherwise else ''}: {model.path}"
        )


def random_operators(model: onnx.ModelProto) -> list[str]:
    """Return the names of the random operators of a model, those in subgraphs and functions included.

    A dropout counts unless its training mode is left out or a constant `false`.

    Args:
        model: with or without its weights.
    """
    graphs = list(all_graphs(model))
    nodes = list(all_nodes(model))
    off = {name for name, value in _flags(graphs, nodes).items() if not value}
    found = set()
    for node in nodes:
        place = _TRAINED.get(node.op_type)
        mode = node.input[place] if place is not None and len(node.input) > place else ""
        if node.op_type in _RANDOM or (mode and mode not in off):
            found.add(operator_name(node) + (" in training mode" if mode else ""))
    return sorted(found)


def _flags(graphs: list[onnx.GraphProto], nodes: list[onnx.NodeProto]) -> dict[str, bool]:
    """Return the constant booleans of a model by name; True where parts of the model give a name several values."""
    tensors = [(tensor.name, tensor) for graph in graphs for tensor in graph.initializer]
    tensors += [
        (node.output[0], attribute.t)
        for node in nodes
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    ]
    # what has an initial value may be an input too, which a caller may set
    inputs = {value.name for graph in graphs for value in graph.input}
    found: dict[str, bool] = {}
    for name, tensor in tensors:
        if tensor.data_type == onnx.TensorProto.BOOL and name not in inputs and not is_external(tensor):
            found[name] = found.get(name, False) or bool(numpy_helper.to_array(tensor).any())
    return found
