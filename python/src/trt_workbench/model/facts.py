"""What an ONNX file asks for, read without its weights: tensors, operators, metadata, and files outside it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import onnx
from onnx import TensorProto

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import Format, find, get
from trt_workbench.model.constants import constants
from trt_workbench.model.narrow_formats import narrow_formats
from trt_workbench.model.proto import STANDARD, Shape, operator_name, value_shape
from trt_workbench.model.reading import all_tensors, declared_bytes
from trt_workbench.model.walking import all_graphs, all_nodes, readers

_WHOLE = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32})
_WHOLE |= {TensorProto.UINT32, TensorProto.INT64, TensorProto.UINT64}
# The values stay what they are, whatever becomes of their shape or type.
_PASSING = frozenset(
    {
        "Cast",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)


def index_limits(graph: onnx.GraphProto) -> dict[str, int]:
    """Return by input of whole numbers the length of the shortest table that its values index, from 0.

    Gather's indices and OneHot's are followed from the inputs through what only moves them; a table is a constant, or
    has a known length. What is computed first (an offset is added, say) is not followed.
    """
    inputs = [value for value in graph.input if value.type.tensor_type.elem_type in _WHOLE]
    if not inputs:
        return {}
    lengths, values = _lengths(graph), constants(graph)
    following = readers(node for node in graph.node if node.domain in STANDARD)
    found = {}
    for value in inputs:
        limits, waiting, seen = list[int](), [value.name], {value.name}
        while waiting:
            name = waiting.pop()
            for node in following[name]:
                if node.op_type == "Gather" and name in node.input[1:2]:
                    axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 0)
                    shape = lengths.get(node.input[0], ())
                    if -len(shape) <= axis < len(shape) and shape[axis] > 0:
                        limits.append(shape[axis])
                depths = [values[one] for one in node.input[1:2] if node.op_type == "OneHot" and one in values]
                limits += [max(1, int(depth.flat[0])) for depth in depths if name == node.input[0]]
                if node.op_type in _PASSING and node.input[0] == name:
                    waiting += set(node.output) - seen
                    seen.update(node.output)
        if limits:
            found[value.name] = min(limits)
    return found


def _lengths(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Return the shapes of constants and of what is declared; 0 for a dimension that is not known."""
    shapes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.value_info, *graph.input)
    }
    fixed = [node for node in graph.node if node.op_type == "Constant" and node.attribute]
    held = [(name, node.attribute[0].t) for node in fixed if node.attribute[0].name == "value" for name in node.output]
    held += [(tensor.name, tensor) for tensor in graph.initializer]
    return shapes | {name: tuple(tensor.dims) for name, tensor in held}


QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear"})
# ONNX Runtime's container for a compiled engine: code in the guise of a model.
_ENGINE_IN_DISGUISE = "EPContext"


