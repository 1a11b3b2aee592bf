"""int8 with a scale for each channel, where ONNX Runtime's CPU provider takes less than ONNX allows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import onnx
from onnx import TensorProto

from trt_workbench.model.editing import Names, NodeWriter
from trt_workbench.model.graph_types import output_type
from trt_workbench.model.narrow_formats import is_widening
from trt_workbench.model.proto import STANDARD, integer
from trt_workbench.model.walking import all_graphs, nodes_within

# They move codes before a product; the products and their axes for which there are kernels of QLinear operators:
# the last axis of a matrix, the first of a convolution's weights.
_MOVES = frozenset({"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Gather", "Slice", "Cast"})
_AXES = {"MatMul": (1, -1), "Conv": (0, -4), "ConvTranspose": (0, 1, -4, -3), "Gemm": (0, 1, -1, -2)}
_MATRIX = 2


def with_zero_points(model: onnx.ModelProto) -> int:
    """Write out the zero points of int8 weights with a scale for each channel, which ONNX lets be left out.

    The rewrite behind `session.x64quantprecision` (ONNX Runtime 1.31) gives such weights one zero point for all
    channels, which its own DequantizeLinear refuses.

    Args:
        model: changed; with or without its weights.

    Returns:
        How many there were.
    """
    writer, count, known = NodeWriter(Names.of(model)), 0, _Tensors(model)
    for graph in all_graphs(model):
        for node in graph.node:
            lacking = len(node.input) < 3 or not node.input[2]
            if lacking and known.has_channels(node) and known.kinds.get(node.input[0]) == TensorProto.INT8:
                zeros = writer.constant(np.zeros(known.shapes[node.input[1]], np.int8), f"{node.input[1]}_zero_point")
                node.input[:] = [*node.input[:2], zeros]
                count += 1
        graph.initializer.extend(writer.initializers)
        writer.initializers.clear()
    return count


def lacks_kernel(model: onnx.ModelProto) -> bool:
    """Whether ONNX Runtime would fuse a scale for each channel into an operator that takes none along that axis."""
    known = _Tensors(model)
    for graph in all_graphs(model):
        readers = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                readers[name].append(node)
        for node in graph.node:
            if not known.has_channels(node):
                continue
            axis, rank = integer(node, "axis", 1), len(known.shapes.get(node.input[0], ()))
            for reader in readers[node.output[0]]:
                axes = _AXES.get(reader.op_type, ())
                matrix = reader.op_type != "MatMul" or rank == _MATRIX
                if reader.op_type not in _MOVES and not (axis in axes and matrix):
                    return True
    return False


class _Tensors:
    """Constants of a model, in all its graphs, and what QuantizeLinear makes of them: element types and shapes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.kinds: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for graph in all_graphs(model):
            for tensor in graph.initializer:
                self._add(tensor.name, tensor.data_type, tensor.dims)
        for node in nodes_within(model.graph.node):
            if node.op_type == "Constant":
                for entry in (one for one in node.attribute if one.name == "value"):
                    self._add(node.output[0], entry.t.data_type, entry.t.dims)
            elif node.op_type == "QuantizeLinear" and node.input[0] in self.shapes:
                self._add(node.output[0], output_type(node, self.kinds), self.shapes[node.input[0]])

    def _add(self, name: str, kind: int, dims: Iterable[int]) -> None:
        self.kinds[name], self.shapes[name] = kind, tuple(dims)

    def has_channels(self, node: onnx.NodeProto) -> bool:
        """Whether a node widens constants of 8 bits by a scale for each channel."""
        own = node.domain in STANDARD and is_widening(node) and not integer(node, "block_size")
        codes = own and self.kinds.get(node.input[0]) in (TensorProto.INT8, TensorProto.UINT8)
        return bool(codes) and math.prod(self.shapes.get(node.input[1], ())) > 1
