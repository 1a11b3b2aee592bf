"""A model whose every tensor carries the rounding error of a precision: what it changes is what that precision may.

Forward error by random perturbation of every operation's result, as in Monte Carlo arithmetic (D. S. Parker, Monte
Carlo Arithmetic, UCLA CSD-970002, 1997): a correct engine differs from exact arithmetic about as much as such a copy.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from trt_workbench.onnxtools.proto import has_subgraph

_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}
# What these return does not depend on the values of their inputs.
_OF_SHAPES = frozenset({"Shape", "Size"})
# Their results are values of their inputs: a runtime rounds nothing there.
_MOVES = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose"}
    | {"Unsqueeze", "Tile", "Where", "Pad", "Max", "Min", "MaxPool", "ReduceMax", "ReduceMin", "TopK", "Relu", "Neg"}
)
_INT8_STEPS = 254.0  # a symmetric range in 8 bits has 127 steps on each side of zero


def with_rounding(model: onnx.ModelProto, unit: float, seed: int, *, ranged: bool = False) -> onnx.ModelProto:
    """Return a copy of `model` in which every float that is computed from the inputs is disturbed at random.

    Args:
        model: with its weights; not changed.
        unit: largest relative disturbance, the unit roundoff of a precision.
        seed: of the disturbance.
        ranged: disturb every element by up to half a step of the tensor's whole range in 8 bits instead, as integers
            with one scale a tensor do.

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

    def disturb(clean: str, name: str) -> None:
        nonlocal count
        count += 1
        nodes.extend(_disturbed(clean, name, types[name], unit, seed * 100_003 + count, ranged=ranged))

    renamed: dict[str, str] = {}
    for value in graph.input:
        if value.name in live and types.get(value.name) in _FLOATS:
            renamed[value.name] = f"{value.name}__rounded"
            types[renamed[value.name]] = types[value.name]
            disturb(value.name, renamed[value.name])
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
            if name in live and types.get(name) in _FLOATS and node.op_type not in _MOVES and not has_subgraph(node)
        ]
        for name in rounded:
            place = list(node.output).index(name)
            node.output[place] = f"{name}__exact"
        nodes.append(node)
        for name in rounded:
            disturb(f"{name}__exact", name)
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return copy


def _disturbed(clean: str, name: str, kind: int, unit: float, seed: int, *, ranged: bool) -> list[onnx.NodeProto]:
    """Return the nodes that make `name` from `clean`."""
    made = f"{name}__noise"
    # ONNX Runtime draws float and double alone
    drawn = kind if kind == TensorProto.DOUBLE else TensorProto.FLOAT
    bounds = (-1.0, 1.0) if ranged else (1.0 - unit, 1.0 + unit)
    nodes = [
        helper.make_node(
            "RandomUniformLike",
            [clean],
            [f"{made}_drawn"],
            dtype=drawn,
            low=bounds[0],
            high=bounds[1],
            seed=float(seed % (1 << 24)),
        ),
        helper.make_node("Cast", [f"{made}_drawn"], [made], to=kind),
    ]
    if not ranged:
        return [*nodes, helper.make_node("Mul", [clean, made], [name])]
    step = helper.make_tensor(f"{made}_step", kind, [], [1.0 / _INT8_STEPS])
    return [
        *nodes,
        helper.make_node("Constant", [], [f"{made}_step"], value=step),
        helper.make_node("Abs", [clean], [f"{made}_abs"]),
        helper.make_node("ReduceMax", [f"{made}_abs"], [f"{made}_top"], keepdims=0),
        helper.make_node("Mul", [f"{made}_top", f"{made}_step"], [f"{made}_half"]),
        helper.make_node("Mul", [made, f"{made}_half"], [f"{made}_error"]),
        helper.make_node("Add", [clean, f"{made}_error"], [name]),
    ]


def _types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the element types of the tensors that are known."""
    known = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=False).graph
    values = (*known.input, *known.value_info, *known.output)
    return {value.name: value.type.tensor_type.elem_type for value in values}
