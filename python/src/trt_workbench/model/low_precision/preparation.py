"""The float model that candidates are made from: read, named, of a large enough operator set, or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnx import version_converter

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import read
from trt_workbench.model.constants import constants, evaluated
from trt_workbench.model.editing import (
    bypass,
    in_order,
    inlined,
    remove_nodes,
    remove_unread,
    rename_uses,
    set_constant,
)
from trt_workbench.model.facts import QUANTIZERS
from trt_workbench.model.index import GraphIndex
from trt_workbench.model.low_precision.groups import WEIGHTED, PrecisionGroup, quantisable
from trt_workbench.model.opened import Model, checked_on_error
from trt_workbench.model.proto import opset
from trt_workbench.model.walking import has_subgraph


@dataclass
class Lowered:
    """A model in a lower precision.

    Attributes:
        model: the new model; the one that was given is unchanged.
        kept: node that stayed in the type it had, with the reason.
        wide: operators that compute on floats and stayed in the type they had, somewhere.
        notes: other messages for the user, such as constants that were clamped, in sentences.
    """

    model: onnx.ModelProto
    kept: dict[str, str] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


_QUANTISED = (
    "QLinear",
    "Integer",
    "MatMulNBits",
    "DynamicQuantize",
    "GatherBlockQuantized",
    "MatMulBnb4",
    "QGemm",
    "TRT_FP",
)
# What changes a weight's type or the order of its values, and no value.
_LAY_OUT = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


class DoesNotApply(UsageProblem):
    """A model has nothing that a format applies to."""


def prepare(source: Model, *, products: bool = True) -> tuple[onnx.ModelProto, tuple[PrecisionGroup, ...]]:
    """Return a float model and what of it can be quantised.

    Every node has a name, functions of the model's own are written out, and weights that are only cast or rearranged
    are constants.

    Args:
        source: the model.
        products: whether there have to be products with weights, as for all but casts.

    Raises:
        DoesNotApply: nothing in it can be quantised.
        UsageProblem: the model is quantised already, or its weights are no float32.
    """
    refuse_quantised(source)
    model, path = source.load(), source.path
    with checked_on_error(source):
        model = inlined(model)
        in_order(model)
        # weights that are inputs with an initial value become constants; older exporters wrote them so
        weights = {tensor.name for tensor in model.graph.initializer}
        for value in [one for one in model.graph.input if one.name in weights]:
            model.graph.input.remove(value)
            model.ir_version = max(model.ir_version, 4)  # older ones want every weight among the inputs
        GraphIndex(model)  # names the nodes
        # readers of a weight's second name read the weight itself: exporters give one to layers that share it
        for node in [one for one in model.graph.node if one.op_type == "Identity"]:
            if node.input[0] in weights and bypass(model.graph, node):
                model.graph.node.remove(node)
        _fold_laid_out(model)
        groups = quantisable(model)
    if products and not any(group.weight for group in groups):
        outside = " outside the bodies of If, Loop and Scan" if any(map(has_subgraph, model.graph.node)) else ""
        raise DoesNotApply(
            "Nothing in the model can be quantised: it has no Conv, ConvTranspose, Gemm or MatMul with constant "
            f"weights{outside}; it has {', '.join(source.facts.operators)}: {path}"
        )
    values = constants(model.graph)
    types = {one.weight: values.facts(one.weight)[0].name if one.weight in values else "sparse" for one in groups}
    if wrong := next((one for one in groups if one.weight and types[one.weight] != "float32"), None):
        raise UsageProblem(
            f"The weights of {wrong.op_type} {wrong.name} are {types[wrong.weight]}; export the model in dense "
            f"float32: {path}"
        )
    return model, groups


def refuse_quantised(model: Model) -> None:
    """Raise UsageProblem for a model that is quantised already."""
    operators = model.facts.operators
    found = sorted(name for name in operators if name in QUANTIZERS or any(part in name for part in _QUANTISED))
    if found:
        raise UsageProblem(
            f"The model is already quantised (it has {', '.join(found)}); pass the float model: {model.path}"
        )


def raise_opset(model: onnx.ModelProto, precision: str, path: Path) -> onnx.ModelProto:
    """Return the model in an operator set that has what a format needs.

    Raises:
        UsageProblem: ONNX's converter cannot bring it there.
    """
    (row, _), old = read(precision), opset(model)
    if old < row.opset:
        known = {node.name: tuple(node.input) for node in model.graph.node if node.op_type in (*WEIGHTED, "Add")}
        try:
            converted = version_converter.convert_version(model, row.opset)
        except (RuntimeError, ValueError, IndexError, version_converter.ConvertError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UsageProblem(
                f"{precision} needs operator set {row.opset}, but the model has {old} and ONNX cannot convert it "
                f"({reason}); export it with opset {row.opset} or newer: {path}"
            ) from error
        _name_as_before(converted.graph, known)
        for before, after in zip(model.graph.output, converted.graph.output, strict=True):
            after.type.CopyFrom(before.type)  # some of its adapters drop the shape of a scalar
        model = converted
    model.ir_version = max(model.ir_version, row.ir_version)
    return model


def _name_as_before(graph: onnx.GraphProto, read: Mapping[str, Sequence[str]]) -> None:
    """Give tensors the names by which groups and ranges know them.

    Where ONNX's converter makes another node of one, as a Resize of an Upsample, its output has another name, too.

    Args:
        graph: converted.
        read: the inputs of nodes by their names, before.
    """
    makers = {name: node for node in graph.node for name in node.output}
    there = makers.keys() | {value.name for value in (*graph.input, *graph.initializer)}
    for node in graph.node:
        for before, after in zip(read.get(node.name, ()), tuple(node.input), strict=False):
            if before not in there and after in makers:
                makers[after].output[list(makers[after].output).index(after)] = before
                rename_uses(graph, {after: before})
                makers[before] = makers.pop(after)
                there |= {before}


def _fold_laid_out(model: onnx.ModelProto) -> None:
    """Make constants of weights that are only cast or rearranged before they are multiplied by."""
    makers = {name: node for node in model.graph.node if node.op_type in _LAY_OUT for name in node.output}
    waiting = [node.input[1] for node in model.graph.node if node.op_type in WEIGHTED and len(node.input) > 1]
    wanted: set[str] = {value.name for value in model.graph.output}
    chosen = []
    while waiting:
        name = waiting.pop()
        if name in makers and name not in wanted:
            wanted.add(name)
            chosen.append(makers[name])
            waiting += makers[name].input
    if not chosen:
        return
    values = constants(model.graph)
    sources = {name for node in chosen for name in node.input}
    names = {node.name for node in chosen}
    for node in [one for one in model.graph.node if one.name in names]:  # in the graph's order: makers come first
        if made := evaluated(model, node, values):
            values |= made
            remove_nodes(model.graph, [node])
            set_constant(model.graph, node.output[0], made[node.output[0]])
    remove_unread(model.graph, sources)
