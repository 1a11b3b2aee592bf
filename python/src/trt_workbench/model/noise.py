"""A model whose every tensor carries the rounding error of a precision: its effect is what the precision may cause.

Forward error by random perturbation of every operation's result, as in Monte Carlo arithmetic (D. S. Parker, Monte
Carlo Arithmetic, UCLA CSD-970002, 1997): a correct engine differs from exact arithmetic about as much as such a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.core.precision import get
from trt_workbench.model.editing import Names, NodeWriter, replace_nodes
from trt_workbench.model.graph_types import output_type
from trt_workbench.model.proto import is_external, opset
from trt_workbench.model.randomness import RandomSource
from trt_workbench.model.walking import Scope, reads, subgraphs
from trt_workbench.model.weights import inferred

_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}
# What these return does not depend on the values of their inputs.
_OF_SHAPES = frozenset({"Shape", "Size"})
# Their results are values of their inputs: a runtime rounds nothing there.
MOVES = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose"}
    | {"Unsqueeze", "Tile", "Where", "Pad", "Max", "Min", "MaxPool", "ReduceMax", "ReduceMin", "TopK", "Relu", "Neg"}
)
# The same, of operators that a simulation rounds after.
_KEEPS = MOVES | {
    *("Abs", "Ceil", "Clip", "Compress", "DepthToSpace", "Floor", "GatherElements", "GatherND", "OneHot", "Round"),
    *("ScatterElements", "ScatterND", "Sign", "SpaceToDepth", "Trilu"),
}
# One correctly rounded operation an element: of masks, counts and powers of two its result is exact everywhere.
_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div"})
# What adds up many terms.
_SUMS = frozenset(
    {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "LSTM", "GRU", "RNN", "CumSum", "AveragePool"}
    | {"GlobalAveragePool", "ReduceSum", "ReduceMean", "LpPool", "InstanceNormalization", "LayerNormalization"}
    | {"GroupNormalization", "MeanVarianceNormalization"}
)
# Of small whole numbers these give what is exact wherever it is whole, such as the number of tokens that a mask leaves.
_WHOLE = _SUMS | {"Mod", "Pow", "ReduceL1", "ReduceProd", "ReduceSumSquare", "Sum"}
# Whole numbers up to here are no coincidence: fp32 has 256 steps and more between two of them.
_WHOLE_BELOW = 2.0**15
# A constant of this size that is added stands for a mask.
_MASK = 1e3
# Functions that compilers approximate further than by the unit roundoff of fp32: by what share, as measured of
# TensorRT 8.6 (tasks/benchmarks/verify/functions.py) and rounded up. Selu's constants are rounded, and near its poles a
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
# Where of all types, for distinguishing these values.
_WHERE_OPSET = 9


def with_rounding(
    model: onnx.ModelProto,
    unit: float,
    seed: int,
    *,
    ranged: bool = False,
    held: int | None = None,
    folder: Path | None = None,
) -> onnx.ModelProto:
    """Return a copy of `model` in which every float that is computed from the inputs is disturbed at random.

    Args:
        model: with its weights, or with large ones in a file; not changed.
        unit: largest relative disturbance, the unit roundoff of a precision; that of functions which compilers
            approximate is larger where theirs is.
        seed: of the disturbance.
        ranged: the disturbance is relative to the tensor's largest value instead of to each element's own, as that of
            integers with one scale a tensor.
        held: element type that every disturbed tensor is held in for once, so that its range is felt; None for none.
        folder: where the file of the large weights is.

    Returns:
        The copy; its inputs and outputs have the same names.
    """
    copy = inferred(model)
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(model.graph.initializer)
    weights = {tensor.name for tensor in copy.graph.initializer}
    inputs = [value.name for value in copy.graph.input if value.name not in weights]
    drawing = RandomSource(opset(model), NodeWriter(Names.of(copy)))
    tells = opset(model) >= _WHERE_OPSET
    rounding = _Rounding(unit, seed, drawing, ranged=ranged, held=held, tells_infinite=tells, folder=folder)
    rounding.of_graph(copy.graph, _Scope({}, set(inputs), set() if ranged else set(inputs), {}, {}), inputs)
    copy.graph.initializer.extend(drawing.constants())
    return copy


@dataclass
class _Scope(Scope):
    """What is known of the tensors that a graph sees.

    Attributes:
        types: element types of the tensors that are known.
        live: tensors that depend on the inputs of the model.
        exact: those of them that are exact where their values allow it: inputs, their values moved, and arithmetic on
            these, such as a mask that is subtracted from 1.
        renamed: the disturbed copy to read in place of an input.
        constants: what reads initialisers, and what Constant nodes hold.
    """

    types: dict[str, int]
    live: set[str]
    exact: set[str]
    renamed: dict[str, str]
    constants: dict[str, Callable[[], NDArray[Any]]]

    def is_float(self, name: str) -> bool:
        """Whether a tensor is known to hold floats."""
        return self.types.get(name) in _FLOATS

    def is_whole(self, name: str) -> bool:
        """Whether a tensor is known to hold something else."""
        return self.types.get(name, 0) not in {0, *_FLOATS}

    def value(self, name: str) -> NDArray[Any] | None:
        """Return a constant's value; None of what is computed."""
        return self.constants[name]() if name in self.constants else None


