"""QuantizeLinear and DequantizeLinear nodes around what is to be low, placed by the rules of TensorRT.

One pair a tensor in front of the operations that multiply, so that all of them share its scale, and nothing in front of
anything else: what a convolution and a concatenation both read stays float for the latter. Weights have a scale for
every output channel, zero points are 0, biases stay float (NVIDIA, Working with Quantized Types).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import get
from trt_workbench.model.constants import constants
from trt_workbench.model.editing import Names, NodeWriter, remove_unread
from trt_workbench.model.low_precision.groups import PrecisionGroup, Residual, residuals
from trt_workbench.model.low_precision.ranges import codes_of, quantiser, scale_of

_LOW_OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def ranged_tensors(
    model: onnx.ModelProto, groups: Sequence[PrecisionGroup], *, every_choice: bool = False
) -> tuple[str, ...]:
    """Return the activations that need ranges where `groups` are low, in the graph's order.

    Args:
        model: with named nodes.
        groups: of it.
        every_choice: also what any choice among the groups needs.
    """
    names = {group.name for group in groups}
    found = residuals(model) if every_choice else _past(model, names).values()
    past = [one.tensor for one in found if one.convolution in names]
    return tuple(dict.fromkeys([*(name for group in groups for name in group.activations), *past]))


def _past(model: onnx.ModelProto, low: Container[str]) -> dict[str, Residual]:
    """Return by addition the input that is quantised: one of two, as the convolution of the other is fused."""
    return {one.add: one for one in reversed([*residuals(model)]) if one.convolution in low}


def insert_pairs(
    model: onnx.ModelProto,
    groups: Sequence[PrecisionGroup],
    thresholds: Mapping[str, float],
    precision: str,
    *,
    compact: bool = False,
) -> None:
    """Put the pairs into a model.

    Args:
        model: with float32 weights and a large enough operator set; changed.
        groups: to be low, those of `quantisable`.
        thresholds: by activation, the absolute value that the largest code stands for.
        precision: one with scales, such as "int8".
        compact: keep int8 weights as integers, without QuantizeLinear, a quarter of the size; TensorRT 8.6 takes them
            only as float. Those of fp8 are always kept so.

    Raises:
        UsageProblem: weights are NaN or infinite.
    """
    low = {group.name: group for group in groups}
    writer = _Writer(model, precision, compact=compact or get(precision).is_float)
    past = _past(model, low)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        group = low.get(node.name) if node.op_type in _LOW_OPERATORS else None
        for place, name in enumerate(node.input):
            if group and name == group.weight and place == 1:
                node.input[place] = writer.weight(group)
                # write a convolution's `kernel_shape`, which TensorRT's parser reads where the weight is no constant
                if node.op_type.startswith("Conv") and not any(one.name == "kernel_shape" for one in node.attribute):
                    node.attribute.append(onnx.helper.make_attribute("kernel_shape", writer.values[name].shape[2:]))
            elif (group and name in group.activations and place < 2) or (
                node.name in past and past[node.name].past == place
            ):
                node.input[place] = writer.activation(name, thresholds[name])
        nodes += [*writer.taken(), node]
    writer.fill(model.graph, nodes)
    remove_unread(model.graph, writer.replaced)


def quantised_weight(
    values: NDArray[np.float32], axis: int | None, precision: str
) -> tuple[NDArray[np.generic], NDArray[np.float32]]:
    """Return codes and scales of a weight, symmetric, with the largest value of a channel at the largest code.

    Args:
        values: float32, finite.
        axis: of the channels; None for one scale.
        precision: one with scales, such as "int8".

    Returns:
        Codes of the weight's shape, and scales float32 [channels], or a scalar.
    """
    others = None if axis is None else tuple(one for one in range(values.ndim) if one != axis)
    tops = np.max(np.abs(values), axis=others)
    scales = np.array([scale_of(float(top), precision) for top in np.atleast_1d(tops)], np.float32).reshape(tops.shape)
    shape = [-1 if one == axis else 1 for one in range(values.ndim)]
    codes = quantiser(precision)((values / scales.reshape(shape if axis is not None else ())).astype(np.float64))
    return codes.astype(codes_of(get(precision))), scales


class _Writer(NodeWriter):
    """Makes the pairs, one for each tensor.

    Attributes:
        values: of the model's constants.
        replaced: weights whose codes stand in their place.
    """

    def __init__(self, model: onnx.ModelProto, precision: str, *, compact: bool) -> None:
        super().__init__(Names.of(model))
        self.values = constants(model.graph)
        self._precision, self._compact = precision, compact
        self._done: dict[tuple[str, int | None], str] = {}
        self.replaced: set[str] = set()

    def activation(self, name: str, threshold: float) -> str:
        """Return the tensor behind a pair over an activation."""
        key = (name, None)
        if key not in self._done:
            scale, zero = self._scale(name, np.asarray(scale_of(threshold, self._precision)))
            self._done[key] = self._dequantised(name, self._quantised(name, scale, zero), scale, zero)
        return self._done[key]

    def weight(self, group: PrecisionGroup) -> str:
        """Return the tensor behind a weight's codes."""
        key = (group.weight, -1 if group.axis is None else group.axis)
        if key not in self._done:
            values = self.values[group.weight]
            if not np.isfinite(values).all():
                raise UsageProblem(
                    f"The weights {group.weight} of {group.op_type} {group.name} contain NaN or infinity and cannot "
                    "be quantised."
                )
            codes, scales = quantised_weight(values.astype(np.float32), group.axis, self._precision)
            scale, zero = self._scale(group.weight, scales)
            axis = {} if group.axis is None else {"axis": group.axis}
            if self._compact:
                made = self.constant(codes, f"{group.weight}_codes")
                self.replaced.add(group.weight)
            else:
                made = self._quantised(group.weight, scale, zero, **axis)
            self._done[key] = self._dequantised(group.weight, made, scale, zero, **axis)
        return self._done[key]

    def _quantised(self, name: str, scale: str, zero: str, **axis: Any) -> str:
        return self.node("QuantizeLinear", name, scale, zero, stem=f"{name}_QuantizeLinear", **axis)

    def _dequantised(self, name: str, made: str, scale: str, zero: str, **axis: Any) -> str:
        return self.node("DequantizeLinear", made, scale, zero, stem=f"{name}_DequantizeLinear", **axis)

    def _scale(self, stem: str, scales: NDArray[np.float32]) -> tuple[str, str]:
        zeros = np.zeros(scales.shape, codes_of(get(self._precision)))
        return self.constant(scales, f"{stem}_scale"), self.constant(zeros, f"{stem}_zero_point")
