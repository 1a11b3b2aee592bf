"""A model's large weights apart from its graph: where they stand in the file, and how they come back from there."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import onnx

from trt_workbench.core.input_files import open_regular
from trt_workbench.model.proto import is_external

# Tensors up to this size stay in the graph: shapes, indices and scales, whose values tell what the graph does.
_MOST_BYTES = 4096
# Where a weight stands that is in the model's own file; no file may have this name.
_OWN_FILE = "."
_GRAPH = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_RAW_DATA = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number
# Protobuf's wire types: what a field takes, by the last three bits of its tag.
_VARINT, _COUNTED, _GROUP, _FIXED = 0, 2, 3, {1: 8, 5: 4}


def take_out(model: onnx.ModelProto, data: bytes) -> onnx.ModelProto:
    """Return a copy without the large initialisers' values, which are marked as external data at their places.

    Args:
        model: parsed from `data`; its values are gone afterwards.
        data: the file.
    """
    places = _initializers(data)
    for tensor in model.graph.initializer:
        start, size = next(places)
        if len(tensor.raw_data) > _MOST_BYTES and not is_external(tensor):
            raw = [place for number, *place in _fields(data, start, start + size) if number == _RAW_DATA]
            offset, length = raw[-1]
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            del tensor.external_data[:]
            for key, value in (("location", _OWN_FILE), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
    # protobuf frees what a message held with the message alone
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def put_back(model: onnx.ModelProto, path: Path, data: bytes | None = None) -> None:
    """Put the values into a copy of what `take_out` returned, from the file, or from its content where that is at hand.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) if data is None else io.BytesIO(data) as file:
        for tensor in model.graph.initializer:
            entries = {entry.key: entry.value for entry in tensor.external_data} if is_external(tensor) else {}
            if entries.get("location") == _OWN_FILE:
                file.seek(int(entries["offset"]))
                tensor.raw_data = file.read(int(entries["length"]))
                tensor.ClearField("data_location")
                del tensor.external_data[:]


def _initializers(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each initialiser of a serialised model's main graph."""
    for number, start, length in _fields(data, 0, len(data)):
        for inner, offset, size in _fields(data, start, start + length) if number == _GRAPH else ():
            if inner == _INITIALIZER:
                yield offset, size


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, offset and length of those fields of a serialised message that tell their length."""
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
