"""A model whose every tensor carries the rounding error of a precision: what it changes is what that precision may.

Forward error by random perturbation of every operation's result, as in Monte Carlo arithmetic (D. S. Parker, Monte
Carlo Arithmetic, UCLA CSD-970002, 1997): a correct engine differs from exact arithmetic about as much as such a copy.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from math import inf

import onnx
from onnx import TensorProto, helper

from trt_workbench.core.precision import get
from trt_workbench.model.editing import Names, NodeWriter, replace_nodes
from trt_workbench.model.proto import opset
from trt_workbench.model.walking import Scope, reads, subgraphs
from trt_workbench.onnxtools.drawing import RandomSource
from trt_workbench.onnxtools.graph_types import output_type

_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}
# What these return does not depend on the values of their inputs.
_OF_SHAPES = frozenset({"Shape", "Size"})
# Their results are values of their inputs: a runtime rounds nothing there.
MOVES = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose"}
    | {"Unsqueeze", "Tile", "Where", "Pad", "Max", "Min", "MaxPool", "ReduceMax", "ReduceMin", "TopK", "Relu", "Neg"}
)
# What adds up many terms.
_SUMS = frozenset(
    {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "LSTM", "GRU", "RNN", "CumSum", "AveragePool"}
    | {"GlobalAveragePool", "ReduceSum", "ReduceMean", "LpPool", "InstanceNormalization", "LayerNormalization"}
    | {"GroupNormalization", "MeanVarianceNormalization"}
)
# Functions that compilers approximate further than by the unit roundoff of fp32: by what share, as measured of
# TensorRT 8.6 (docs/benchmarks/verify/functions.py) and rounded up. Selu's constants are rounded, and near its poles a
# tangent is as exact as its argument. The rest of the functions is exact to 32 units.
_APPROXIMATED = {
    **dict.fromkeys(("Tanh", "Gelu", "Mish", "LSTM", "GRU", "RNN"), 2.0**-17),
    "Selu": 2.0**-14,
    "Tan": 2.0**-10,
}
# Functions whose error is no share of their value: what they may be off by besides, as measured of ONNX Runtime and
# PyTorch on processors (docs/benchmarks/verify/functions-cpu.jsonl) and rounded up. ONNX Runtime's Sigmoid is 0 from
# -18 down, so that its logarithm is infinite.
_ABSOLUTE = {"Sigmoid": 2.0**-22, "Gelu": 2.0**-19}
# Magnitudes from which a value stands for infinity: anywhere, and before a Softmax, where masks of -10000 are. No scale
# of integers is chosen for them.
_INFINITE, _INFINITE_SCORE = 1e30, 9e3
# Between a mask and the Softmax.
_TO_SOFTMAX = frozenset(
    {"Add", "Cast", "Concat", "Div", "Expand", "Identity", "Max", "Min", "Mul", "Reshape", "Slice", "Sub", "Transpose"}
    | {"Unsqueeze", "Where"}
)
# Where of all types, for telling these values apart.
_WHERE_OPSET = 9


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
        The copy; its inputs and outputs have the same names.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=False))
    weights = {tensor.name for tensor in copy.graph.initializer}
    inputs = [value.name for value in copy.graph.input if value.name not in weights]
    exact = set() if ranged or held else set(inputs)
    drawing = RandomSource(opset(model), NodeWriter(Names.of(copy)))
    tells = opset(model) >= _WHERE_OPSET
    rounding = _Rounding(unit, seed, drawing, ranged=ranged, held=held, tells_infinite=tells)
    rounding.of_graph(copy.graph, _Scope({}, set(inputs), exact, {}), inputs)
    copy.graph.initializer.extend(drawing.constants())
    return copy


@dataclass
class _Scope(Scope):
    """What is known of the tensors that a graph sees.

    Attributes:
        types: element types of the tensors that are known.
        live: tensors that depend on the inputs of the model.
        exact: those of them in which nothing was rounded: inputs, and their values moved.
        renamed: the disturbed copy to read in place of an input.
    """

    types: dict[str, int]
    live: set[str]
    exact: set[str]
    renamed: dict[str, str]


class _Rounding:
    """Disturbs graphs and their subgraphs."""

    def __init__(
        self, unit: float, seed: int, drawing: RandomSource, *, ranged: bool, held: int | None, tells_infinite: bool
    ) -> None:
        self._unit, self._seed, self._ranged, self._held = unit, seed, ranged, held
        self._drawing, self._writer, self._tells_infinite = drawing, drawing.writer, tells_infinite
        self._scores: set[str] = set()
        self._count = 0

    def of_graph(self, graph: onnx.GraphProto, scope: _Scope, inputs: Collection[str]) -> None:
        """Disturb a graph in place; `inputs` are those of the model, none in a subgraph."""
        values = (*graph.input, *graph.value_info, *graph.output)
        scope.types |= {value.name: value.type.tensor_type.elem_type for value in values}
        self._scores |= _scores(graph)
        for name in inputs:
            # A runtime gets its inputs as they are; it may hold them in its precision, in which zeros, ones and other
            # small integers are exact: masks and lengths.
            if scope.types.get(name) in _FLOATS and (self._ranged or self._held):
                scope.renamed[name] = self._copy(scope, name, spared=not self._ranged)
        summed: dict[str, str] = {}
        for node in graph.node:
            self._of_node(node, scope, summed)
        replace_nodes(graph, self._writer.taken())
        del graph.value_info[:]

    def _of_node(self, node: onnx.NodeProto, scope: _Scope, summed: dict[str, str]) -> None:
        """Write a node, with what disturbs it; `summed` holds the copies of exact tensors so far."""
        inner = subgraphs([node])
        exact = {name for name in node.input if name in scope.exact}
        read = {name for name in node.input if name in scope.live}
        node.input[:] = [scope.renamed.get(name, name) for name in node.input]
        if not read and not inner:
            self._writer.nodes.append(node)
            return
        for graph in inner:
            within = scope.inside(graph)
            within.live |= _live_inputs(node, graph, scope.live)
            with self._writer.apart():
                self.of_graph(graph, within, ())
        outputs = [name for name in node.output if name]
        for name in outputs[:1]:  # ONNX infers nothing behind an operator of another domain
            scope.types[name] = scope.types.get(name) or output_type(node, scope.types)
        if node.op_type not in _OF_SHAPES:
            scope.live.update(outputs)
        if node.op_type in MOVES and read <= exact:
            scope.exact.update(outputs)
        if node.op_type in _SUMS:
            # terms that cancel leave the error of the largest of them, which a share of the sum does not show
            for place, name in enumerate(node.input):
                if name in scope.exact and scope.types.get(name) in _FLOATS:
                    summed[name] = summed.get(name) or self._copy(scope, name, spared=True)
                    node.input[place] = summed[name]
        rounded = {
            name: self._writer.names.fresh(f"{name}__exact")
            for name in outputs
            if name in scope.live and scope.types.get(name) in _FLOATS and node.op_type not in MOVES and not inner
        }
        node.output[:] = [rounded.get(name, name) for name in node.output]
        self._writer.nodes.append(node)
        for name, clean in rounded.items():
            self._disturb(clean, name, scope.types[name], node.op_type)

    def _copy(self, scope: _Scope, name: str, *, spared: bool) -> str:
        """Return the name of a disturbed copy of a tensor."""
        copy = self._writer.names.fresh(f"{name}__rounded")
        scope.live.add(copy)
        self._disturb(name, copy, scope.types[name], spared=spared)
        return copy

    def _disturb(self, clean: str, name: str, kind: int, operator: str = "", *, spared: bool = False) -> None:
        self._count += 1
        number = self._seed * 100_003 + self._count
        share = max(self._unit, _APPROXIMATED.get(operator, 0.0))
        least = 0.0 if self._ranged else _ABSOLUTE.get(operator, 0.0)
        ranged = None
        if self._ranged:
            is_score = self._tells_infinite and not self._scores.isdisjoint((clean, name))
            ranged = (_INFINITE_SCORE if is_score else _INFINITE) if self._tells_infinite else inf
            spared = is_score  # the zeros and ones of a mask, which grow to tens beside -10000
        self._write(clean, name, kind, share, number, least=least, ranged=ranged, spared=spared)

    def _write(
        self,
        clean: str,
        name: str,
        kind: int,
        unit: float,
        seed: int,
        *,
        least: float,
        ranged: float | None,
        spared: bool,
    ) -> None:
        """Write the nodes that make `name` from `clean`; integers are spared where that is asked for.

        What is left of a number below it is more than 0 if it is no integer, and at most 1: rounded up, it says so.

        `least` is an error that is added whatever the value. `ranged` is where values begin that stand for infinity, if
        the disturbance is relative to the largest of the others; None where it is relative to each value.
        """
        node = partial(self._writer.node, stem=f"{name}__noise")

        def draw(low: float, high: float) -> str:
            return self._drawing.draw(clean, f"{name}__noise", kind, low=low, high=high, seed=seed)

        is_ranged = ranged is not None
        noise = draw(*((-unit, unit) if is_ranged or spared else (1.0 - unit, 1.0 + unit)))
        held = None if self._held == kind else self._held
        last = {"output": name} if held is None else {}
        if ranged is not None:
            size = node("Abs", clean)
            if ranged < inf:
                end = min(ranged, get("fp16").largest) if kind == TensorProto.FLOAT16 else ranged
                high, none = (
                    node("Constant", value=helper.make_tensor("bound", kind, [], [value])) for value in (end, 0.0)
                )
                size = node("Where", node("Less", size, high), size, none)
            error = node("Mul", noise, node("ReduceMax", size, keepdims=0))
            if spared:
                error = node("Mul", error, node("Ceil", node("Sub", size, node("Floor", size))))
            made = node("Add", clean, error, **last)
        elif spared:
            size = node("Mul", clean, node("Ceil", node("Sub", clean, node("Floor", clean))))
            made = node("Add", clean, node("Mul", noise, size), **last)
        elif least:
            made = node("Add", node("Mul", clean, noise), draw(-least, least), **last)
        else:
            made = node("Mul", clean, noise, **last)
        if held is not None:
            node("Cast", node("Cast", made, to=held), output=name, to=kind)


def _scores(graph: onnx.GraphProto) -> set[str]:
    """Return the tensors that a Softmax reads, and those that these are made of up to the products."""
    found: set[str] = set()
    for node in reversed(graph.node):
        if node.op_type == "Softmax" or (node.op_type in _TO_SOFTMAX and found.intersection(node.output)):
            found.update(node.input)
    return found


def _live_inputs(node: onnx.NodeProto, graph: onnx.GraphProto, live: Collection[str]) -> set[str]:
    """Return the inputs of a subgraph that depend on live tensors, in any round: a counter of the rounds does not."""
    inputs, outputs = [value.name for value in graph.input], [value.name for value in graph.output]
    fed = inputs[1:] if node.op_type == "Loop" else inputs  # a loop's first input is the number of the round
    found = {own for own, given in zip(inputs, node.input, strict=False) if given in live}
    while True:
        reached = found | set(live)
        for one in graph.node:
            if reached & reads(one).keys():
                reached.update(one.output)
        again = found | {own for own, given in zip(fed, outputs, strict=False) if given in reached}
        if again == found:
            return found
        found = again
