"""A model whose every tensor carries the rounding error of a precision: what it changes is what that precision may.

Forward error by random perturbation of every operation's result, as in Monte Carlo arithmetic (D. S. Parker, Monte
Carlo Arithmetic, UCLA CSD-970002, 1997): a correct engine differs from exact arithmetic about as much as such a copy.
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper

from trt_workbench.onnxtools.proto import has_subgraph

_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}
# What these return does not depend on the values of their inputs.
_OF_SHAPES = frozenset({"Shape", "Size"})
# Their results are values of their inputs: a runtime rounds nothing there.
MOVES = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose"}
    | {"Unsqueeze", "Tile", "Where", "Pad", "Max", "Min", "MaxPool", "ReduceMax", "ReduceMin", "TopK", "Relu", "Neg"}
)
# Functions that compilers approximate further than by the unit roundoff of fp32: by what share, as measured of
# TensorRT 8.6 (docs/benchmarks/verify/functions.py) and rounded up. Selu's constants are rounded, and near its poles a
# tangent is as exact as its argument. The rest of the functions is exact to 32 units.
_APPROXIMATED = {
    **dict.fromkeys(("Tanh", "Gelu", "Mish", "LSTM", "GRU", "RNN"), 2.0**-17),
    "Selu": 2.0**-14,
    "Tan": 2.0**-10,
}


def with_rounding(
    model: onnx.ModelProto, unit: float, seed: int, *, ranged: bool = False, held: int | None = None
) -> onnx.ModelProto:
    """Return a copy of `model` in which every float that is computed from the inputs is disturbed at random.

    Args:
        model: with its weights; not changed.
        unit: largest relative disturbance, the unit roundoff of a precision; that of functions which compilers
            approximate is larger where theirs is.
        seed: of the disturbance.
        ranged: the disturbance is relative to the tensor's largest value instead of to each element's own, as that of
            integers with one scale a tensor.
        held: element type that every disturbed tensor is held in for once, so that its range is felt; None for none.

    Returns:
        The copy; its inputs and outputs have the same names. Subgraphs are left as they are.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    types = _types(copy)
    weights = {tensor.name for tensor in graph.initializer}
    live = {value.name for value in graph.input} - weights
    nodes: list[onnx.NodeProto] = []
    count = 0

    def disturb(clean: str, name: str, operator: str = "", *, spared: bool = False) -> None:
        nonlocal count
        count += 1
        number = seed * 100_003 + count
        share = max(unit, _APPROXIMATED.get(operator, 0.0))
        nodes.extend(_disturbed(clean, name, types[name], share, number, ranged=ranged, held=held, spared=spared))

    renamed: dict[str, str] = {}
    for value in graph.input:
        if not (value.name in live and types.get(value.name) in _FLOATS and (ranged or held)):
            continue
        # A runtime gets its inputs as they are; it may hold them in its precision, in which zeros, ones and other
        # small integers are exact: masks and lengths.
        name = renamed[value.name] = f"{value.name}__rounded"
        types[name] = types[value.name]
        disturb(value.name, name, spared=not ranged)
    for node in graph.node:
        reads = {name for name in node.input if name}
        node.input[:] = [renamed.get(name, name) for name in node.input]
        if not reads & live and not has_subgraph(node):
            nodes.append(node)
            continue
        outputs = [name for name in node.output if name]
        if node.op_type not in _OF_SHAPES:
            live.update(outputs)
        rounded = [
            name
            for name in outputs
            if name in live and types.get(name) in _FLOATS and node.op_type not in MOVES and not has_subgraph(node)
        ]
        for name in rounded:
            place = list(node.output).index(name)
            node.output[place] = f"{name}__exact"
        nodes.append(node)
        for name in rounded:
            disturb(f"{name}__exact", name, node.op_type)
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return copy


def _disturbed(
    clean: str, name: str, kind: int, unit: float, seed: int, *, ranged: bool, held: int | None, spared: bool
) -> list[onnx.NodeProto]:
    """Return the nodes that make `name` from `clean`; integers are spared where that is asked for."""
    nodes: list[onnx.NodeProto] = []

    def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    bounds = (-unit, unit) if ranged or spared else (1.0 - unit, 1.0 + unit)
    # ONNX Runtime draws float and double alone
    drawn = kind if kind == TensorProto.DOUBLE else TensorProto.FLOAT
    noise = node(
        "RandomUniformLike",
        [clean],
        f"{name}__drawn",
        dtype=drawn,
        low=bounds[0],
        high=bounds[1],
        seed=float(seed % (1 << 24)),
    )
    noise = node("Cast", [noise], f"{name}__noise", to=kind)
    last = name if held is None or held == kind else f"{name}__wide"
    if ranged:
        size = node("Abs", [clean], f"{name}__abs")
        top = node("ReduceMax", [size], f"{name}__top", keepdims=0)
        node("Add", [clean, node("Mul", [noise, top], f"{name}__error")], last)
    elif spared:
        rest = node("Sub", [clean, node("Floor", [clean], f"{name}__floor")], f"{name}__rest")
        size = node("Mul", [clean, node("Sign", [rest], f"{name}__sign")], f"{name}__size")
        node("Add", [clean, node("Mul", [noise, size], f"{name}__error")], last)
    else:
        node("Mul", [clean, noise], last)
    if last != name:
        node("Cast", [node("Cast", [last], f"{name}__held", to=held)], name, to=kind)
    return nodes


def _types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the element types of the tensors that are known."""
    known = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=False).graph
    values = (*known.input, *known.value_info, *known.output)
    return {value.name: value.type.tensor_type.elem_type for value in values}
