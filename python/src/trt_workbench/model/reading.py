"""Reading an ONNX file that may come from anywhere: invalid content is refused before a library sees it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import other_case
from trt_workbench.core.hashing import read_hashed
from trt_workbench.model.constants import Array, constant_value, evaluated
from trt_workbench.model.proto import STANDARD
from trt_workbench.model.sniff import describe_file
from trt_workbench.model.walking import all_graphs, nodes_within

# numpy's own, from 2.0 on; ONNX Runtime has none.
_MOST_DIMS = 64
_TYPES = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
# Bits of an element where they are not those of the numpy type.
_PACKED = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}
_BITS: dict[int, int] = {number: _PACKED[name] for name, number in onnx.TensorProto.DataType.items() if name in _PACKED}
# Fields other than raw_data that may hold the values, by element type; a complex number takes two entries.
_WIDE: dict[int, int] = {onnx.TensorProto.COMPLEX64: 2, onnx.TensorProto.COMPLEX128: 2}


def check_dims(name: str, dims: Sequence[int]) -> None:
    """Raise ValueError for a rank that numpy does not have, a negative dimension, or more elements than can exist."""
    if len(dims) > _MOST_DIMS:
        raise ValueError(f"tensor {name} has {len(dims)} dimensions, but numpy allows at most {_MOST_DIMS}")
    if min(dims, default=0) < 0:
        raise ValueError(f"tensor {name} has the negative dimension {min(dims)}")
    # 16 bytes is the largest element: beyond this no address is left
    if math.prod(max(dim, 1) for dim in dims) >= 2**59:
        raise ValueError(f"tensor {name} of shape {list(dims)} has more elements than fit into any memory")


def check_value(value: onnx.ValueInfoProto) -> None:
    """Raise ValueError if the type of an input, an output or an inner tensor cannot exist."""
    kind = value.type
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        inner = kind.sequence_type if kind.WhichOneof("value") == "sequence_type" else kind.optional_type
        kind = inner.elem_type
    if kind.WhichOneof("value") not in ("tensor_type", "sparse_tensor_type"):
        return
    tensor = kind.tensor_type if kind.HasField("tensor_type") else kind.sparse_tensor_type
    if tensor.elem_type and tensor.elem_type not in _TYPES:
        raise ValueError(f"tensor {value.name} has the element type {tensor.elem_type}, which ONNX does not have")
    # some exporters write -1 for a dynamic dimension
    check_dims(value.name, [max(dim.dim_value, 0) for dim in tensor.shape.dim])


def check_tensor(tensor: onnx.TensorProto) -> None:
    """Raise ValueError if a tensor has no known type, an impossible shape, or more or fewer values than its shape."""
    if tensor.data_type not in _TYPES:
        raise ValueError(f"tensor {tensor.name} has the element type {tensor.data_type}, which ONNX does not have")
    check_dims(tensor.name, tensor.dims)
    if tensor.HasField("segment"):
        raise ValueError(f"tensor {tensor.name} is a segment of another, which no runtime supports")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        if tensor.data_type == onnx.TensorProto.STRING:
            raise ValueError(f"tensor {tensor.name} holds text in external data, which ONNX does not have")
        return
    try:
        for text in tensor.string_data:
            text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"tensor {tensor.name} holds text that is not UTF-8, which ONNX does not have") from error
    found, wanted = _held(tensor)
    if found != wanted:
        raise ValueError(
            f"tensor {tensor.name} of shape {list(tensor.dims)} holds {found} values or bytes instead of {wanted}"
        )


def declared_bytes(tensor: onnx.TensorProto) -> int:
    """Return the bytes that the values of a tensor take as raw data."""
    packed = _BITS.get(tensor.data_type)
    bits: int = packed or onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * 8
    return -(-int(math.prod(tensor.dims)) * bits // 8)


def _held(tensor: onnx.TensorProto) -> tuple[int, int]:
    """Return how many entries or bytes a tensor holds, and how many its shape asks for."""
    count = math.prod(tensor.dims)
    if tensor.HasField("raw_data"):
        if tensor.data_type == onnx.TensorProto.STRING:
            return -1, count
        return len(tensor.raw_data), declared_bytes(tensor)
    field = getattr(tensor, onnx.helper.tensor_dtype_to_field(tensor.data_type))
    bits = _BITS.get(tensor.data_type)
    return len(field), -(-count * bits // 8) if bits else count * _WIDE.get(tensor.data_type, 1)


_DIVISIONS = ("Div", "Mod")


def trapping_division(model: onnx.ModelProto, graphs: Iterable[onnx.GraphProto]) -> str | None:
    """Return what is wrong with the first division of constants that crashes every runtime; None if there is none.

    Values that depend on the model's inputs are not followed.
    """
    known: dict[str, onnx.TensorProto | onnx.NodeProto] = {}
    risky = []
    for graph in graphs:
        known |= {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            given = [name for name in node.input if name]
            if not (given or node.op_type == "Constant") or any(name not in known for name in given):
                continue
            known |= {name: node for name in node.output if name}
            if node.op_type in _DIVISIONS and node.domain in STANDARD and len(given) == 2:
                risky.append(node)
    values: dict[str, Array | None] = {}
    for node in risky:
        dividend, divisor = (_value(name, model, known, values) for name in node.input[:2])
        if dividend is not None and divisor is not None and _traps(dividend, divisor):
            return f"its {node.op_type} {node.name!r} divides the smallest {dividend.dtype} by -1, which overflows"
    return None


def _traps(dividend: Array, divisor: Array) -> bool:
    if dividend.dtype.kind != "i" or divisor.dtype != dividend.dtype:
        return False
    try:
        smallest, minus_one = np.broadcast_arrays(dividend == np.iinfo(dividend.dtype.name).min, divisor == -1)
    except ValueError:  # shapes that do not fit are refused by every runtime
        return False
    return bool((smallest & minus_one).any())


def _value(
    name: str,
    model: onnx.ModelProto,
    known: dict[str, onnx.TensorProto | onnx.NodeProto],
    values: dict[str, Array | None],
) -> Array | None:
    """Return the value of a constant tensor, computed by ONNX's reference where nodes make it; None if unknown."""
    if name in values:
        return values[name]
    values[name] = None  # a graph that reads its own output has no value
    source = known[name]
    if isinstance(source, onnx.TensorProto):
        held = source.data_location != onnx.TensorProto.EXTERNAL
        values[name] = onnx.numpy_helper.to_array(source) if held else None
    elif source.op_type == "Constant":
        values[name] = constant_value(source)
    else:
        given = {item: _value(item, model, known, values) for item in source.input if item}
        if all(value is not None for value in given.values()):
            values |= evaluated(model, source, {key: value for key, value in given.items() if value is not None}) or {}
    return values[name]