@dataclass(frozen=True)
class ModelTensor:
    """An input or output: name, numpy dtype name, and shape, in which a dynamic dimension is its symbol or None.

    `below` is the length of the shortest table that an input's values index; None where none is known.
    """

    name: str
    dtype: str
    shape: Shape | None
    below: int | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension is known at run time only."""
        return self.shape is None or any(not isinstance(dim, int) for dim in self.shape)


@dataclass(frozen=True)
class ModelFacts:
    """What an ONNX file asks for.

    Attributes:
        inputs: the graph's inputs without those that have an initial value.
        outputs: the graph's outputs.
        operators: how often each operator occurs, `domain::Name` outside the standard domain; subgraphs included.
        opset: version of the standard operator set.
        metadata: the model's key-value metadata.
        external_locations: files that hold weights, in order of first use, relative to the model's folder.
        formats: below fp16, and bf16, as `narrow_formats` finds them.
    """

    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]
    operators: dict[str, int]
    opset: int
    metadata: dict[str, str]
    external_locations: tuple[str, ...]
    formats: tuple[str, ...] = ()

    @property
    def is_quantized(self) -> bool:
        """Whether the graph carries its own scales as QuantizeLinear and DequantizeLinear pairs, of any format."""
        return bool(QUANTIZERS & self.operators.keys())

    @property
    def rows(self) -> tuple[Format, ...]:
        """The formats as rows of the table. Raises UsageProblem for one that it lacks."""
        if unknown := [name for name in self.formats if find(name) is None]:
            raise UsageProblem(f"The model is in {unknown[0]}, a format that the workbench does not know.")
        return tuple(map(get, self.formats))


def facts_of(path: Path, model: onnx.ModelProto) -> ModelFacts:
    """Return the facts of a model, and check that its external data is there and within the folder of its file.

    Raises:
        UsageProblem: it is an engine in disguise, or its external data is missing, too short or outside the folder.
    """
    graphs = list(all_graphs(model))
    operators = Counter(map(operator_name, all_nodes(model)))
    if any(name.split("::")[-1] == _ENGINE_IN_DISGUISE for name in operators):
        raise UsageProblem(
            f"This file holds a compiled engine ({_ENGINE_IN_DISGUISE}), not a model; export the model itself: {path}"
        )
    locations = _check_external(path, all_tensors(model, graphs))
    initial = {tensor.name for tensor in model.graph.initializer}
    limits = index_limits(model.graph)
    opsets = [entry.version for entry in model.opset_import if entry.domain in STANDARD]
    return ModelFacts(
        inputs=tuple(
            replace(_tensor(value), below=limits.get(value.name))
            for value in model.graph.input
            if value.name not in initial
        ),
        outputs=tuple(_tensor(value) for value in model.graph.output),
        operators=dict(sorted(operators.items())),
        opset=max(opsets, default=0),
        metadata={entry.key: entry.value for entry in model.metadata_props},
        external_locations=tuple(locations),
        formats=narrow_formats(model),
    )


def _check_external(path: Path, tensors: Iterable[onnx.TensorProto]) -> list[str]:
    """Return the locations of external data after checking each tensor's place in its file."""
    sizes: dict[str, int] = {}
    for tensor in tensors:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if location not in sizes:
            sizes[location] = _external_size(path, location)
        wanted = declared_bytes(tensor)
        try:
            start, length = int(entries.get("offset", "0")), int(entries.get("length", str(wanted)))
        except ValueError as error:
            raise UsageProblem(f"The external data of tensor {tensor.name} has an invalid location: {path}") from error
        if length != wanted:
            raise UsageProblem(
                f"Tensor {tensor.name} needs {wanted} bytes of external data, but {length} are declared: {path}"
            )
        end = start + length
        if min(start, length) < 0 or end > sizes[location]:
            raise UsageProblem(
                f"The external data {location} has {sizes[location]} bytes, but tensor {tensor.name} ends at {end}: "
                f"it is truncated or belongs to another model: {path}"
            )
    return list(sizes)


def _external_size(path: Path, location: str) -> int:
    folder = Path(os.path.realpath(path.parent))
    file = folder / location
    pure = PurePosixPath(location)
    inside = location and not pure.is_absolute() and ".." not in pure.parts
    # not resolve(): on a ring of links it raises RuntimeError
    if not inside or not Path(os.path.realpath(file)).is_relative_to(folder):
        raise UsageProblem(
            f"The external data {location!r} is outside the model's folder; copy the file next to the model: {path}"
        )
    if not file.is_file():
        raise UsageProblem(f"The external data {location} is missing; put it next to the model: {path}")
    return file.stat().st_size


def _tensor(value: onnx.ValueInfoProto) -> ModelTensor:
    return ModelTensor(value.name, _dtype(value.type.tensor_type.elem_type), value_shape(value))


def _dtype(element: int) -> str:
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(element).name)
    except (KeyError, TypeError):
        return onnx.TensorProto.DataType.Name(element).lower() if element else "unknown"
