"""Rewrites of what TensorRT refuses or runs badly, one function each. Each returns what it changed, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import onnx
from onnx import TensorProto

from trt_workbench.core.precision import get
from trt_workbench.model.constants import Array, constants
from trt_workbench.model.editing import (
    Names,
    NodeWriter,
    bypass,
    in_order,
    name_nodes,
    put_nodes,
    remove_nodes,
    remove_unused,
    rename_uses,
    set_constant,
)
from trt_workbench.model.proto import Dims, element_types, integer, is_external, kinds_where, static_dims
from trt_workbench.model.sanitize.attention import RULES as ATTENTION_RULES
from trt_workbench.model.sanitize.attention import rewrite_attention
from trt_workbench.model.sanitize.branches import inline_ifs
from trt_workbench.model.sanitize.convolutions import conv_2d
from trt_workbench.model.sanitize.doubles import double_to_float
from trt_workbench.model.sanitize.folding import fold_constants, fold_shapes
from trt_workbench.model.sanitize.integers import clamp_int64, int32_indices
from trt_workbench.model.sanitize.opset import lower_opset
from trt_workbench.model.walking import readers, use_counts
from trt_workbench.model.weights import inferred

# What an element of a shape is: a number, or the size of a tensor's dimension.
_Element = int | tuple[str, int]


def copy_sizes(model: onnx.ModelProto) -> list[str]:
    """Write 0 where an element of a Reshape's shape is the size of its input at the same place.

    Returns:
        What was changed, in words.
    """
    graph = model.graph
    values, dims = constants(graph), static_dims(inferred(model).graph)
    makers = {name: node for node in graph.node for name in node.output}
    writer, changed = NodeWriter(Names.of(model)), []
    for node in list(graph.node):
        shape = makers.get(node.input[1]) if node.op_type == "Reshape" and not integer(node, "allowzero") else None
        names = shape.input if shape is not None and shape.op_type == "Concat" else ()
        parts = [_elements(name, values, makers, dims) for name in names]
        places = accumulate(map(len, parts), initial=0)
        own = [
            part == [(node.input[0], axis) for axis in range(place, place + len(part))]
            for part, place in zip(parts, places, strict=False)
        ]
        if not all(parts) or not any(own):
            continue
        copied = sum(len(part) for part, is_own in zip(parts, own, strict=True) if is_own)
        written = [[0] * len(part) if is_own else part for part, is_own in zip(parts, own, strict=True)]
        _set_shape(graph, node, names, written, writer)
        changed.append(f"Reshape {node.name} copies {copied} of its input's sizes")
    graph.initializer.extend(writer.initializers)
    return changed


def _elements(
    name: str, values: Mapping[str, Array], makers: Mapping[str, onnx.NodeProto], dims: Dims
) -> Sequence[_Element]:
    """Return what a part of a shape holds; empty where that is not known."""
    if name in values:
        return [int(number) for number in values[name].reshape(-1)]
    node = makers.get(name)
    if node is not None and node.op_type == "Unsqueeze":
        node = makers.get(node.input[0])
    source = makers.get(node.input[0]) if node is not None and node.op_type in ("Gather", "Slice") else None
    if node is None or source is None or source.op_type != "Shape" or source.attribute:
        return []
    chosen = [values.get(one) for one in node.input[1:]]
    numbers = [int(one.item()) for one in chosen if one is not None and one.size == 1]
    first, last = (*numbers, *[one + 1 for one in numbers], -1, -1)[:2]  # of a Gather one dimension
    rank, is_plain = len(dims.get(source.input[0], ())), node.op_type == "Gather" or numbers[2:] in ([], [0], [0, 1])
    if len(numbers) < len(chosen) or not is_plain or not 0 <= first < last <= rank:
        return []
    return [(source.input[0], axis) for axis in range(first, last)]


def _set_shape(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    names: Sequence[str],
    parts: Sequence[Sequence[_Element]],
    writer: NodeWriter,
) -> None:
    """Let the node read the shape: a constant where all of it is known, else a Concat of its own."""

    def constant(numbers: Sequence[_Element]) -> str:
        return writer.constant(np.array(numbers, np.int64), f"{node.output[0]}_sizes")

    known = [isinstance(part[0], int) for part in parts]
    if all(known):
        node.input[1] = constant([number for part in parts for number in part])
        return
    read = [constant(part) if is_known else name for name, part, is_known in zip(names, parts, known, strict=True)]
    node.input[1] = writer.node("Concat", *read, stem=f"{node.output[0]}_shape", axis=0)
    put_nodes(graph, next(place for place, one in enumerate(graph.node) if one is node), writer.taken())


# Largest finite fp16: a mask below it turns into -inf, and a row of -inf into NaN.
_FP16_MAX = get("fp16").largest
_FLOATS = kinds_where(lambda one: not one.is_quantised)
# int64 values are lossless stops on the way from and to these.
_WIDER: Mapping[int, tuple[int, ...]] = {
    TensorProto.INT64: (TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL),
    TensorProto.INT32: (TensorProto.INT16, TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL),
    **{wide: tuple(kinds_where(get(name).holds)) for wide, name in _FLOATS.items()},
}


@dataclass(frozen=True)
class SanitizeSettings:
    """What the rewrites need to know.

    Attributes:
        dims: value for each symbolic dimension that is to be fixed.
        fold_limit_bytes: largest result of folding that is kept in the file.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    fold_limit_bytes: int = 1 << 20


Rewrite = Callable[[onnx.ModelProto, SanitizeSettings], list[str]]


