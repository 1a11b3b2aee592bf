"""Concat of all pieces of one tensor, as the C2f, ELAN and CSP blocks of detectors have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from trt_workbench.onnxtools.proto import operator_name
from trt_workbench.onnxtools.sanitize_graph import (
    Array,
    Dims,
    constants,
    remove_nodes,
    static_dims,
    subgraphs,
    use_counts,
)
from trt_workbench.onnxtools.sanitize_integers import INT32

# Stands for the end of a dimension; none is as long.
_END = int(INT32.max)


@dataclass(frozen=True)
class _Piece:
    """What a Split or Slice cuts out of a tensor along one axis.

    Attributes:
        source: the tensor.
        axis: negative only where the rank is not known.
        split: first output of the Split, whose cuts can be at unknown places; empty for a Slice.
        start: where the piece begins: an index of the dimension, or the number of the Split's output.
        end: where the next one begins; `_END` for the last.
    """

    source: str
    axis: int
    split: str
    start: int
    end: int

    def follows(self, other: _Piece) -> bool:
        """Whether this piece begins where the other one of the same cut ends."""
        cut = (self.source, self.axis, self.split)
        return cut == (other.source, other.axis, other.split) and self.start == other.end


def collapse_concats(model: onnx.ModelProto) -> list[str]:
    """Let a Concat read a tensor itself in place of all its pieces, in order, along the same axis.

    TensorRT 8.6 copies every piece into the result by a kernel of its own. A Split or Slice without readers goes, and a
    Concat of nothing but the tensor becomes an Identity. Pieces and Concat have to be in one graph, be it a subgraph.
    """
    inferred = onnx.shape_inference.infer_shapes(model).graph
    changed = []
    for graph, known in zip(list(_graphs(model.graph)), _graphs(inferred), strict=True):
        changed += _collapse(graph, static_dims(known))
    return changed


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _collapse(graph: onnx.GraphProto, dims: Dims) -> list[str]:
    pieces = _pieces(graph, dims)
    changed: list[str] = []
    dropped: set[str] = set()
    for node in graph.node:
        if operator_name(node) != "Concat" or not node.attribute:  # before opset 4 the axis could be left out
            continue
        before = list(node.input)
        after = _joined(before, _axis(node, dims), pieces)
        if after == before:
            continue
        dropped |= set(before) - set(after)
        changed.append(f"Concat {node.name or node.output[0]}: {len(before)} inputs are now {len(after)}")
        node.input[:] = after
        if len(after) == 1:
            node.op_type = "Identity"
            del node.attribute[:]
    counts = use_counts(graph)
    cuts = [node for node in graph.node if dropped.intersection(node.output)]
    remove_nodes(graph, [node for node in cuts if not any(counts[name] for name in node.output)])
    return changed


def _joined(names: Sequence[str], axis: int, pieces: Mapping[str, _Piece]) -> list[str]:
    """Return the inputs of a Concat with the tensor itself for every run of pieces that is all of it."""
    found = [piece if (piece := pieces.get(name)) and piece.axis == axis else None for name in names]
    result, place = [], 0
    while place < len(names):
        first = found[place]
        length = _length_of_whole(found[place:])
        result.append(first.source if first and length else names[place])
        place += length or 1
    return result


def _length_of_whole(pieces: Sequence[_Piece | None]) -> int:
    """Return how many pieces from the first one on are all of their tensor; 0 if they are not."""
    last = pieces[0]
    if last is None or last.start != 0:
        return 0
    for length, piece in enumerate(pieces, 1):
        if piece is None or not (length == 1 or piece.follows(last)):
            return 0
        if piece.end == _END:
            return length
        last = piece
    return 0


def _pieces(graph: onnx.GraphProto, dims: Dims) -> dict[str, _Piece]:
    """Return what the Split and Slice nodes of a graph make, by name."""
    values = constants(graph)
    found: dict[str, _Piece] = {}
    for node in graph.node:
        if operator_name(node) == "Split":
            ends = [*range(1, len(node.output)), _END]
            for start, (name, end) in enumerate(zip(node.output, ends, strict=True)):
                found[name] = _Piece(node.input[0], _axis(node, dims), node.output[0], start, end)
        elif operator_name(node) == "Slice" and (piece := _slice(node, values, dims)):
            found[node.output[0]] = piece
    return found


def _axis(node: onnx.NodeProto, dims: Dims) -> int:
    given = next((int(attribute.i) for attribute in node.attribute if attribute.name == "axis"), 0)
    return _from_front(given, dims.get(node.input[0]))


def _from_front(axis: int, shape: Sequence[int | None] | None) -> int:
    return axis + len(shape) if axis < 0 and shape is not None else axis


def _slice(node: onnx.NodeProto, values: Mapping[str, Array], dims: Dims) -> _Piece | None:
    """Return the piece that a Slice makes; None unless it cuts one axis, in steps of 1, at places known to follow."""
    names = [*node.input[1:], "", "", "", ""]
    start = _number(names[0], values)
    end = _number(names[1], values)
    axis = _number(names[2], values) if names[2] else 0
    step = _number(names[3], values) if names[3] else 1
    if start is None or end is None or axis is None or step != 1:
        return None
    shape = dims.get(node.input[0])
    axis = _from_front(axis, shape)
    size = shape[axis] if shape is not None else None
    start, end = _place(start, size), _place(end, size)
    if start is None or end is None or start > end:
        return None
    return _Piece(node.input[0], axis, "", start, end)


def _number(name: str, values: Mapping[str, Array]) -> int | None:
    value = values.get(name)
    return int(value.item()) if value is not None and value.size == 1 else None


def _place(bound: int, size: int | None) -> int | None:
    """Return a bound of a Slice counted from the front; None if that needs the size of the dimension."""
    if not size:
        return min(bound, _END) if bound >= 0 else None
    place = max(bound + size, 0) if bound < 0 else bound
    return place if place < size else _END