class _Rounding:
    """Disturbs graphs and their subgraphs."""

    def __init__(
        self,
        unit: float,
        seed: int,
        drawing: RandomSource,
        *,
        ranged: bool,
        held: int | None,
        tells_infinite: bool,
        folder: Path | None,
    ) -> None:
        self._unit, self._seed, self._ranged, self._held, self._folder = unit, seed, ranged, held, folder
        self._drawing, self._writer, self._tells_infinite = drawing, drawing.writer, tells_infinite
        self._scores: set[str] = set()
        self._count = 0

    def of_graph(self, graph: onnx.GraphProto, scope: _Scope, inputs: Collection[str]) -> None:
        """Disturb a graph in place; `inputs` are those of the model, none in a subgraph."""
        values = (*graph.input, *graph.value_info, *graph.output)
        scope.types |= {
            value.name: (
                value.type.tensor_type.elem_type if value.type.WhichOneof("value") in (None, "tensor_type") else -1
            )
            for value in values
        }
        scope.types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
        scope.constants |= {tensor.name: partial(self._read, tensor) for tensor in graph.initializer}
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

    def _read(self, tensor: onnx.TensorProto) -> NDArray[Any]:
        if not self._folder or not is_external(tensor):
            return numpy_helper.to_array(tensor)
        held = onnx.TensorProto()
        held.CopyFrom(tensor)  # which the values would stay in
        return numpy_helper.to_array(held, str(self._folder))

    def _of_node(self, node: onnx.NodeProto, scope: _Scope, summed: dict[str, str]) -> None:
        """Write a node, with what disturbs it; `summed` holds the copies of exact tensors so far."""
        inner = subgraphs([node])
        exact = {name for name in node.input if name in scope.exact}
        read = {name for name in node.input if name in scope.live}
        node.input[:] = [scope.renamed.get(name, name) for name in node.input]
        if not read and not inner:
            if node.op_type == "Constant":
                tensors = (partial(self._read, one.t) for one in node.attribute if one.HasField("t"))
                scope.constants |= zip(node.output, tensors, strict=False)
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
        is_exact = not inner and read <= exact
        if is_exact and (node.op_type in _KEEPS | _ARITHMETIC | _WHOLE | {"Cast"} or all(map(scope.is_whole, outputs))):
            scope.exact.update(outputs)
        if node.op_type in _SUMS and not self._ranged and not self._held:
            # terms that cancel leave the error of the largest of them, which a share of the sum does not show
            for place, name in enumerate(node.input):
                if name in scope.exact and scope.is_float(name):
                    summed[name] = summed.get(name) or self._copy(scope, name, spared=True)
                    node.input[place] = summed[name]
        rounded = {
            name: self._writer.names.fresh(f"{name}__exact")
            for name in outputs
            if name in scope.live and scope.is_float(name) and not self._keeps(node, scope) and not inner
        }
        node.output[:] = [rounded.get(name, name) for name in node.output]
        self._writer.nodes.append(node)
        for name, clean in rounded.items():
            kind = scope.types[name]
            inexact = None if self._ranged else self._inexact(node, clean, kind, scope, is_exact=is_exact)
            self._disturb(clean, name, kind, node.op_type, inexact=inexact)

    def _keeps(self, node: onnx.NodeProto, scope: _Scope) -> bool:
        """Whether a node's result is exact for all values; one that a format cannot represent is not."""
        if self._ranged:
            return node.op_type in MOVES
        if node.op_type == "Cast":
            return not self._held and scope.is_whole(node.input[0])
        if node.op_type in ("Mul", "Div") and not self._held:
            return any(_is_power_of_two(scope.value(name)) for name in node.input[node.op_type == "Div" :])
        return node.op_type in _KEEPS

    def _inexact(self, node: onnx.NodeProto, clean: str, kind: int, scope: _Scope, *, is_exact: bool) -> str | None:
        """Write nodes that are 1 where a result is rounded and 0 where it is exact; None where all of it is rounded.

        The error of a sum is never more than the smaller term: what is added to -1e9 leaves it unchanged.

        Args:
            node: that computes it.
            clean: its result, undisturbed.
            kind: element type of that.
            scope: what is known around it.
            is_exact: whether it is computed from tensors that may be exact.
        """
        make, operator = partial(self._writer.node, stem=f"{clean}__inexact"), node.op_type
        if operator == "Cast":
            return self._fraction(clean, kind) if is_exact or scope.is_whole(node.input[0]) else None
        if is_exact and operator in _WHOLE:
            return self._fraction(clean, kind)
        if operator not in _ARITHMETIC:
            return None
        first, second = node.input[:2]
        tests = []
        if operator in ("Add", "Sub") and any(_may_mask(name, scope) for name in (first, second)):
            smaller = make("Min", *(make("Abs", name) for name in (first, second)))
            share = self._number(max(self._unit, get("fp16").unit if kind == TensorProto.FLOAT16 else 0.0), kind)
            tests.append(make("Greater", smaller, make("Mul", make("Abs", clean), share)))
        if kind != TensorProto.DOUBLE and (
            is_exact or (operator in ("Mul", "Div") and any(_may_mask(name, scope) for name in (first, second)))
        ):
            held = clean if self._held is None else make("Cast", clean, to=self._held)
            a, b, result = (make("Cast", name, to=TensorProto.DOUBLE) for name in (first, second, held))
            pair = (a, make("Mul", result, b)) if operator == "Div" else (make(operator, a, b), result)
            none = self._number(0.0, TensorProto.DOUBLE)
            tests.append(make("Greater", make("Abs", make("Sub", *pair)), none))
        elif is_exact:
            return self._fraction(clean, kind)
        if not tests:
            return None
        return make("Cast", tests[0] if len(tests) == 1 else make("And", *tests), to=kind)

    def _fraction(self, name: str, kind: int) -> str:
        """Write nodes that are 0 where a tensor holds small whole numbers and 1 elsewhere."""
        make = partial(self._writer.node, stem=f"{name}__fraction")
        part = make("Greater", make("Sub", name, make("Floor", name)), self._number(0.0, kind))
        large = make("Greater", make("Abs", name), self._number(_WHOLE_BELOW, kind))
        return make("Cast", make("Or", part, large), to=kind)

    def _number(self, value: float, kind: int) -> str:
        return self._writer.node("Constant", stem="number", value=helper.make_tensor("number", kind, [], [value]))

    def _copy(self, scope: _Scope, name: str, *, spared: bool) -> str:
        """Return the name of a disturbed copy of a tensor; one whose whole numbers are `spared`."""
        copy = self._writer.names.fresh(f"{name}__rounded")
        scope.live.add(copy)
        if spared:
            scope.exact.add(copy)
        kind = scope.types[name]
        self._disturb(name, copy, kind, inexact=self._fraction(name, kind) if spared else None)
        return copy

    def _disturb(self, clean: str, name: str, kind: int, operator: str = "", *, inexact: str | None = None) -> None:
        """Write the nodes that make `name` from `clean`; where `inexact` is 0 nothing is disturbed.

        In formats with one scale a tensor the disturbance is relative to its largest value, without those that stand
        for infinity, and the zeros and ones of a mask are spared, which would become tens next to -10000.
        """
        self._count += 1
        seed = self._seed * 100_003 + self._count
        node = partial(self._writer.node, stem=f"{name}__noise")

        def draw(low: float, high: float) -> str:
            return self._drawing.draw(clean, f"{name}__noise", kind, low=low, high=high, seed=seed)

        share = max(self._unit, _APPROXIMATED.get(operator, 0.0))
        held = None if self._held == kind else self._held
        last = {"output": name} if held is None else {}
        if self._ranged:
            is_score = self._tells_infinite and not self._scores.isdisjoint((clean, name))
            size = node("Abs", clean)
            if self._tells_infinite:
                end = _INFINITE_SCORE if is_score else _INFINITE
                end = min(end, get("fp16").largest) if kind == TensorProto.FLOAT16 else end
                none = self._number(0.0, kind)
                size = node("Where", node("Less", size, self._number(end, kind)), size, none)
            error = node("Mul", draw(-share, share), node("ReduceMax", size, keepdims=0))
            if is_score:
                error = node("Mul", error, self._fraction(size, kind))
            made = node("Add", clean, error, **last)
        elif inexact:
            error = node("Mul", draw(-share, share), inexact)
            made = node("Mul", clean, node("Add", error, self._number(1.0, kind)), **last)
        elif least := _ABSOLUTE.get(operator):
            made = node("Add", node("Mul", clean, draw(1.0 - share, 1.0 + share)), draw(-least, least), **last)
        else:
            made = node("Mul", clean, draw(1.0 - share, 1.0 + share), **last)
        if held is not None:
            node("Cast", node("Cast", made, to=held), output=name, to=kind)


def _may_mask(name: str, scope: _Scope) -> bool:
    """Whether a term or factor may hold a mask: it may be exact, is computed from shapes, or is a large constant."""
    if name in scope.live:
        return name in scope.exact
    value = scope.value(name)
    return value is None or bool(value.size and np.abs(value).max() >= _MASK)


def _is_power_of_two(value: NDArray[Any] | None) -> bool:
    """Whether a constant is only 0 and powers of two, of either sign: what they multiply stays exact."""
    if value is None or value.dtype.kind != "f" or not value.size or not np.isfinite(value).all():
        return False
    return bool(np.isin(np.abs(np.frexp(value.astype(np.float64))[0]), (0.0, 0.5)).all())


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