def dedupe_initializers(model: onnx.ModelProto, _: SanitizeSettings) -> list[str]:
    """Keep one of several initialisers that are equal in type, shape and bytes."""
    graph = model.graph
    kept: dict[tuple[int, tuple[int, ...], int], onnx.TensorProto] = {}
    changed = []
    inputs, outputs = {value.name for value in graph.input}, {value.name for value in graph.output}
    for tensor in list(graph.initializer):
        if tensor.name in inputs or is_external(tensor):
            continue
        data = _bytes(tensor)
        first = kept.setdefault((tensor.data_type, tuple(tensor.dims), hash(data)), tensor)
        if first is not tensor and tensor.name not in outputs and _bytes(first) == data:
            rename_uses(graph, {tensor.name: first.name})
            graph.initializer.remove(tensor)
            changed.append(f"{tensor.name} is {first.name}")
    return changed


def _bytes(tensor: onnx.TensorProto) -> bytes:
    return tensor.raw_data or onnx.numpy_helper.to_array(tensor).tobytes()


def remove_no_ops(model: onnx.ModelProto, _: SanitizeSettings) -> list[str]:
    """Remove Identity nodes and Dropout at inference."""
    graph = model.graph
    values = constants(graph)
    counts = use_counts(graph)
    gone = []
    for node in graph.node:
        training = len(node.input) > 2 and node.input[2] and np.any(values.get(node.input[2], True))
        mask_used = len(node.output) > 1 and bool(counts[node.output[1]])
        inert = node.op_type == "Identity" or (node.op_type == "Dropout" and not training and not mask_used)
        if inert and bypass(graph, node):
            gone.append(node)
    changed = [f"{node.op_type} {node.name}" for node in gone]
    remove_nodes(graph, gone)
    return changed


def collapse_casts(model: onnx.ModelProto, _: SanitizeSettings) -> list[str]:
    """Remove a pair of casts that goes to a wider type and back."""
    graph = model.graph
    types = element_types(inferred(model).graph)
    casts = {node.output[0]: node for node in graph.node if node.op_type == "Cast"}
    gone, changed = [], []
    for node in casts.values():
        inner = casts.get(node.input[0])
        if inner is None:
            continue
        source, middle, target = types.get(inner.input[0]), integer(inner, "to"), integer(node, "to")
        if source == target and source in _WIDER.get(middle, ()):
            node.input[0] = inner.input[0]
            if bypass(graph, node):
                gone.append(node)
                changed.append(f"Cast {inner.name} and {node.name}")
    remove_nodes(graph, gone)
    return changed


def freeze_dims(model: onnx.ModelProto, settings: SanitizeSettings) -> list[str]:
    """Fix symbolic dimensions of inputs and outputs to the values that were given."""
    changed = []
    for value in (*model.graph.input, *model.graph.output):
        for place, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param in settings.dims:
                changed.append(f"{value.name}[{place}] {dim.dim_param} = {settings.dims[dim.dim_param]}")
                dim.dim_value = settings.dims[dim.dim_param]
    if changed:
        del model.graph.value_info[:]
    return changed


def finite_masks(model: onnx.ModelProto, _: SanitizeSettings) -> list[str]:
    """Replace -inf and values below fp16 in constants that are added or selected before a Softmax."""
    graph = model.graph
    values = constants(graph)
    following = readers(graph.node)
    changed = []
    for name in list(values):
        if values.facts(name)[0] != np.float32 or not np.any(np.less(value := values[name], -_FP16_MAX)):
            continue
        if all(_reaches_softmax(node, following, 4) for node in following[name]):
            set_constant(graph, name, np.clip(value, np.float32(-_FP16_MAX), None))
            changed.append(name)
    return changed


def _reaches_softmax(node: onnx.NodeProto, following: defaultdict[str, list[onnx.NodeProto]], depth: int) -> bool:
    if node.op_type == "Softmax":
        return True
    if depth == 0 or node.op_type not in ("Add", "Where", "Mul", "Expand", "Unsqueeze", "Slice", "Cast", "Reshape"):
        return False
    after = following[node.output[0]]
    return bool(after) and all(_reaches_softmax(reader, following, depth - 1) for reader in after)


def _of_attention(rule: str) -> Rewrite:
    return lambda model, _: rewrite_attention(model, rule)


# In the order in which they run. The second word says whether they run without being asked for.
REWRITES: Mapping[str, tuple[Rewrite, bool]] = {
    # Every node behind those whose outputs it reads.
    "sort-nodes": (lambda model, _: [f"{name} now comes after {read}" for name, read in in_order(model)], True),
    "freeze-dims": (freeze_dims, True),
    "remove-no-ops": (remove_no_ops, True),
    "fold-shapes": (lambda model, settings: fold_shapes(model, settings.fold_limit_bytes), True),
    "fold-constants": (lambda model, settings: fold_constants(model, settings.fold_limit_bytes), True),
    "inline-if": (lambda model, _: inline_ifs(model), True),
    "copy-sizes": (lambda model, _: copy_sizes(model), False),
    "collapse-casts": (collapse_casts, True),
    "clamp-int64": (lambda model, _: clamp_int64(model), True),
    "int32-indices": (lambda model, _: int32_indices(model), False),
    "double-to-float": (lambda model, _: double_to_float(model), True),
    "finite-masks": (finite_masks, False),
    "opset-17": (lambda model, _: lower_opset(model), False),
    "conv-2d": (lambda model, _: conv_2d(model), False),
    "dedupe-initializers": (dedupe_initializers, True),
    "remove-unused": (lambda model, _: remove_unused(model), True),
    # A name of its own for each, so that reports and layer names can be traced back.
    "name-nodes": (
        lambda model, _: [f"{old or '(no name)'} is now {new}" for old, new in name_nodes(model.graph.node)],
        True,
    ),
    **{rule: (_of_attention(rule), False) for rule in ATTENTION_RULES},
}
