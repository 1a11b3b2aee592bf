"""A model in fp16 or bf16 as a strongly typed graph: every tensor has the type that it is computed in.

Inputs and outputs stay fp32, with a Cast behind and before them. Constants are converted, not cast. What ONNX does not
allow in the type stays fp32, as do squares and sums, and what is computed only of integers (positions, sizes), which
half types hold inexactly from 2048 (fp16) or 256 (bf16) on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.core.counts import some
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import Format, get
from trt_workbench.model.constants import Array, Constants, constant_value
from trt_workbench.model.editing import Names, NodeWriter, in_order, inlined, remove_unread
from trt_workbench.model.graph_types import output_type
from trt_workbench.model.low_precision.cast_rules import (
    BOUNDED,
    CARRIES,
    CENTRES,
    MULTIPLIES,
    PRODUCTS,
    SAME_SIZE,
    SHAPES_CONSTANTS,
    SUMS,
    WIDE,
    NodeTypes,
)
from trt_workbench.model.low_precision.preparation import DoesNotApply, Lowered
from trt_workbench.model.proto import STANDARD, element_types, is_external, kinds, kinds_where, opset
from trt_workbench.model.walking import Scope, all_nodes, defined, has_subgraph, subgraphs
from trt_workbench.model.weights import inferred, light

_HALVES = kinds_where(lambda one: one.is_half)
# Older operator sets broadcast by attributes, and their types differ.
_OLDEST = 7
# A constant of at least this size stands for infinity, as in masks: the largest value of a type does as well.
_AS_GOOD_AS_INFINITE = 1e8
_CLIP_INPUTS = 11
_INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32, TensorProto.UINT64})


def cast_model(
    model: onnx.ModelProto, precision: str, keep: Collection[str] = (), operators: Collection[str] = ()
) -> Lowered:
    """Return `model` with its fp32 arithmetic in fp16 or bf16.

    Args:
        model: with its weights; not changed.
        precision: a format of floats that is made by casts, such as "fp16".
        keep: names of nodes that stay in fp32.
        operators: whose nodes do, such as "Softmax".

    Returns:
        The model; inputs and outputs have the names and types they had.

    Raises:
        DoesNotApply: the model has no fp32 arithmetic, or all of it stays in fp32.
        UsageProblem: the model is in a half type already, or its operator set is too old.
    """
    row = get(precision)
    oldest = max(row.since, _OLDEST)
    if opset(model) < oldest:
        raise UsageProblem(
            f"The model uses operator set {opset(model)}; {precision} needs {oldest} or newer: export it again."
        )
    whole = inlined(model)
    weights = {tensor.name: tensor for tensor in whole.graph.initializer}
    copy = light(whole)
    in_order(copy)
    computed = {name for node in all_nodes(copy) if node.op_type != "Cast" for name in node.input}
    # weights that are widened before they are used are a matter of storage
    floats = [one for one in copy.graph.initializer if one.data_type in _HALVES and one.name in computed]
    if floats:
        kind = TensorProto.DataType.Name(floats[0].data_type).lower()
        raise UsageProblem(f"The model is already in a lower precision: {floats[0].name} is {kind}.")
    result = Lowered(copy)
    caster = _Caster(result, row, frozenset(keep), frozenset(operators), weights)
    caster.graph(copy.graph, inferred(copy).graph, _Scope())
    for tensor in filter(is_external, copy.graph.initializer):
        tensor.CopyFrom(weights[tensor.name])
    if not caster.lowered:
        reasons = [*dict.fromkeys(result.kept.values())]
        if caster.unasked:
            lost = "range or digits" if row.exponent_bits < get("fp32").exponent_bits else "digits"
            reasons.append(
                f"squares, sums, and what is computed from them or from integers alone, exceed {precision}'s {lost}: "
                f"{', '.join(caster.unasked)}"
            )
        if reasons:
            words = "; ".join(reasons)
            raise DoesNotApply(
                f"No node becomes {precision}, because everything that computes in fp32 stays there ({words})."
            )
        raise DoesNotApply(f"The model has no fp32 computation that {precision} could replace.")
    if caster.clamped:
        result.notes.append(
            f"Constants beyond {row.largest:g} that mean infinity were replaced by it: {some(caster.clamped, 5)}."
        )
    return result


@dataclass
class _Scope(Scope):
    """What is known of tensors in a graph and around it.

    Attributes:
        types: element types in the model as it was.
        versions: the name of a tensor in each type that it is had in.
        constants: values of constants in fp32.
        exact: tensors that are computed only of integers or sums, which stay in fp32.
        squares: squares of data among these.
        sources: what a tensor is, up to signs, constant factors and its shape.
        infinite: tensors with values that stand for infinity, and whether these take the whole range of the type.
    """

    types: dict[str, int] = field(default_factory=dict)
    versions: dict[str, dict[int, str]] = field(default_factory=dict)
    constants: Constants = field(default_factory=Constants)
    exact: set[str] = field(default_factory=set)
    squares: set[str] = field(default_factory=set)
    sources: dict[str, str] = field(default_factory=dict)
    infinite: dict[str, bool] = field(default_factory=dict)


class _Caster:
    def __init__(
        self,
        result: Lowered,
        row: Format,
        keep: frozenset[str],
        operators: frozenset[str],
        weights: Mapping[str, TensorProto],
    ) -> None:
        self._result, self._row, self._low = result, row, kinds(row.name)[0]
        self._weights = weights
        self._keep, self._operators = keep, operators
        self._opset = opset(result.model)
        self._writer = NodeWriter(Names.of(result.model))
        self.lowered = 0
        self.unasked: dict[str, None] = {}  # operators that stay in fp32 for the sake of squares, sums and integers
        self.clamped: list[str] = []

    def graph(self, graph: onnx.GraphProto, typed: onnx.GraphProto, scope: _Scope) -> None:
        """Rewrite a graph in place; its own inputs and outputs stay in fp32."""
        scope.types |= element_types(typed)
        inputs = {value.name for value in graph.input}
        for tensor in graph.initializer:
            if tensor.data_type == TensorProto.FLOAT and tensor.name not in inputs:
                scope.constants[tensor.name] = self._weights[tensor.name] if is_external(tensor) else tensor
        outputs = {value.name for value in graph.output}
        for node, facts in zip(list(graph.node), typed.node, strict=True):
            if node.op_type == "Constant" and node.domain in STANDARD:
                self._constant(node, scope)
            elif has_subgraph(node):
                self._control(node, facts, scope)
            else:
                self._node(node, scope, outputs)
        self._finish(graph)

    def _finish(self, graph: onnx.GraphProto) -> None:
        self._writer.fill(graph)
        remove_unread(graph, set(defined(graph)) - {value.name for value in graph.input})
        del graph.value_info[:]

    def _constant(self, node: onnx.NodeProto, scope: _Scope) -> None:
        value = constant_value(node)
        if value is not None and value.dtype == np.float32:
            scope.types[node.output[0]] = TensorProto.FLOAT
            scope.constants[node.output[0]] = value
        self._writer.nodes.append(node)

    def _control(self, node: onnx.NodeProto, facts: onnx.NodeProto, scope: _Scope) -> None:
        """Rewrite the bodies of If, Loop and Scan; what goes in and out of them stays in fp32."""
        first = 1 if node.op_type == "Loop" else 0  # a Loop's body says first whether it goes on
        for body, known in zip(subgraphs([node]), subgraphs([facts]), strict=True):
            inner = scope.inside(body)
            with self._writer.apart():
                self.graph(body, known, inner)
            pairs = zip(node.output, body.output[first:], strict=False)
            scope.infinite.update({name: False for name, value in pairs if value.name in inner.infinite})
            for value in body.output:  # captured as it is
                if value.name in scope.versions and TensorProto.FLOAT not in scope.versions[value.name]:
                    value.name = self._as(value.name, TensorProto.FLOAT, scope)
        self._wire(node, scope, [False] * len(node.input))
        self._writer.nodes.append(node)

    def _node(self, node: onnx.NodeProto, scope: _Scope, outputs: set[str]) -> None:
        places = [place for place, name in enumerate(node.input) if scope.types.get(name) == TensorProto.FLOAT]
        rules = NodeTypes(node, self._opset)
        first = output_type(node, scope.types)  # behind an operator that ONNX does not know it infers nothing
        for place, name in enumerate(node.output):
            if name and not scope.types.get(name) and rules.as_first(place):
                scope.types[name] = first
        read = list(node.input)
        wide = self._stays_wide(node, scope, [node.input[place] for place in places])
        reason = self._reason(node, scope, places, rules)
        if reason:
            self._result.kept[node.name or node.output[0]] = reason
        stays = wide or self._normalises(node, scope)
        low = not (stays or reason) and rules.known
        if places and stays and not reason:
            self.unasked[node.op_type] = None
            if node.op_type in PRODUCTS:
                self._result.kept[node.name or node.output[0]] = "a product of squares, sums or integers"
        retyped = False
        if low and rules.is_free(0):
            low = retyped = rules.can_say(self._low) and self._retyped(node, scope)
        self._wire(node, scope, [low and rules.input_may_be(place, self._low) for place in range(len(node.input))])
        if places and not low:
            self._result.wide.add(node.op_type)
        if wide and node.op_type not in BOUNDED:
            scope.exact.update(node.output)
        scaled = [name for name in read if name not in scope.constants] if node.op_type in ("Mul", "Div") else []
        source = read[0] if node.op_type in SAME_SIZE else scaled[0] if len(scaled) == 1 else None
        if source:
            scope.sources[node.output[0]] = scope.sources.get(source, source)
        if node.op_type == "Pow" or source in scope.squares or _is_square(read, node.op_type, scope):
            scope.squares.update(node.output)
        self._carry(node.op_type, read, node.output, scope, low=low)
        after = []
        for place, name in enumerate(node.output):
            if not name or scope.types.get(name) != TensorProto.FLOAT:
                continue
            if not (retyped or (low and rules.output_may_be(place, self._low))):
                scope.versions[name] = {TensorProto.FLOAT: name}
                continue
            self.lowered += bool(places)
            scope.versions[name] = {self._low: name}
            if name in outputs:
                node.output[place] = self._writer.names.fresh(f"{name}_{self._row.name}")
                scope.versions[name] = {self._low: node.output[place], TensorProto.FLOAT: name}
                made = helper.make_node("Cast", [node.output[place]], [name], f"{name}_cast", to=TensorProto.FLOAT)
                after.append(made)
        self._writer.nodes += [node, *after]

    def _stays_wide(self, node: onnx.NodeProto, scope: _Scope, floats: list[str]) -> bool:
        """Whether a node's results stay in fp32 by default: sums, squares, and what is made only of integers."""
        if node.op_type == "Cast":
            return scope.types.get(node.input[0]) in _INTEGERS or node.input[0] in scope.exact
        if node.op_type in WIDE or _is_square(node.input, node.op_type, scope):
            return True
        infinite = [name for name in floats if self._is_infinite(name, scope)]
        if node.op_type in SUMS and (len(infinite) > 1 or any(scope.infinite.get(name) for name in infinite)):
            return True
        given = [scope.constants[name] for name in floats if name in scope.constants]
        computed = [name for name in floats if name not in scope.constants]
        if not computed:
            return bool(given) and node.op_type in SHAPES_CONSTANTS
        weighted = (
            node.op_type in PRODUCTS
            and any(value.ndim > 1 for value in given)
            and not scope.squares.intersection(computed)
        )
        return not weighted and all(name in scope.exact for name in computed)

    def _normalises(self, node: onnx.NodeProto, scope: _Scope) -> bool:
        """Whether a node relates data to their own mean or power, where both exist in fp32: runtimes fuse that."""
        if node.op_type not in CENTRES:
            return False
        floats = [name for name in node.input if scope.types.get(name) == TensorProto.FLOAT]
        sums = [name for name in floats if name in scope.exact and name not in scope.constants]
        return (
            len(floats) == 2 and len(sums) == 1 and all(TensorProto.FLOAT in scope.versions.get(n, {}) for n in floats)
        )

    def _carry(self, operator: str, read: Sequence[str], made: Sequence[str], scope: _Scope, *, low: bool) -> None:
        """Note which results have values that stand for infinity."""
        passed = read[:1] if operator == "Div" else read
        carried = [name for name in passed if self._is_infinite(name, scope)]
        bounded = operator in ("Min", "Max") and len(carried) < len(read)
        if not carried or bounded or operator not in CARRIES:
            return
        # half of the range leaves room for data that are added; what is wide gets it when it is cast
        whole = operator not in SUMS and self._of_data(read, scope) and any(one in scope.constants for one in carried)
        full = low and (operator in ("Mul", "Div") or whole or any(scope.infinite.get(name) for name in carried))
        scope.infinite.update(dict.fromkeys(made, full))

    def _of_data(self, read: Iterable[str], scope: _Scope) -> bool:
        return any(scope.types.get(name) == TensorProto.FLOAT and name not in scope.constants for name in read)

    def _is_infinite(self, name: str, scope: _Scope) -> bool:
        """Whether a tensor has values beyond the type that stand for infinity, as a mask does."""
        return name in scope.infinite or self._stands_for_infinity(scope.constants.get(name))

    def _stands_for_infinity(self, value: Array | None) -> bool:
        beyond = np.zeros(0) if value is None else self._beyond(value)
        return bool(beyond.size) and bool(beyond.min() >= _AS_GOOD_AS_INFINITE)

    def _beyond(self, value: Array) -> Array:
        """Return the absolute values that are finite in a constant and would not be in the type."""
        if max(value.max(initial=0), -value.min(initial=0)) <= self._row.largest:
            return value.reshape(-1)[:0]  # of most weights, found without a copy of them; not of NaN
        finite = np.abs(value[np.isfinite(value)])
        return finite[finite > self._row.largest]

    def _reason(self, node: onnx.NodeProto, scope: _Scope, places: list[int], rules: NodeTypes) -> str | None:
        """Return why a node that computes on floats has to stay in fp32, if it has to."""
        if node.name in self._keep or node.op_type in self._operators:
            return "requested"
        if not places:
            return None
        if not rules.known or (node.op_type in PRODUCTS and not rules.output_may_be(0, self._low)):
            return f"{node.op_type} has no form in {self._row.name} in operator set {self._opset}"
        if any(attribute.name == "block_size" for attribute in node.attribute):
            return "it expands blocks of a narrower format"
        for place in places:
            value = scope.constants.get(node.input[place])
            if value is None or not rules.input_may_be(place, self._low):
                continue
            beyond = self._beyond(value)
            if beyond.size and (node.op_type in PRODUCTS or beyond.min() < _AS_GOOD_AS_INFINITE):
                return f"{node.input[place]} has {float(beyond.max()):g}, beyond {self._row.largest:g}"
            if value.size == 1 and value.any() and not self._converted(value).any():
                return f"{node.input[place]} is {float(value.reshape(-1)[0]):g}, which is 0 in {self._row.name}"
        return None

    def _retyped(self, node: onnx.NodeProto, scope: _Scope) -> bool:
        """Let a node that says its type itself make the low one; say whether it does."""
        if scope.types.get(node.output[0]) != TensorProto.FLOAT:
            return False
        if node.op_type == "Cast":
            next(one for one in node.attribute if one.name == "to").i = self._low
            return True
        given = next((numpy_helper.to_array(one.t) for one in node.attribute if one.name == "value"), None)
        given = np.zeros(1, np.float32) if given is None else given
        if self._stands_for_infinity(given):
            scope.infinite[node.output[0]] = False
        value = self._converted(given, node.output[0], share=2)
        del node.attribute[:]
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(value)))
        return True

    def _wire(self, node: onnx.NodeProto, scope: _Scope, low: Iterable[bool]) -> None:
        """Let a node read its float inputs in the types it takes."""
        data = self._of_data(node.input, scope)
        for place, is_low in enumerate(low):
            name = node.input[place]
            if name and scope.types.get(name) == TensorProto.FLOAT:
                # a Cast takes either
                free = node.op_type == "Cast" and self._low in scope.versions.get(name, {})
                added = node.op_type in SUMS or not data
                if is_low and added and name in scope.constants and self._is_infinite(name, scope):
                    node.input[place] = self._writer.constant(self._converted(scope.constants[name], name, share=2))
                    continue
                node.input[place] = self._as(name, self._low if is_low or free else TensorProto.FLOAT, scope)

    def _as(self, name: str, kind: int, scope: _Scope) -> str:
        """Return the name of a tensor in a type, with the node or constant that makes it."""
        versions = scope.versions.setdefault(name, {TensorProto.FLOAT: name})
        if kind not in versions:
            stem = f"{name}_{self._row.name if kind == self._low else 'fp32'}"
            if name in scope.constants:
                versions[kind] = self._writer.constant(self._converted(scope.constants[name], name), stem)
            else:
                (source,) = versions.keys() - {kind}
                made = versions[source]
                if kind == self._low and name in scope.infinite:
                    made = self._within(made)
                    scope.infinite[name] = False
                versions[kind] = self._writer.node("Cast", made, stem=stem, to=kind)
        return versions[kind]

    def _within(self, name: str) -> str:
        """Add what brings a mask in fp32 into half of the range of the type."""
        limits = [np.float32(sign * self._row.largest / 2) for sign in (-1, 1)]
        if self._opset < _CLIP_INPUTS:
            return self._writer.node("Clip", name, stem=f"{name}_within", min=float(limits[0]), max=float(limits[1]))
        return self._writer.node("Clip", name, *map(self._writer.constant, limits), stem=f"{name}_within")

    def _converted(self, value: Array, name: str = "", share: int = 1) -> Array:
        """Return a constant in the low type; finite values stay finite, which is noted under `name`.

        They are within the range over `share`.
        """
        largest = self._row.largest / (share if self._stands_for_infinity(value) else 1)
        clipped = np.where(np.isfinite(value), np.clip(value, -largest, largest), value)
        if name and self._beyond(value).size and name not in self.clamped:
            self.clamped.append(name)
        dtype: Any = helper.tensor_dtype_to_np_dtype(self._low)
        return np.asarray(clipped.astype(dtype))


def _is_square(read: Sequence[str], operator: str, scope: _Scope) -> bool:
    """Whether a node multiplies data with themselves."""
    if operator not in MULTIPLIES:
        return False
    factors = [scope.sources.get(name, name) for name in (read if operator == "Einsum" else read[:2])]
    return len(set(factors)) < len(factors)
