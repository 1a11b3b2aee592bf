"""Rewrites of attention for compilers that fuse it wrongly: the same function in other nodes, one rewrite each.

TensorRT 8.6 reads the mask [B,1,1,K] of softmax(scores + mask) @ values wrongly for every row after the first where it
knows that there is one query; newer versions have faults of their own in the kernels that they choose for this pattern
(NVIDIA/TensorRT #4837, #4826). None of these rewrites runs unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trt_workbench.model.attention_pattern import Attention, AttentionIndex
from trt_workbench.model.editing import Names, NodeWriter, put_nodes, remove_nodes, remove_unused
from trt_workbench.model.proto import copied, opset
from trt_workbench.model.sanitize.folding import fold_constants, fold_shapes

# Axes of Unsqueeze and ReduceSum, and Slice's bounds, are inputs from here on.
_OLDEST_OPSET = 13
_FOLD_BYTES = 1 << 20


class _Splice(NodeWriter):
    """New nodes of one rewrite at one attention, put before a node that is there."""

    def __init__(self, model: onnx.ModelProto, names: Names, rule: str, place: Attention, index: AttentionIndex):
        super().__init__(names, f"{rule}/{place.softmax.output[0]}/1")
        self.graph, self.index, self.place, self._opset = model.graph, index, place, opset(model)

    def number(self, value: Any, dtype: Any = np.int64) -> str:
        """Return a constant of a type."""
        return self.constant(np.asarray(value, dtype))

    def over(self, operator: str, x: str, axis: int, **attributes: Any) -> str:
        """Add a node that takes axes."""
        return self.along(operator, x, axis, self._opset, **attributes)

    def sizes(self, x: str, first: int, end: int) -> str:
        """Add what computes the sizes of dimensions `first` to `end` - 1."""
        return self.node("Slice", self.node("Shape", x), self.number([first]), self.number([end]))

    def before(self, node: onnx.NodeProto) -> None:
        """Put the nodes so far before `node`."""
        self._put(self._place(node))

    def instead_of(self, node: onnx.NodeProto) -> None:
        """Put the nodes so far in the place of `node`; the last one makes what it made."""
        self.nodes[-1].output[0] = node.output[0]
        self._put(self._place(node))
        remove_nodes(self.graph, [node])

    def after(self, node: onnx.NodeProto, make: Callable[[str], str]) -> None:
        """Put what `make` adds for the output of `node` after it; the last node makes what `node` made."""
        output = node.output[0]
        node.output[0] = self.names.fresh(self._stem)
        make(node.output[0])
        self.nodes[-1].output[0] = output
        self._put(self._place(node) + 1)

    def _place(self, node: onnx.NodeProto) -> int:
        return next(place for place, one in enumerate(self.graph.node) if one is node)

    def _put(self, at: int) -> None:
        put_nodes(self.graph, at, self.taken())
        self.graph.initializer.extend(self.initializers)
        self.initializers.clear()


Rule = Callable[[_Splice, Attention], bool]


def _selected_scores(on: _Splice, place: Attention) -> bool:
    """Add each of the two numbers that a mask consists of to all scores, and choose between the sums."""
    source = on.index.producer.get(place.mask)
    if place.masked is None or source is None or source.op_type != "Where":
        return False
    condition, *numbers = source.input
    if not all(on.index.is_scalar(name) for name in numbers):
        return False
    on.node("Where", condition, *[on.node("Add", place.scores, name) for name in numbers])
    on.instead_of(place.masked)
    return True


def _spelled_softmax(on: _Splice, place: Attention) -> bool:
    """Write the Softmax as its exponentials over their sum."""
    x = place.softmax.input[0]
    powers = on.node("Exp", on.node("Sub", x, on.over("ReduceMax", x, -1, keepdims=1)))
    on.node("Div", powers, on.over("ReduceSum", powers, -1, keepdims=1))
    on.instead_of(place.softmax)
    return True


def _mask_in_keys(on: _Splice, place: Attention) -> bool:
    """Make a mask that all queries share one more feature of the keys, of which the queries have 1."""
    masked, (queries, keys) = place.masked, place.product.input
    way = [node for node in place.between if node.op_type != "Cast"]
    scale = way[0] if len(way) > 1 and way[0].op_type in ("Mul", "Div") else None
    if masked is None or way.index(masked) != (1 if scale else 0) or on.index.dim(place.mask, -2) != 1:
        return False
    dtype = on.index.types.get(queries)
    if any(on.index.rank(name) != 4 for name in (queries, keys)) or not dtype or dtype != on.index.types.get(keys):
        return False
    if scale is not None:
        first, second = scale.input
        if not on.index.is_scalar(second) or first not in (place.product.output[0], *[n.output[0] for n in way]):
            return False
        queries = on.node(scale.op_type, queries, second)
    one = on.number(1, helper.tensor_dtype_to_np_dtype(dtype))
    row = on.node("Concat", on.sizes(keys, 0, 2), on.number([1]), on.sizes(keys, 3, 4), axis=0)
    keys = on.node("Concat", keys, on.node("Expand", place.mask, row), axis=-2)
    on.node("MatMul", on.node("Pad", queries, on.number([0] * 7 + [1]), one), keys)
    on.instead_of(masked)
    return True


def _two_queries(on: _Splice, place: Attention) -> bool:
    """Ask the one query twice and drop the second answer."""
    queries = place.product.input[0]
    if not on.index.is_closed(place) or any(
        on.index.dim(name, -2) != 1 for name in (queries, *[name for _, name in _operands(on, place)])
    ):
        return False
    place.product.input[0] = on.node("Concat", queries, queries, axis=-2)
    on.before(place.product)
    on.after(place.mixing, lambda x: on.node("Slice", x, *[on.number([number]) for number in (0, 1, -2)]))
    return True


def _sums_of_products(on: _Splice, place: Attention) -> bool:
    """Write both products as sums of elementwise ones, where there is one query."""
    queries, keys = place.product.input
    shares, values = place.mixing.input
    if on.index.dim(queries, -2) != 1 or on.index.rank(keys) != 4:
        return False
    turned = partial(on.node, "Transpose", perm=[0, 1, 3, 2])
    turned(on.over("ReduceSum", on.node("Mul", queries, turned(keys)), -1, keepdims=1))
    on.instead_of(place.product)
    on.over("ReduceSum", on.node("Mul", turned(shares), values), -2, keepdims=1)
    on.instead_of(place.mixing)
    return True


def _copied(on: _Splice, node: onnx.NodeProto) -> bool:
    """Let a node read one of two copies."""
    wide = on.over("Unsqueeze", node.input[0], 0)
    node.input[0] = on.node("Gather", on.node("Concat", wide, wide, axis=0), on.number(0), axis=0)
    on.before(node)
    return True


def _operands(on: _Splice, place: Attention) -> list[tuple[onnx.NodeProto, str]]:
    """Return what meets the scores on their way to the Softmax, and where; single numbers are left out."""
    way = {node.output[0] for node in place.nodes}
    several = [(node, name) for node in place.between for name in node.input if name and name not in way]
    return [(node, name) for node, name in several if not on.index.is_scalar(name)]


# The cheapest first. Of step graphs with a mask for each row TensorRT 8.6 computes all but the last rightly, which it
# does not build; it is wrong where the mask gets the shape of the scores, or heads join the batch.
RULES: Mapping[str, Rule] = {
    "attention-mask-selected": _selected_scores,
    "attention-mask-in-keys": _mask_in_keys,
    "attention-query-doubled": _two_queries,
    "attention-sums": _sums_of_products,
    "attention-scores-copied": lambda on, place: _copied(on, place.softmax),
    "attention-shares-copied": lambda on, place: _copied(on, place.mixing),
    "attention-softmax-spelled": _spelled_softmax,
}


def rewrite_attention(model: onnx.ModelProto, rule: str) -> list[str]:
    """Apply one of `RULES` to every attention that it fits; returns which, by the name of their Softmax."""
    if opset(model) < _OLDEST_OPSET:
        return []
    del model.graph.value_info[:]  # shapes there may be those of before
    index, names = AttentionIndex(model), Names.of(model)
    done = {name.rsplit("/", 1)[0] for node in model.graph.node for name in node.output if name.startswith(f"{rule}/")}
    changed = []
    for place in index.found:
        if f"{rule}/{place.softmax.output[0]}" in done:
            continue
        if RULES[rule](_Splice(model, names, rule, place, index), place):
            changed.append(place.softmax.name or place.softmax.output[0])
    return changed


def candidates(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield the model with its attention in every other form that there is, by rule, the cheapest first.

    Shapes that are known are folded before, as many forms need to know the number of queries or heads.
    """
    folded = copied(model)
    while fold_shapes(folded, _FOLD_BYTES) or fold_constants(folded, _FOLD_BYTES):
        pass
    for rule in RULES:
        copy = copied(folded)
        if rewrite_attention(copy, rule):
            remove_unused(copy)
            yield rule, copy
