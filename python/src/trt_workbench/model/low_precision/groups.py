"""What of a model can be quantised: one group for every operation that hardware computes in low precision."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import onnx

from trt_workbench.core.precision import DEPTHWISE, FEW_CHANNELS, HEAD
from trt_workbench.core.settings import FREE_SIZE
from trt_workbench.model.index import GraphIndex, TensorFacts
from trt_workbench.model.low_precision.bodies import bodies
from trt_workbench.model.proto import STANDARD, Shape, integer
from trt_workbench.model.walking import has_subgraph
from trt_workbench.model.weights import inferred, light

Shapes = Mapping[str, tuple[int, ...]]
ATTENTION = "attention"
_FEW = 16
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators that can be in low precision: they multiply their first input by the second."""
_RECURRENT = ("LSTM", "GRU", "RNN")


@dataclass(frozen=True)
class PrecisionGroup:
    """One operation that can be in low precision, or stay unchanged.

    Attributes:
        name: of its node; unique, the same in every candidate of a model.
        nodes: names of the nodes that it is made of.
        op_type: Conv, ConvTranspose, Gemm or MatMul, with constant weights; or "attention" for a product of two
            activations.
        macs: multiply-accumulates of one sample, with 64 for an unknown dimension; 0 where no shape is known.
        weight_elements: elements of its weights; 0 of attention products.
        activations: tensors that it multiplies and that have ranges.
        weight: the constant that it multiplies; "" of attention products.
        axis: of the weight's output channels; None where one scale must serve all.
        sensitive: what makes it lose much, a reason of the table of formats; "" where nothing does.
    """

    name: str
    nodes: tuple[str, ...]
    op_type: str
    macs: int
    weight_elements: int
    activations: tuple[str, ...] = ()
    weight: str = ""
    axis: int | None = None
    sensitive: str = ""


def quantisable(model: onnx.ModelProto, shapes: Shapes | None = None) -> tuple[PrecisionGroup, ...]:
    """Return the groups of a model's main graph, in its order; nodes without a name of their own get one in it.

    A product of two activations counts where both depend on the model's inputs.

    Args:
        model: with or without its weights.
        shapes: of inputs and activations of float32 as a call had them; with them arithmetic is counted that the graph
            itself does not show.
    """
    index = GraphIndex(model)
    index.tensors = _sized(model, shapes)
    groups = tuple(_groups(index, _computed(model)))
    heads = _heads(index, {group.name for group in groups})
    return tuple(
        replace(group, sensitive=HEAD) if group.name in heads and group.sensitive != DEPTHWISE else group
        for group in groups
    )


class Outsider(NamedTuple):
    """A product that is no group, with the figures of `PrecisionGroup`, and why it is none.

    In the body of a Loop or Scan arithmetic counts as often as the body runs, once where that is not known before
    running (`Body.times`), and as much as there are weights where no shape is known. Of the branches of an If one
    runs: the arithmetic of the one with more counts.
    """

    macs: int
    weight_elements: int
    reason: str


def outsiders(model: onnx.ModelProto, shapes: Shapes | None = None) -> dict[str, Outsider]:
    """Return by node the products of computed tensors that cannot be quantised, as `quantisable`. Nodes have names.

    Those in bodies of If, Loop and Scan are named after both nodes, such as "loop_3.body/conv".
    """
    index = GraphIndex(model)
    index.tensors = _sized(model, shapes)
    computed = _computed(model)
    groups = {group.name for group in _groups(index, computed)}
    found: dict[str, Outsider] = {}
    for node in (node for node in index.nodes if node.domain in STANDARD and node.name not in groups):
        if has_subgraph(node):
            found |= _in_bodies(node, index, computed)
        elif computed & set(node.input[:2]) and (one := _outsider(node, index, computed)):
            found[node.name] = one
    return found


