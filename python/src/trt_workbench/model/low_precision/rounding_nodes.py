"""Rounding to narrow formats in ONNX's standard operators, bit for bit as `formats` rounds arrays."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto

from trt_workbench.core.precision import Format, get
from trt_workbench.model.editing import NodeWriter
from trt_workbench.model.low_precision import formats
from trt_workbench.model.proto import format_of


def rounded(writer: NodeWriter, name: str, kind: int, output: str = "") -> str:
    """Return fp32 values rounded to the type of a format."""
    row = get(format_of(kind) or "")
    if row.simulation == "operators":
        return in_steps(writer, name, row, output)
    return writer.node("Cast", writer.node("Cast", name, to=kind), output=output, to=TensorProto.FLOAT)


def in_steps(writer: NodeWriter, name: str, row: Format, output: str = "") -> str:
    """Return fp32 values rounded to a float of few exponents without infinity; NaN stays, so that it is seen.

    The step doubles at every power of two: in FP4 it is 1/2 below 2, 1 below 4, then 2. Round goes to the even
    neighbour, as the codes do.
    """
    size = writer.node("Abs", name)
    width, end = row.smallest, 2 * row.smallest_normal
    step = writer.constant(np.float32(width))
    while end <= row.largest:
        width *= 2
        is_less = writer.node("Less", size, writer.constant(np.float32(end)))
        step = writer.node("Where", is_less, step, writer.constant(np.float32(width)))
        end *= 2
    near = writer.node("Mul", writer.node("Round", writer.node("Div", name, step)), step)
    return _clipped(writer, near, -row.largest, row.largest, output)


# What ONNX Runtime finds the largest value with, NaN left out, and what finds it among flags of NaN.
_SKIPS_NAN = {name: name for name in ("ReduceMax", "GlobalMaxPool", "MaxPool")} | {"ReduceMin": "ReduceMax"}


def keep_nan(writer: NodeWriter, node: onnx.NodeProto) -> None:
    """Let the first output of a node that was just written be NaN where it is found among values with NaN."""
    if node.op_type not in _SKIPS_NAN:
        return
    made, numbers = node.output[0], writer.fresh()
    flags = writer.node("Cast", writer.node("IsNaN", node.input[0]), to=TensorProto.FLOAT)
    alike = onnx.NodeProto()
    alike.CopyFrom(node)
    alike.op_type, alike.name, alike.input[0] = _SKIPS_NAN[node.op_type], f"{made}_flags", flags
    alike.output[:] = [writer.fresh()]
    writer.nodes.append(alike)
    node.output[0] = numbers
    found = writer.node("Greater", alike.output[0], writer.constant(np.float32(0.5)))
    writer.node("Where", found, writer.constant(np.float32(np.nan)), numbers, output=made)


_POWER = """
    wanted = Div(x, most) log = Log(wanted) twos = Mul(log, per) up = Ceil(twos) exponent = Clip(up, minus, bias)
    power = Pow(two, exponent) double = Add(power, power) is_less = Less(power, wanted)
    enough = Where(is_less, double, power) halved = Mul(enough, half) too_little = Less(halved, wanted)
    found = Where(too_little, enough, halved) y = Clip(found, least, last)
"""


def power_of_two(writer: NodeWriter, largest: str) -> str:
    """Return the scales of MXFP8 for blocks with these largest absolute values, as `formats.e8m0` chooses them.

    A logarithm need not be exact: comparison corrects its result.
    """
    values = {"most": formats.E4M3_MAX, "per": 1 / math.log(2), "two": 2.0, "half": 0.5}
    values |= {"bias": formats.E8M0_BIAS, "minus": -formats.E8M0_BIAS}
    values |= {"least": 2.0**-formats.E8M0_BIAS, "last": 2.0**formats.E8M0_BIAS}
    return writer.formula(_POWER, x=largest, **{name: writer.constant(np.float32(one)) for name, one in values.items()})


def not_zero(writer: NodeWriter, scales: str) -> str:
    """Return scales with 1 in place of 0, as `formats.nvfp4` has them."""
    is_zero = writer.node("Equal", scales, writer.constant(np.float32(0)))
    return writer.node("Where", is_zero, writer.constant(np.float32(1)), scales)


def largest(writer: NodeWriter, blocks: str) -> str:
    """Return the largest absolute values of blocks [N,B], [N,1]."""
    last = writer.constant(np.array([-1], np.int64))
    return writer.node("ReduceMax", writer.node("Abs", blocks), last, keepdims=1)


def in_rows(writer: NodeWriter, name: str, length: int) -> str:
    """Return a tensor as [N, `length`]."""
    return writer.node("Reshape", name, writer.constant(np.array([-1, length], np.int64)))


def shaped_like(writer: NodeWriter, name: str, other: str, output: str = "") -> str:
    """Return a tensor in the shape of another."""
    return writer.node("Reshape", name, writer.node("Shape", other), output=output)


def _clipped(writer: NodeWriter, name: str, low: float, high: float, output: str = "") -> str:
    bounds = (writer.constant(np.float32(low)), writer.constant(np.float32(high)))
    return writer.node("Clip", name, *bounds, output=output)