def read_file(path: Path) -> tuple[bytes, str]:
    """Return the content of a model file, and its SHA-256.

    Raises:
        UsageProblem: the file is absent, no regular file, or cannot be read.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UsageProblem(f"The model's path is not UTF-8, which the runtimes require; rename it: {path}") from error
    try:
        return read_hashed(path)
    except FileNotFoundError as error:
        raise UsageProblem(f"The model file does not exist{other_case(path)}: {path}") from error
    except OSError as error:
        raise UsageProblem(f"The model file cannot be read ({error.strerror or error}): {path}") from error


def parse_model(path: Path, data: bytes) -> onnx.ModelProto:
    """Return the model in a file's content, without its external data.

    Raises:
        UsageProblem: it is no ONNX, or a part of it contradicts the format so that libraries would fail on it or crash.
    """
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise UsageProblem(f"The file is not a complete ONNX model: it {describe_file(path)}. File: {path}") from error
    # Protobuf takes an empty file, and some others, for a message without any field.
    if not model.graph.node and not model.graph.output:
        raise UsageProblem(f"The file has no ONNX graph: it {describe_file(path)}. File: {path}")
    require_sound(path, model)
    return model


def require_sound(path: Path, model: onnx.ModelProto) -> None:
    """Raise UsageProblem if a part of the model contradicts the format; weights outside the file are not looked at."""
    try:
        check_model(model)
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"The file is not a valid ONNX model ({error}); export it again: {path}") from error


def check_model(model: onnx.ModelProto) -> None:
    """Raise ValueError if a part of the model contradicts the format; weights outside the file are not looked at."""
    graphs = list(all_graphs(model))
    _check_names(model, graphs)
    _check_functions(model)
    _check_references(model)
    imported = _standard_version(model, graphs)
    for holder in (*graphs, *model.functions):
        own = (one.version for one in getattr(holder, "opset_import", ()) if one.domain in STANDARD)
        version = min(next(own, imported), onnx.defs.onnx_opset_version())
        for node in holder.node:
            if node.domain in STANDARD:
                _check_inputs(node, version)
    for graph in graphs:
        for value in (*graph.input, *graph.output, *graph.value_info):
            check_value(value)
    for tensor in all_tensors(model, graphs):
        check_tensor(tensor)
    for graph in graphs:
        for sparse in graph.sparse_initializer:
            check_dims(sparse.values.name, sparse.dims)
    if found := trapping_division(model, graphs):
        raise ValueError(found)


def _check_references(model: onnx.ModelProto) -> None:
    """Raise ValueError where an attribute refers to one of a function, outside of every function."""
    for node in nodes_within(model.graph.node):
        if found := next((one.name for one in node.attribute if one.ref_attr_name), None):
            raise ValueError(
                f"the attribute {found} of {node.op_type} refers to an attribute of a function, but is outside of "
                "every function"
            )


def _standard_version(model: onnx.ModelProto, graphs: list[onnx.GraphProto]) -> int:
    """Return the version of the standard operator set that a model imports, 1 if it uses none of its operators."""
    versions = {entry.version for entry in model.opset_import if entry.domain in STANDARD}
    if len(versions) > 1 or not all(1 <= version < 2**31 for version in versions):
        raise ValueError(f"it imports several versions of the standard operator set: {sorted(versions)}")
    if not versions and (
        first := next((one for graph in graphs for one in graph.node if one.domain in STANDARD), None)
    ):
        raise ValueError(f"it uses {first.op_type} but imports no version of the standard operator set")
    return max(versions, default=1)


def all_tensors(model: onnx.ModelProto, graphs: Iterable[onnx.GraphProto]) -> Iterator[onnx.TensorProto]:
    """Yield every tensor that the model holds: initialisers and attributes, sparse ones in their parts."""
    for graph in graphs:
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        yield from _attribute_tensors(graph.node)
    for function in model.functions:
        yield from _attribute_tensors(function.node)


def _attribute_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors)
            single = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
            for sparse in (*single, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)


def _check_names(model: onnx.ModelProto, graphs: list[onnx.GraphProto]) -> None:
    """Protobuf returns text that is not UTF-8 as bytes; NUL ends a name in C, so that two names may become one."""
    places = (entry for tensor in all_tensors(model, graphs) for entry in tensor.external_data)
    for name in (*_names(model, graphs), *(text for entry in places for text in (entry.key, entry.value))):
        if isinstance(name, bytes) or "\0" in name:
            raise ValueError(f"the name {name!r} is not UTF-8")


def _names(model: onnx.ModelProto, graphs: Iterable[onnx.GraphProto]) -> Iterator[str | bytes]:
    for entry in model.metadata_props:
        yield from (entry.key, entry.value.replace("\0", "") if isinstance(entry.value, str) else entry.value)
    yield from (entry.domain for entry in model.opset_import)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
        yield from _node_names(function.node)
    for graph in graphs:
        yield graph.name
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield value.name
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
        yield from (tensor.name for tensor in graph.initializer)
        yield from _node_names(graph.node)


def _node_names(nodes: Iterable[onnx.NodeProto]) -> Iterator[str | bytes]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _check_functions(model: onnx.ModelProto) -> None:
    """Raise ValueError if two functions have one name, or one calls itself, directly or through others."""
    known = Counter((one.domain, one.name, getattr(one, "overload", "")) for one in model.functions)
    if twice := next((key for key, count in known.items() if count > 1), None):
        raise ValueError(f"it has two functions named {'::'.join(filter(None, twice[:2]))}")
    calls: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for function in model.functions:
        key = (function.domain, function.name)
        calls.setdefault(key, set()).update((node.domain, node.op_type) for node in nodes_within(function.node))
    settled: set[tuple[str, str]] = set()
    while ready := {key for key in calls if key not in settled and calls[key] & calls.keys() <= settled}:
        settled |= ready
    if recursive := sorted(calls.keys() - settled):
        raise ValueError(f"its function {'::'.join(filter(None, recursive[0]))} calls itself")


def _check_inputs(node: onnx.NodeProto, version: int) -> None:
    """Raise ValueError if a node lacks an input that its operator needs: what reads the graph takes it for granted."""
    least, needed = _needed(node.op_type, version)
    if len(node.input) < least or not all(node.input[place] for place in needed):
        raise ValueError(f"node {node.name or node.output[:1]} lacks an input that {node.op_type} needs")


@lru_cache(maxsize=1024)
def _needed(operator: str, version: int) -> tuple[int, tuple[int, ...]]:
    """Return how many inputs a standard operator has at least, and the places of those that may not be left out."""
    if not onnx.defs.has(operator, version, ""):
        return 0, ()
    schema, single = onnx.defs.get_schema(operator, version, ""), onnx.defs.OpSchema.FormalParameterOption.Single
    return schema.min_input, tuple(place for place, one in enumerate(schema.inputs) if one.option == single)
