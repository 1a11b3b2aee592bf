"""Integer divisions that end the process: the most negative number by -1, which the processor answers with a signal.

ONNX Runtime divides constants while it loads a model, and does not look at them first.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx

from trt_workbench.model.constants import Array, constant_value, evaluated
from trt_workbench.model.proto import STANDARD

_DIVISIONS = ("Div", "Mod")


def trapping_division(model: onnx.ModelProto, graphs: Iterable[onnx.GraphProto]) -> str | None:
    """Return what is wrong with the first division of constants that no runtime survives; None if there is none.

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
