"""Formats in blocks: MXFP8 and NVFP4 for weights and activations, 4-bit integers for weights.

The forms are those that TensorRT's parser reads: activations through the nodes TRT_MXFP8DynamicQuantize and
TRT_FP4DynamicQuantize of the domain `trt`, which find their scales while running; weights as codes and scales, with
blocks along the products' inner dimension. Only MatMul and Gemm have such a form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import HEAD, Format, read
from trt_workbench.model.constants import constants
from trt_workbench.model.editing import Names, NodeWriter, remove_unread
from trt_workbench.model.low_precision import formats
from trt_workbench.model.low_precision.groups import ATTENTION, PrecisionGroup
from trt_workbench.model.narrow_formats import TENSORRT_DOMAIN
from trt_workbench.model.proto import integer

_PRODUCTS = ("MatMul", "Gemm")
_BEHIND_A_HEAD = frozenset(
    {"Add", "Mul", "Cast", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Softmax"}
)


def without_form(model: onnx.ModelProto, groups: Sequence[PrecisionGroup], precision: str) -> dict[str, str]:
    """Return the groups that have no form in a format of blocks, each with the reason."""
    nodes = {node.name: node for node in model.graph.node}
    values = constants(model.graph)
    shapes = {name: values.facts(name)[1] for name in values}
    found = {group.name: _reason(group, nodes[group.name], shapes, precision) for group in groups}
    return {name: reason for name, reason in found.items() if reason}


def heads(model: onnx.ModelProto, groups: Sequence[PrecisionGroup]) -> dict[str, str]:
    """Return the products that make an output by themselves, such as a language model's logits, with the reason.

    They lose most for their arithmetic (docs/benchmarks/precision/formats.md), and nothing after them averages it out.
    """
    names = {group.name for group in groups if group.op_type in _PRODUCTS}
    makers = {name: node for node in model.graph.node for name in node.output}
    fixed = constants(model.graph).keys()
    found: dict[str, str] = {}
    for value in model.graph.output:
        node = makers.get(value.name)
        while node is not None and node.name not in names and node.op_type in _BEHIND_A_HEAD:
            computed = [name for name in node.input if name and name not in fixed]
            node = makers.get(computed[0]) if len(computed) == 1 else None
        if node is not None and node.name in names:
            found[node.name] = HEAD
    return found


def quantize_blocks(model: onnx.ModelProto, groups: Sequence[PrecisionGroup], precision: str) -> None:
    """Bring groups into a format of blocks.

    Args:
        model: with float32 weights and a large enough operator set; changed.
        groups: to be low; none that `without_form` names.
        precision: one of blocks, such as "mxfp8" or "int4-weights".

    Raises:
        UsageProblem: weights are NaN or infinite.
    """
    low = {group.name: group for group in groups}
    row, _ = read(precision)
    writer = _Writer(model, row)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if group := low.get(node.name):
            if _is_dynamic(row):
                node.input[0] = writer.activation(node.input[0])
            node.input[1] = writer.weight(group, node)
        nodes += [*writer.taken(), node]
    writer.fill(model.graph, nodes)
    remove_unread(model.graph, (group.weight for group in groups))
    if _is_dynamic(row) and not any(entry.domain == TENSORRT_DOMAIN for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(TENSORRT_DOMAIN, 1))


def _reason(group: PrecisionGroup, node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]], precision: str) -> str:
    if group.op_type == ATTENTION:
        return "a product of two activations"
    if group.op_type not in _PRODUCTS:
        return f"{precision} has no convolutions"
    shape = shapes[group.weight]
    if len(shape) != 2:
        return f"its weights have {counted(len(shape), 'dimension')}, but {precision} takes matrices"
    if integer(node, "transA"):
        return "its activations are transposed"
    inner = shape[1] if integer(node, "transB") else shape[0]
    row, _ = read(precision)
    if _is_dynamic(row) and inner % row.block:
        return f"{inner} inputs are not a multiple of the block size {row.block}"
    return ""


def _is_dynamic(row: Format) -> bool:
    """Whether activations are in the format, too; their scales are found while running."""
    return row.recipe == "blocks"


class _Writer(NodeWriter):
    """Makes what quantises and widens blocks, once for each tensor."""

    def __init__(self, model: onnx.ModelProto, row: Format) -> None:
        super().__init__(Names.of(model))
        self._values = constants(model.graph)
        self._row, self._dynamic = row, _is_dynamic(row)
        self._done: dict[tuple[str, object], str] = {}
        self._whole = ""

    def activation(self, name: str) -> str:
        """Return the tensor behind the nodes that quantise an activation in blocks of its last axis, and widen it."""
        if (name, "activation") not in self._done:
            block: dict[str, Any] = {"axis": -1, "block_size": self._row.block, "domain": TENSORRT_DOMAIN}
            if self._row.name == "mxfp8":
                kind: dict[str, Any] = {"output_dtype": TensorProto.FLOAT8E4M3FN}
                codes, scales = self._pair("TRT_MXFP8DynamicQuantize", name, **block, **kind)
            else:
                # without data every block's scale is its own: up to 6 * 448 in steps of fp8
                self._whole = self._whole or self.constant(np.float32(1), "nvfp4_activation_scale")
                kind = {"scale_type": TensorProto.FLOAT8E4M3FN}
                codes, scales = self._pair("TRT_FP4DynamicQuantize", name, self._whole, **block, **kind)
            self._done[name, "activation"] = self._widened(name, codes, scales, self._whole)
        return self._done[name, "activation"]

    def weight(self, group: PrecisionGroup, node: onnx.NodeProto) -> str:
        """Return the tensor that a product reads in place of its weights; Gemm may have it transposed."""
        transposed = bool(integer(node, "transB"))
        values = self._values[group.weight].astype(np.float32)
        if not np.isfinite(values).all():
            raise UsageProblem(
                f"The weights {group.weight} of {group.op_type} {group.name} contain NaN or infinity and cannot be "
                "quantised."
            )
        # the same matrix as [outputs, inputs] and as [inputs, outputs] has other blocks, as in a tied autoencoder
        key = (group.weight, (transposed, node.op_type if self._dynamic else ""))
        if key not in self._done:
            rows = values if transposed else values.T  # [outputs, inputs]
            made = self._integers(group.weight, rows, transposed) if not self._dynamic else None
            self._done[key] = made or self._floats(group.weight, rows, node.op_type)
        if self._dynamic and node.op_type == "Gemm" and not transposed:
            kept = [entry for entry in node.attribute if entry.name != "transB"]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute("transB", 1)])
        return self._done[key]

    def _floats(self, name: str, rows: NDArray[np.float32], operator: str) -> str:
        """Return weights [outputs, inputs] in blocks of inputs; transposed where a MatMul reads them."""
        if self._row.name == "mxfp8":
            codes, scales = formats.mxfp8(rows)
            whole = ""
        else:
            codes, scales, factor = formats.nvfp4(rows)
            whole = self.constant(factor, f"{name}_tensor_scale")
        made = self._widened(name, self.constant(codes, f"{name}_codes"), self.constant(scales, f"{name}_scale"), whole)
        return made if operator == "Gemm" else self.node("Transpose", made, stem=f"{name}_Transpose", perm=[1, 0])

    def _integers(self, name: str, rows: NDArray[np.float32], transposed: bool) -> str:
        inner = rows.shape[1]
        block = formats.INT4_BLOCK if inner % formats.INT4_BLOCK == 0 else inner
        codes, scales = formats.int4(rows, block)
        if not transposed:
            codes, scales = np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T)
        axis: dict[str, Any] = {"axis": int(transposed)}
        if block == inner:  # one scale for every output
            scales, axis = scales.reshape(-1), {"axis": 1 - int(transposed)}
        else:
            axis["block_size"] = block
        inputs = [self.constant(codes, f"{name}_codes"), self.constant(scales, f"{name}_scale")]
        return self.node("DequantizeLinear", *inputs, stem=f"{name}_DequantizeLinear", **axis)

    def _widened(self, name: str, codes: str, scales: str, whole: str) -> str:
        """Return the values of codes with blocks along the last axis."""
        block: dict[str, Any] = {"axis": -1, "block_size": self._row.block}
        if self._row.name == "mxfp8":
            kind: dict[str, Any] = {"output_dtype": TensorProto.FLOAT, "domain": TENSORRT_DOMAIN}
            stem = f"{name}_TRT_MXFP8DequantizeLinear"
            return self.node("TRT_MXFP8DequantizeLinear", codes, scales, stem=stem, **block, **kind)
        scales = self.node("DequantizeLinear", scales, whole, stem=f"{name}_scale_DequantizeLinear")
        return self.node("DequantizeLinear", codes, scales, stem=f"{name}_DequantizeLinear", **block)

    def _pair(self, operator: str, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node that makes codes and scales."""
        stem = f"{inputs[0]}_{operator}"
        return self.outputs(operator, inputs, [stem, f"{stem}_1"], **attributes)