def _in_bodies(node: onnx.NodeProto, index: GraphIndex, computed: set[str]) -> dict[str, Outsider]:
    """Return all products in the bodies of a node."""
    parts: list[dict[str, Outsider]] = []
    for body in bodies(node, index, computed):
        products: list[tuple[str, PrecisionGroup | Outsider]] = [(one.name, one) for one in quantisable(body.model)]
        products += outsiders(body.model).items()
        parts.append(
            {
                f"{body.name}/{name}": Outsider(
                    max(one.macs, one.weight_elements) * body.times,
                    one.weight_elements,
                    f"it is in the body of {'an' if node.op_type == 'If' else 'a'} {node.op_type}",
                )
                for name, one in products
            }
        )
    if node.op_type == "If":  # one branch runs
        most = max(parts, key=lambda part: sum(one.macs for one in part.values()))
        parts = [part if part is most else {name: one._replace(macs=0) for name, one in part.items()} for part in parts]
    return {name: one for part in parts for name, one in part.items()}


def _outsider(node: onnx.NodeProto, index: GraphIndex, computed: set[str]) -> Outsider | None:
    """Return a node that multiplies, but is no group; None for one that does not multiply."""

    def elements(names: Sequence[str]) -> int:
        return sum(_elements(index, name) for name in names if name and name not in computed)

    if node.op_type in _RECURRENT:  # a step multiplies by both of its matrices
        weights = elements(node.input[1:3])
        features = (index.facts(node.input[0]).shape or (0,))[-1]
        steps = _elements(index, node.input[0]) // features if isinstance(features, int) and features else 0
        return Outsider(steps * weights, weights, f"{node.op_type} has no quantised form")
    if node.op_type == "Einsum" and len(node.input) > 1:
        return Outsider(_einsum_macs(node, index), elements(node.input), "Einsum has no quantised form")
    if node.op_type not in WEIGHTED:
        return None
    shape = index.facts(node.input[1]).shape or ()
    dims = tuple(dim if isinstance(dim, int) else FREE_SIZE for dim in shape)
    macs = _macs(node, index, dims) if len(dims) > 1 else _elements(index, node.output[0])
    reason = "its weights are computed" if node.input[0] in computed else "its constant comes first"
    return Outsider(macs, elements(node.input[:2]), reason)


class Residual(NamedTuple):
    """An addition that a convolution can take in: its node, the convolution's, and the place of its other input."""

    add: str
    convolution: str
    past: int
    tensor: str


def residuals(model: onnx.ModelProto) -> Iterator[Residual]:
    """Yield the additions of two computed tensors of one shape where a convolution makes one for the addition only.

    TensorRT fuses such an addition into the convolution, in int8 where the other input is int8. Where convolutions make
    both, there are two. Nodes have names.
    """
    index = GraphIndex(model)
    index.tensors = _sized(model)
    outputs = {value.name for value in model.graph.output}
    for node in index.nodes:
        if node.op_type != "Add" or node.domain not in STANDARD or len(set(node.input)) < 2:
            continue
        shapes = [index.facts(name).shape for name in node.input]
        if shapes[0] is None or shapes[0] != shapes[1] or set(node.input) & index.constants:
            continue
        for place, name in enumerate(node.input):
            maker = index.nodes[index.producer[name]] if name in index.producer else None
            if maker and maker.op_type == "Conv" and len(index.users[name]) == 1 and name not in outputs:
                yield Residual(node.name, maker.name, 1 - place, node.input[1 - place])


def tensor_elements(model: onnx.ModelProto) -> dict[str, int]:
    """Return how many elements each tensor of known shape has, for one sample."""
    shapes = {name: facts.shape for name, facts in _sized(model).items()}
    return {name: _product(shape) for name, shape in shapes.items() if shape is not None}


def _groups(index: GraphIndex, computed: set[str]) -> Iterator[PrecisionGroup]:
    for node in index.nodes:
        if node.domain not in STANDARD or node.op_type not in WEIGHTED or len(node.input) < 2:
            continue
        first, second = node.input[:2]
        if first not in computed:
            continue
        shape = index.facts(second).shape
        if second in index.constants and shape and len(shape) > 1 and all(isinstance(dim, int) for dim in shape):
            dims = tuple(int(dim or 0) for dim in shape)
            yield PrecisionGroup(
                name=node.name,
                nodes=(node.name,),
                op_type=node.op_type,
                macs=_macs(node, index, dims),
                weight_elements=math.prod(dims),
                activations=(first,),
                weight=second,
                axis=_axis(node, dims),
                sensitive=_sensitive(node, dims),
            )
        elif second in computed and node.op_type in ("MatMul", "Gemm"):
            inner = (index.facts(first).shape or (0,))[-1]
            macs = _elements(index, node.output[0]) * (inner if isinstance(inner, int) else FREE_SIZE)
            yield PrecisionGroup(node.name, (node.name,), ATTENTION, macs, 0, tuple(dict.fromkeys((first, second))))


