"""Rounding to narrow formats in ONNX's standard operators, bit for bit as `formats` rounds arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.core.precision import Format, get
from trt_workbench.model.element_types import format_of
from trt_workbench.onnxtools.quantize import formats


class NodeWriter:
    """Makes nodes and constants with names that a model does not have.

    Attributes:
        nodes: in order, since they were last taken.
        initializers: constants that the nodes read.
    """

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._constants: dict[tuple[bytes, str, tuple[int, ...]], str] = {}
        self._count = self._made = 0
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node with one output and return that."""
        output = output or self.fresh()
        self._made += 1
        name = f"{output}_made_{self._made}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=name, **attributes))
        return output

    def taken(self) -> list[onnx.NodeProto]:
        """Return the nodes made so far, and begin anew."""
        nodes, self.nodes = self.nodes, []
        return nodes

    def constant(self, value: Any) -> str:
        """Return the name of a constant, the same for the same value."""
        array = np.asarray(value)
        key = (array.tobytes(), array.dtype.str, array.shape)
        if key not in self._constants:
            self._constants[key] = self.fresh()
            self.initializers.append(numpy_helper.from_array(array, self._constants[key]))
        return self._constants[key]

    @contextmanager
    def graph(self) -> Iterator[None]:
        """Give the constants made within to a graph of their own; those of the graph around it are kept for that."""
        outer = self._constants, self.initializers
        self._constants, self.initializers = {}, []
        yield
        self._constants, self.initializers = outer

    def fresh(self) -> str:
        """Return a tensor's name that nothing has."""
        while (name := f"simulated_{self._count}") in self._taken:
            self._count += 1
        self._count += 1
        return name


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


def power_of_two(writer: NodeWriter, largest: str) -> str:
    """Return the scales of MXFP8 for blocks with these largest absolute values, as `formats.e8m0` chooses them.

    A logarithm need not be exact: what it gives is put right by comparison.
    """
    wanted = writer.node("Div", largest, writer.constant(np.float32(formats.E4M3_MAX)))
    log = writer.node("Mul", writer.node("Log", wanted), writer.constant(np.float32(1 / math.log(2))))
    exponent = _clipped(writer, writer.node("Ceil", log), -formats.E8M0_BIAS, formats.E8M0_BIAS)
    power = writer.node("Pow", writer.constant(np.float32(2)), exponent)
    double = writer.node("Add", power, power)
    power = writer.node("Where", writer.node("Less", power, wanted), double, power)
    half = writer.node("Mul", power, writer.constant(np.float32(0.5)))
    power = writer.node("Where", writer.node("Less", half, wanted), power, half)
    return _clipped(writer, power, 2.0**-formats.E8M0_BIAS, 2.0**formats.E8M0_BIAS)


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
