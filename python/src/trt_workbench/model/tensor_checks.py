"""Whether tensors in an ONNX file can exist: known element types, sizes that fit, data as long as declared."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx

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
        raise ValueError(f"tensor {name} has {len(dims)} dimensions, numpy takes {_MOST_DIMS}")
    if min(dims, default=0) < 0:
        raise ValueError(f"tensor {name} has the negative dimension {min(dims)}")
    # 16 bytes is the largest element: beyond this no address is left
    if math.prod(max(dim, 1) for dim in dims) >= 2**59:
        raise ValueError(f"tensor {name} of shape {list(dims)} has more elements than any memory can hold")


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
        raise ValueError(f"tensor {tensor.name} is a segment of another, which no runtime reads")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        if tensor.data_type == onnx.TensorProto.STRING:
            raise ValueError(f"tensor {tensor.name} holds text in external data, which ONNX does not have")
        return
    try:
        for text in tensor.string_data:
            text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"tensor {tensor.name} holds text that is not UTF-8, which ONNX does not have") from error
    count = math.prod(tensor.dims)
    found, wanted = _held(tensor, count)
    if found != wanted:
        raise ValueError(
            f"tensor {tensor.name} of shape {list(tensor.dims)} holds {found} values or bytes instead of {wanted}"
        )


def declared_bytes(tensor: onnx.TensorProto) -> int:
    """Return the bytes that the values of a tensor take as raw data."""
    return _raw_bytes(tensor.data_type, math.prod(tensor.dims))


def _raw_bytes(data_type: int, count: int) -> int:
    bits = _BITS.get(data_type) or onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize * 8
    return -(-count * bits // 8)


def _held(tensor: onnx.TensorProto, count: int) -> tuple[int, int]:
    """Return how many entries or bytes a tensor holds, and how many its shape asks for."""
    if tensor.HasField("raw_data"):
        if tensor.data_type == onnx.TensorProto.STRING:
            return -1, count
        return len(tensor.raw_data), _raw_bytes(tensor.data_type, count)
    field = getattr(tensor, onnx.helper.tensor_dtype_to_field(tensor.data_type))
    bits = _BITS.get(tensor.data_type)
    return len(field), -(-count * bits // 8) if bits else count * _WIDE.get(tensor.data_type, 1)
