"""A backend whose faults lie in the graph: ort-cpu on a copy of the model that computes something else in one place."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

# Finds the tensor whose rows after the first come out wrong; None where the fault has no place in a graph.
Place = Callable[[onnx.GraphProto], str | None]


def _chains(graph: onnx.GraphProto, *operators: str) -> Iterator[list[onnx.NodeProto]]:
    """Yield nodes that follow each other directly."""
    for first in graph.node:
        chain = [first]
        while chain and len(chain) <= len(operators) and chain[-1].op_type == operators[len(chain) - 1]:
            if len(chain) == len(operators):
                yield chain
                break
            users = [node for node in graph.node if chain[-1].output[0] in node.input]
            chain.append(next((node for node in users if node.op_type == operators[len(chain)]), onnx.NodeProto()))


def _outputs(graph: onnx.GraphProto) -> set[str]:
    return {value.name for value in graph.output}


def _is_fused(graph: onnx.GraphProto, chain: list[onnx.NodeProto]) -> bool:
    return not any(node.output[0] in _outputs(graph) for node in chain[:-1])


def _single(graph: onnx.GraphProto) -> str | None:
    """The second Softmax of a graph, or the only one."""
    found = [node.output[0] for node in graph.node if node.op_type == "Softmax"]
    return found[-1] if found else None


def _masked_attention(graph: onnx.GraphProto) -> str | None:
    """A product of attention whose scores a mask was added to, as long as nothing within is an output."""
    for chain in _chains(graph, "Add", "Softmax", "MatMul"):
        if _is_fused(graph, chain):
            return str(chain[-1].output[0])
    return None


def _transposed_reshape(graph: onnx.GraphProto) -> str | None:
    return next((str(c[-1].output[0]) for c in _chains(graph, "Reshape", "Transpose") if _is_fused(graph, c)), None)


def _with_its_shape(graph: onnx.GraphProto) -> str | None:
    """A Reshape to a shape that was computed."""
    made = {name for node in graph.node for name in node.output}
    return next((str(n.output[0]) for n in graph.node if n.op_type == "Reshape" and n.input[1] in made), None)


def _only_dynamic(graph: onnx.GraphProto) -> str | None:
    """A Softmax in a graph whose first input has a dynamic batch."""
    first = graph.input[0].type.tensor_type.shape.dim[0]
    return _single(graph) if first.dim_param else None


PLACES: dict[str, Place] = {
    "single": _single,
    "masked attention": _masked_attention,
    "transposed reshape": _transposed_reshape,
    "computed shape": _with_its_shape,
    "only dynamic": _only_dynamic,
}


class GraphFaultBackend(Backend):
    """ort-cpu with the fault that `--option fault=NAME` plants in the graph. Counts what it loads.

    With `--option needs=OPERATOR` it refuses graphs without that operator.
    """

    name = "graph-fault"
    file_kinds = (".onnx",)
    loaded = 0

    def availability(self) -> Availability:
        """It always serves."""
        return Availability(ok=True)

    def _load(self, model: Path, options: SessionOptions) -> Session:
        type(self).loaded += 1
        changed = onnx.load(model)
        fault, needed = (str(options.extra.get(name, "")) for name in ("fault", "needs"))
        if needed and all(node.op_type != needed for node in changed.graph.node):
            raise UsageProblem(f"no kernel for a graph without {needed}")
        place = PLACES[fault](changed.graph) if fault in PLACES else None
        if place is not None:
            _spoil(changed.graph, place)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "faulty.onnx"
            onnx.save(changed, path)
            session = OrtCpuBackend().load(path, SessionOptions(threads=1))
        session._model = Model.open(model)  # type: ignore[attr-defined]  # the copy is gone
        return session


def _spoil(graph: onnx.GraphProto, tensor: str) -> None:
    """Give every row of a tensor after the first one and a half times its value."""
    maker = next(place for place, node in enumerate(graph.node) if tensor in node.output)
    node = graph.node[maker]
    node.output[list(node.output).index(tensor)] = f"{tensor}__right"
    for name, value in (("zero", [0]), ("one", [1]), ("end", [1 << 30])):
        graph.initializer.append(numpy_helper.from_array(np.array(value), f"spoil_{name}"))
    graph.initializer.append(numpy_helper.from_array(np.float32(1.5), "spoil_gain"))
    added = [
        helper.make_node("Slice", [f"{tensor}__right", "spoil_zero", "spoil_one", "spoil_zero"], ["spoil_first"]),
        helper.make_node("Slice", [f"{tensor}__right", "spoil_one", "spoil_end", "spoil_zero"], ["spoil_rest"]),
        helper.make_node("Mul", ["spoil_rest", "spoil_gain"], ["spoil_wrong"]),
        helper.make_node("Concat", ["spoil_first", "spoil_wrong"], [tensor], axis=0),
    ]
    for offset, one in enumerate(added):
        graph.node.insert(maker + 1 + offset, one)
