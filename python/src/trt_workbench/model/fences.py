"""Fences: inner tensors made outputs of a model, so that a compiler fuses nothing across them.

A session shows no fence and moves none to the host. The tensors' names mark them as fences (`fence_names.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from trt_workbench.model.attention_pattern import AttentionIndex
from trt_workbench.model.editing import Names, rename_uses
from trt_workbench.model.fence_names import PREFIX
from trt_workbench.model.proto import copied, kinds_where

_FLOATS = kinds_where(lambda one: not one.is_quantised and one.bits <= 32)


def fences(model: onnx.ModelProto, nodes: Sequence[str] = ()) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield copies of a model with fences by where these are, the fewest first.

    Args:
        model: that is wrong.
        nodes: names of nodes of the place where it is wrong; without them, and where they do not suffice, every
            attention and then every tensor of floats is fenced.
    """
    index = AttentionIndex(model)
    named = [node for node in model.graph.node if node.name in nodes]
    attentions = [node for place in index.found for node in place.nodes]
    seen: set[frozenset[str]] = {frozenset()}
    for where, chosen in (("place", named), ("attention", attentions), ("everywhere", model.graph.node)):
        taken = {value.name for value in model.graph.output}
        tensors = [name for node in chosen if node.op_type != "Constant" for name in node.output if name not in taken]
        inner = list(dict.fromkeys(name for name in tensors if index.types.get(name) in _FLOATS))
        if frozenset(inner) not in seen:
            seen.add(frozenset(inner))
            yield f"fence-{where}", _fenced(model, inner, index)


def _fenced(model: onnx.ModelProto, tensors: Sequence[str], index: AttentionIndex) -> onnx.ModelProto:
    copy = copied(model)
    names = Names.of(copy)
    maker = {name: (node, place) for node in copy.graph.node for place, name in enumerate(node.output)}
    for number, name in enumerate(tensors):
        fence = names.fresh(f"{PREFIX}{number}")
        node, place = maker[name]
        node.output[place] = fence
        rename_uses(copy.graph, {name: fence})
        copy.graph.output.append(onnx.helper.make_tensor_value_info(fence, index.types[name], index.dims.get(name)))
    return copy
