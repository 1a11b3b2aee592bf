"""What a graph says about a stream: which axes hold no frames, and the shapes of the outputs.

It is run only for the shapes of outputs that shape inference does not find.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from trt_workbench.backends.base import Session
from trt_workbench.backends.registry import load_reference
from trt_workbench.core.errors import WorkbenchError
from trt_workbench.model.index import GraphIndex
from trt_workbench.model.opened import Model, checked_on_error
from trt_workbench.model.proto import Shape, integer, is_external, value_shape
from trt_workbench.model.weights import inferred

# Nodes that are followed from the signal on: a convolution or linear layer comes early.
_MOST_NODES = 64
# Keep every axis.
_KEEPING = (
    *("Abs", "Cast", "Ceil", "Clip", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
    *("Identity", "LeakyRelu", "Log", "Mish", "Neg", "Pad", "Relu", "Reciprocal", "Round", "Selu", "Sigmoid", "Sign"),
    *("Softplus", "Sqrt", "Tanh", "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Where", "Concat"),
)
# Of an input of a run for the shapes of outputs, and its types.
_MOST_ENTRIES = 2**24
_RUN = ("float32", "float16", "float64", "int64", "int32", "bool")
_RECURRENT = ("LSTM", "GRU", "RNN")
# Of a tensor at a node: the axis of the signal that each dimension is; None for one that was put in.
_Axes = tuple[int | None, ...]


class StreamGraph:
    """A model's graph, and what it says about a stream."""

    def __init__(self, source: Model) -> None:
        """Take a model's graph."""
        self._source, self._model = source, onnx.ModelProto()
        self._session: Session | None = None
        self._fixed: Mapping[str, Mapping[int, int]] = {}
        self._model.CopyFrom(source.proto)
        del self._model.graph.value_info[:]

    def fix(self, sizes: Mapping[str, Mapping[int, int]]) -> None:
        """Give inputs sizes by axis, whatever the model calls them."""
        self._fixed = sizes

    def output_shapes(self, sizes: Mapping[str, int], lengths: Mapping[str, int] | None = None) -> dict[str, Shape]:
        """Return the shapes of the outputs where dimensions of inputs have sizes, by what a model calls them.

        Where shape inference does not find all of them the model runs, if it can: on zeros, and `lengths` by input.
        A dimension that is not found is None, or a name of its own.
        """
        found = self._inferred(sizes)
        known = all(isinstance(size, int) for shape in found.values() for size in shape)
        return found if found and known else self._ran(sizes, lengths or {}) or found

    def close(self) -> None:
        """Close the session of what was run."""
        if self._session:
            self._session.close()

    def _ran(self, sizes: Mapping[str, int], lengths: Mapping[str, int]) -> dict[str, Shape]:
        feed = {}
        for tensor in self._source.facts.inputs:
            fixed = self._fixed.get(tensor.name, {})
            named = [size if isinstance(size, int) else sizes.get(size or "", 0) for size in tensor.shape or ()]
            shape = [fixed.get(axis, size) for axis, size in enumerate(named)]
            if tensor.shape is None or 0 in shape or math.prod(shape) > _MOST_ENTRIES or tensor.dtype not in _RUN:
                return {}
            feed[tensor.name] = np.full(shape, lengths.get(tensor.name, 0), tensor.dtype)
        try:
            self._session = self._session or load_reference(self._source.path)
            return {name: array.shape for name, array in self._session.run(feed).items()}
        except WorkbenchError:  # sizes that it cannot have, operators that nobody knows, no runtime
            return {}

    def _inferred(self, sizes: Mapping[str, int]) -> dict[str, Shape]:
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        for value in model.graph.input:
            fixed = self._fixed.get(value.name, {})
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if axis in fixed or dim.dim_param in sizes:
                    dim.dim_value = fixed[axis] if axis in fixed else sizes[dim.dim_param]
        weights = {tensor.name for tensor in model.graph.initializer}
        for value in (one for one in model.graph.output if one.name not in weights):
            value.type.tensor_type.ClearField("shape")
        try:
            found = inferred(model, data_prop=True)
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
            # sizes that the graph cannot have, or operators that nobody knows
            return {}
        return {value.name: shape for value in found.graph.output if (shape := value_shape(value)) is not None}

    def recurrent(self) -> list[str]:
        """Return the recurrent operators of the main graph, whose states never forget."""
        return sorted({node.op_type for node in self._model.graph.node} & set(_RECURRENT))

    def without_frames(self, name: str, rank: int) -> set[int]:
        """Return the axes of an input of this rank that a layer sums over as channels or features.

        Those are the second dimension of a convolution's input and the last one of a linear or recurrent layer's.
        """
        with checked_on_error(self._source):
            return _Follower(GraphIndex(self._model)).follow(name, tuple(range(rank)))


