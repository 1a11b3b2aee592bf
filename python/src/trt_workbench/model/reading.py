"""Reading an ONNX file that may come from anywhere: what cannot be sound is refused before a library sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import read_hashed
from trt_workbench.model.division import trapping_division
from trt_workbench.model.proto import STANDARD
from trt_workbench.model.sniff import describe_file
from trt_workbench.model.tensor_checks import check_dims, check_tensor, check_value
from trt_workbench.model.walking import all_graphs, nodes_within


def read_file(path: Path) -> tuple[bytes, str]:
    """Return the content of a model file, and its SHA-256.

    Raises:
        UsageProblem: the file is absent, no regular file, or cannot be read.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UsageProblem(f"The model's path is not UTF-8 text, which the runtimes need; rename it: {path}") from error
    try:
        return read_hashed(path)
    except FileNotFoundError as error:
        raise UsageProblem(f"The model file does not exist: {path}") from error
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
        raise UsageProblem(f"The file is not a whole ONNX model: it {describe_file(path)}. File: {path}") from error
    # Protobuf takes an empty file, and some others, for a message without any field.
    if not model.graph.node and not model.graph.output:
        raise UsageProblem(f"The file holds no ONNX graph: it {describe_file(path)}. File: {path}")
    require_sound(path, model)
    return model


def require_sound(path: Path, model: onnx.ModelProto) -> None:
    """Raise UsageProblem if a part of the model contradicts the format; weights outside the file are not looked at."""
    try:
        check_model(model)
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"The file is no sound ONNX model ({error}); export it again: {path}") from error


def check_model(model: onnx.ModelProto) -> None:
    """Raise ValueError if a part of the model contradicts the format; weights outside the file are not looked at."""
    graphs = list(all_graphs(model))
    _check_names(model, graphs)
    _check_functions(model)
    _check_references(model)
    _check_operator_sets(model, graphs)
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
            raise ValueError(f"the name {name!r} is not UTF-8 text")


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
        raise ValueError(f"it has two functions called {'::'.join(filter(None, twice[:2]))}")
    calls: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for function in model.functions:
        key = (function.domain, function.name)
        calls.setdefault(key, set()).update((node.domain, node.op_type) for node in nodes_within(function.node))
    settled: set[tuple[str, str]] = set()
    while ready := {key for key in calls if key not in settled and calls[key] & calls.keys() <= settled}:
        settled |= ready
    if recursive := sorted(calls.keys() - settled):
        raise ValueError(f"its function {'::'.join(filter(None, recursive[0]))} calls itself")


def _check_references(model: onnx.ModelProto) -> None:
    """Raise ValueError if an attribute outside of every function refers to one of a function."""
    for node in nodes_within(model.graph.node):
        if found := next((one.name for one in node.attribute if one.ref_attr_name), None):
            raise ValueError(f"the attribute {found} of {node.op_type} refers to a function's, and is in none")


def _check_operator_sets(model: onnx.ModelProto, graphs: Iterable[onnx.GraphProto]) -> None:
    versions = {entry.version for entry in model.opset_import if entry.domain in STANDARD}
    if len(versions) > 1 or not all(1 <= version < 2**31 for version in versions):
        raise ValueError(f"it imports the versions {sorted(versions)} of the standard operator set")
    if not versions and (node := next((one for graph in graphs for one in graph.node if one.domain in STANDARD), None)):
        raise ValueError(f"it uses {node.op_type} and imports no version of the standard operator set")
