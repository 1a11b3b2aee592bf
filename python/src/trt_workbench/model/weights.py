"""A model's weights apart from its graph: their size, their place in the file, how they are restored and written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import onnx

from trt_workbench.core.files import scratch_folder
from trt_workbench.core.input_files import open_regular
from trt_workbench.model.proto import is_external
from trt_workbench.model.reading import all_tensors, declared_bytes
from trt_workbench.model.walking import all_graphs

# Of tensors whose values decide what the graph does: shapes, indices and scales.
_MOST_BYTES = 4096
# Protobuf's limit is 2 GiB, and shape inference adds to the file; more weights than this go beside it.
MOST_WEIGHTS = 2_000_000_000
_ALIGNED = 64  # bytes at which a weight begins, as runtimes map the file
_WITHOUT_SIZE = (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED)
OWN_FILE = "."
"""Where a weight stands that is in the model's own file; no file may have this name."""
_GRAPH = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_RAW_DATA = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number
# Protobuf's wire types: what a field takes, by the last three bits of its tag.
_VARINT, _COUNTED, _GROUP, _FIXED = 0, 2, 3, {1: 8, 5: 4}


def take_out(model: onnx.ModelProto, data: bytes) -> onnx.ModelProto:
    """Return a copy without the large initialisers' values, which are marked as external data at their places.

    Args:
        model: parsed from `data`.
        data: the file.
    """
    bare = light(model)
    for tensor, whole, (start, size) in zip(
        bare.graph.initializer, model.graph.initializer, _initializers(data), strict=True
    ):
        if is_in_own_file(tensor) and whole.HasField("raw_data"):
            raw = [place for number, *place in _fields(data, start, start + size) if number == _RAW_DATA]
            for key, value in zip(("offset", "length"), raw[-1], strict=True):
                tensor.external_data.add(key=key, value=str(value))
        elif is_in_own_file(tensor):
            tensor.CopyFrom(whole)
    return bare


def restore(weights: Iterable[tuple[onnx.TensorProto, bytes]]) -> None:
    """Put bytes into their tensors."""
    for tensor, raw in weights:
        tensor.raw_data = raw
        tensor.ClearField("data_location")
        del tensor.external_data[:]


def weights_of(
    model: onnx.ModelProto,
    path: Path,
    part: Callable[[str], bytes | None] = lambda _: None,
    wanted: Callable[[onnx.TensorProto], bool] = lambda _: True,
) -> Iterator[tuple[onnx.TensorProto, bytes]]:
    """Yield each tensor without values, which `take_out` took or which are external data, and its bytes.

    Args:
        model: with tensors that lack values.
        path: the model's file.
        part: returns what the file of a location holds, where that is in memory.
        wanted: selects the tensors.

    Raises:
        OSError: a file cannot be read.
        ValueError: it has become too short.
    """
    with ExitStack() as stack:
        files: dict[str, io.BufferedIOBase] = {}
        for tensor in all_tensors(model, all_graphs(model)):
            if not is_external(tensor) or not wanted(tensor):
                continue
            entries = {entry.key: entry.value for entry in tensor.external_data}
            location, length = entries["location"], declared_bytes(tensor)
            if location not in files:
                data, file = part(location), path if location == OWN_FILE else path.parent / location
                files[location] = stack.enter_context(open_regular(file) if data is None else io.BytesIO(data))
            files[location].seek(int(entries.get("offset", 0)))
            raw = files[location].read(length)
            if len(raw) != length:
                raise ValueError(f"it ends within tensor {tensor.name}")
            yield tensor, raw


def write_beside(weights: Iterable[tuple[onnx.TensorProto, bytes]], data: Path) -> None:
    """Write the bytes of tensors into a file that is beside their model's, one after the other, and say where they are.

    Raises:
        OSError: the file cannot be written.
    """
    with data.open("wb") as file:
        for tensor, raw in weights:
            file.write(bytes(-file.tell() % _ALIGNED))
            place = {"location": data.name, "offset": file.tell(), "length": len(raw)}
            del tensor.external_data[:]
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            file.write(raw)


def is_small(tensor: onnx.TensorProto) -> bool:
    """Return whether the values of a tensor stay in the graph: they may be a shape, an index or a scale."""
    return declared_bytes(tensor) <= _MOST_BYTES


def is_in_own_file(tensor: onnx.TensorProto) -> bool:
    """Return whether `take_out` took the values of a tensor."""
    return any(entry.key == "location" and entry.value == OWN_FILE for entry in tensor.external_data)