class _Follower:
    """Follows a tensor through nodes that keep its axes, up to the first layers."""

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._values = {tensor.name: tensor for tensor in index.model.graph.initializer}
        for node in index.model.graph.node:
            if node.op_type == "Constant":
                tensors = [one.t for one in node.attribute if one.name == "value"]
                self._values |= dict(zip(node.output, tensors, strict=False))

    def follow(self, name: str, axes: _Axes) -> set[int]:
        found, todo, left = set[int | None](), [(name, axes)], _MOST_NODES
        while todo and left:
            tensor, here = todo.pop(0)
            for place in self._index.users.get(tensor, ()):
                left = max(left - 1, 0)
                node = self._index.nodes[place]
                found |= self._summed(node, tensor, here)
                after = self._after(node, here)
                if after is not None:
                    todo.append((node.output[0], after))
        return {axis for axis in found if axis is not None}

    def _summed(self, node: onnx.NodeProto, tensor: str, axes: _Axes) -> set[int | None]:
        """Return the axes that a layer sums over as features or channels."""
        if node.input[0] != tensor or not axes:
            return set()
        if node.op_type == "Conv":
            return set(axes[1:2])
        if node.op_type == "Gemm" and not integer(node, "transA"):
            return {axes[-1]}
        if node.op_type == "MatMul" and node.input[1] in self._index.constants:
            return {axes[-1]}
        if node.op_type in _RECURRENT and len(axes) == 3:
            return {axes[2], axes[0] if integer(node, "layout") else axes[1]}
        return set()

    def _after(self, node: onnx.NodeProto, axes: _Axes) -> _Axes | None:
        """Return the axes after a node that only moves them; None after any other."""
        if not node.output:
            return None
        if node.op_type in _KEEPING:
            return axes
        if node.op_type == "Transpose":
            order = next((list(one.ints) for one in node.attribute if one.name == "perm"), [])
            order = order or list(range(len(axes)))[::-1]
            return tuple(axes[axis] for axis in order) if sorted(order) == list(range(len(axes))) else None
        places = self._places(node) if node.op_type in ("Unsqueeze", "Squeeze") else None
        if places is None:
            return None
        if node.op_type == "Unsqueeze":
            kept, rank = iter(axes), len(axes) + len(places)
            put_in = {place % rank for place in places}
            return tuple(None if place in put_in else next(kept, None) for place in range(rank))
        gone = {place % len(axes) for place in places} if axes else set()
        return tuple(axis for place, axis in enumerate(axes) if place not in gone)

    def _places(self, node: onnx.NodeProto) -> list[int] | None:
        """Return the `axes` of a node: its attribute's, or those of a constant."""
        for one in node.attribute:
            if one.name == "axes":
                return list(one.ints)
        tensor = self._values.get(node.input[1]) if len(node.input) > 1 else None
        if tensor is None or is_external(tensor):
            return None
        return [int(value) for value in numpy_helper.to_array(tensor).reshape(-1)]
