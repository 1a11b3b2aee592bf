"""How large a model's weights are, and a model without their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx
from onnx import numpy_helper

from trt_workbench.model.proto import is_external
from trt_workbench.model.tensor_checks import declared_bytes

# Smaller tensors may be shapes, indices and masks, whose values rewrites read.
_LARGE_WEIGHT = 1 << 20


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the initialisers, which is nearly all of a large model; protobuf cannot say it above 2 GiB."""
    return sum(map(tensor_bytes, model.graph.initializer))


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """Return the size of a tensor's values as raw data, wherever they are: in a field of their type, or in a file."""
    if tensor.raw_data:
        return len(tensor.raw_data)
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    if tensor.data_type == onnx.TensorProto.UNDEFINED:
        return 0
    return declared_bytes(tensor)


@contextmanager
def without_weights(model: onnx.ModelProto) -> Iterator[dict[str, bytes]]:
    """Take large initialisers' bytes out of the model while the block runs, so that protobuf can handle it.

    They are marked as external data meanwhile, and are raw data afterwards. Yields the bytes by name.
    """
    taken: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        held = not is_external(tensor) and tensor.data_type != onnx.TensorProto.STRING
        if held and tensor_bytes(tensor) > _LARGE_WEIGHT:
            if not tensor.raw_data:
                raw = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
                tensor.ClearField(onnx.helper.tensor_dtype_to_field(tensor.data_type))
                tensor.raw_data = raw
            taken[tensor.name] = tensor.raw_data
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights")
    try:
        yield taken
    finally:
        for tensor in model.graph.initializer:
            if tensor.name in taken and is_external(tensor):
                tensor.raw_data = taken[tensor.name]
                tensor.ClearField("data_location")
                del tensor.external_data[:]