def _initializers(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each initialiser of a serialised model's main graph."""
    for number, start, length in _fields(data, 0, len(data)):
        for inner, offset, size in _fields(data, start, start + length) if number == _GRAPH else ():
            if inner == _INITIALIZER:
                yield offset, size


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, offset and length of those fields of a serialised message that state their length."""
    depth = 0  # within groups, which are unknown fields here
    while start < end:
        tag, start = _varint(data, start)
        kind = tag & 7
        if kind == _COUNTED:
            length, start = _varint(data, start)
            if not depth:
                yield tag >> 3, start, length
            start += length
        elif kind == _VARINT:
            _, start = _varint(data, start)
        elif kind in _FIXED:
            start += _FIXED[kind]
        else:
            depth += 1 if kind == _GROUP else -1


def _varint(data: bytes, start: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[start]
        value |= (byte & 127) << shift
        start, shift = start + 1, shift + 7
        if byte < 128:
            return value, start


def light(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy for questions about the graph: its large weights have a type and a shape, and no values.

    They are marked as external data, wherever the values of the model itself are. No value is read.
    """
    copy = onnx.ModelProto(**_around(model))
    copy.graph.MergeFrom(_bare(model.graph))
    for tensor in model.graph.initializer:
        added = copy.graph.initializer.add()
        if is_external(tensor) or tensor.data_type in _WITHOUT_SIZE or is_small(tensor):
            added.CopyFrom(tensor)
        else:
            added.name, added.data_type, added.data_location = tensor.name, tensor.data_type, onnx.TensorProto.EXTERNAL
            added.dims.extend(tensor.dims)
            added.external_data.add(key="location", value=OWN_FILE)
    return copy


def _around(model: onnx.ModelProto) -> dict[str, Any]:
    return {field.name: value for field, value in model.ListFields() if field.name != "graph"}


def _bare(graph: onnx.GraphProto) -> onnx.GraphProto:
    """Return a copy without initialisers."""
    return onnx.GraphProto(**{field.name: one for field, one in graph.ListFields() if field.name != "initializer"})


def save_model(model: onnx.ModelProto, path: Path) -> None:
    """Write a model whole or not at all; weights that do not fit into one file go to `NAME.data` beside it.

    What is in a file already stays there.

    Raises:
        OSError: the folder is not writable or the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(f".{path.name}.", path.parent) as staging:
        if not any(map(is_external, model.graph.initializer)) and weight_bytes(model) > MOST_WEIGHTS:
            data = path.with_name(f"{path.name}.data")
            _save_beside(model, staging / path.name, staging / data.name)
            (staging / data.name).replace(data)
        else:
            write_whole(model, staging / path.name)
        (staging / path.name).replace(path)


def _save_beside(model: onnx.ModelProto, path: Path, data: Path) -> None:
    """Write the graph, and its large weights into a file beside it; the model keeps them, unlike with `onnx.save`."""
    bare = light(model)
    pairs = zip(bare.graph.initializer, model.graph.initializer, strict=True)
    own = ((tensor, whole) for tensor, whole in pairs if is_in_own_file(tensor))
    raw = (
        (tensor, whole.raw_data or onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(whole)).raw_data)
        for tensor, whole in own
    )
    write_beside(raw, data)
    path.write_bytes(bare.SerializeToString())


def write_whole(model: onnx.ModelProto, path: Path) -> None:
    """Write a model and its weights into one file, a weight at a time; protobuf would make two copies of it first.

    Raises:
        OSError: the file cannot be written.
    """
    graph, parts = _bare(model.graph).SerializeToString(), list[tuple[bytes, onnx.TensorProto | None, int]]()
    for tensor in model.graph.initializer:
        if tensor.HasField("raw_data") and not (tensor.data_type in _WITHOUT_SIZE or is_small(tensor)):
            head = onnx.TensorProto(**{one.name: value for one, value in tensor.ListFields() if one.name != "raw_data"})
            length = declared_bytes(tensor)
            own = head.SerializeToString() + _counted(_RAW_DATA, length)
            parts.append((_counted(_INITIALIZER, len(own) + length) + own, tensor, length))
        else:
            own = tensor.SerializeToString()
            parts.append((_counted(_INITIALIZER, len(own)) + own, None, 0))
    with path.open("wb") as file:
        file.write(onnx.ModelProto(**_around(model)).SerializeToString())
        file.write(_counted(_GRAPH, len(graph) + sum(len(own) + length for own, _, length in parts)) + graph)
        for own, weight, _ in parts:
            file.write(own + (weight.raw_data if weight else b""))


def _counted(number: int, length: int) -> bytes:
    """Return what stands before the content of a field in a serialised message."""
    found, left = bytearray([number << 3 | _COUNTED]), length
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes(found) + bytes([left])


def inferred(model: onnx.ModelProto, *, strict_mode: bool = False, data_prop: bool = False) -> onnx.ModelProto:
    """Return the `light` model with its shapes inferred: protobuf would copy weights four times on the way."""
    return onnx.shape_inference.infer_shapes(light(model), strict_mode=strict_mode, data_prop=data_prop)


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the initialisers, which is nearly all of a large model; protobuf cannot say it above 2 GiB."""
    return sum(map(tensor_bytes, model.graph.initializer))


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """Return the size of a tensor's values as raw data, which may be in a field of their type, or in a file."""
    if tensor.data_type in _WITHOUT_SIZE:
        return len(tensor.raw_data) + sum(map(len, tensor.string_data))
    return declared_bytes(tensor)