def _sensitive(node: onnx.NodeProto, dims: tuple[int, ...]) -> str:
    group = integer(node, "group", 1)
    if node.op_type == "Conv" and group > 1 and dims[1] == 1:
        return DEPTHWISE
    if node.op_type == "Conv" and dims[1] * group <= _FEW:
        return FEW_CHANNELS
    return ""


def _axis(node: onnx.NodeProto, dims: tuple[int, ...]) -> int | None:
    """Return the axis of a weight's output channels."""
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":  # [input, output / groups, …]: with groups, one slice serves several outputs
        return 1 if integer(node, "group", 1) == 1 else None
    if node.op_type == "Gemm":
        return 0 if integer(node, "transB", 0) else 1
    # ONNX Runtime cannot run a stack of matrices with a scale for every column
    return 1 if len(dims) == 2 else None


def _macs(node: onnx.NodeProto, index: GraphIndex, dims: tuple[int, ...]) -> int:
    if node.op_type in ("Conv", "ConvTranspose"):  # every input of a transposed one is multiplied
        return _elements(index, (node.output if node.op_type == "Conv" else node.input)[0]) * math.prod(dims[1:])
    inner = dims[1] if node.op_type == "Gemm" and integer(node, "transB", 0) else dims[-2]
    return _elements(index, node.output[0]) * inner


def _einsum_macs(node: onnx.NodeProto, index: GraphIndex) -> int:
    """Return the product of the sizes of all letters; where they are not known, the elements of the result."""
    equation = next((entry.s.decode() for entry in node.attribute if entry.name == "equation"), "")
    sizes: dict[str, int] = {}
    for term, name in zip(equation.replace(" ", "").split("->")[0].split(","), node.input, strict=False):
        shape = index.facts(name).shape
        if shape is None or len(shape) != len(term):  # as of "..."
            return _elements(index, node.output[0])
        sizes |= {letter: dim for letter, dim in zip(term, shape, strict=True) if isinstance(dim, int)}
    return math.prod(sizes.values())


def _elements(index: GraphIndex, name: str) -> int:
    shape = index.facts(name).shape
    return 0 if shape is None else _product(shape)


def _product(shape: Shape) -> int:
    return math.prod(dim if isinstance(dim, int) else FREE_SIZE if axis else 1 for axis, dim in enumerate(shape))


def _computed(model: onnx.ModelProto) -> set[str]:
    """Return the tensors that depend on the model's inputs."""
    found = {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if found & set(node.input) or has_subgraph(node):
            found.update(node.output)
    return found


def _heads(index: GraphIndex, groups: set[str]) -> set[str]:
    """Return the convolutions whose results reach an output of the model through no other group.

    Only convolutions: along the residual stream of a transformer every layer's last product would count. Nor is the
    way past a convolution followed, along which every block of a residual network would.
    """
    waiting, seen, found = [value.name for value in index.model.graph.output], set[str](), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in index.producer:
            continue
        seen.add(name)
        node = index.nodes[index.producer[name]]
        if node.name not in groups:
            made = [
                one for one in node.input if one in index.producer and index.nodes[index.producer[one]].name in groups
            ]
            waiting += made if node.op_type == "Add" and made else node.input
        elif node.op_type == "Conv":
            found.add(node.name)
    return found


def _sized(model: onnx.ModelProto, shapes: Shapes | None = None) -> dict[str, TensorFacts]:
    """Return types and shapes of all tensors.

    What `shapes` does not know has 1 for a dynamic batch and 64 for any other dynamic dimension.
    """
    known = shapes or {}
    sized = light(model)
    del sized.graph.value_info[:]
    for value in sized.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dim.dim_value = known[value.name][axis] if value.name in known else FREE_SIZE if axis else 1
    inputs = {value.name for value in sized.graph.input}
    sized.graph.value_info.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in known.items()
        if name not in inputs
    )
    weights = {tensor.name for tensor in sized.graph.initializer}
    for value in (one for one in sized.graph.output if one.name not in weights):
        value.type.tensor_type.ClearField("shape")
    return GraphIndex(inferred(sized, data_prop=True)).tensors
