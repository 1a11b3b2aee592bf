"""Operator sets that a parser does not know, rewritten into one that it knows, where the graph means the same in both.

TensorRT 8.6 reads opset 17. It parses newer files, too, but by the rules of 17: it does not see the axes of a
ReduceMean, which became an input in opset 18, and averages over all of them without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import onnx
from onnx import TensorProto, defs, helper

from trt_workbench.model.constants import Array, Constants, constants
from trt_workbench.model.proto import STANDARD, integer, opset
from trt_workbench.model.walking import subgraphs

TARGET = 17
# Whose axes are an input from opset 18 on; those of ReduceSum are since 13.
_REDUCTIONS = frozenset(
    f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)
# By https://github.com/onnx/onnx/blob/main/docs/Changelog.md: of these only the list of types grew from 18 to 22.
_TYPES_ONLY = frozenset(
    """
    Acos Acosh Asin Asinh Atan Atanh Constant ConstantOfShape Conv ConvTranspose Cos Cosh Dropout Elu Equal
    Flatten GRU GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish Identity If InstanceNormalization IsInf
    IsNaN LSTM Loop MaxPool RNN Reshape Round Scan Selu Shape Sin Sinh Size Softplus Softsign Squeeze Tan
    ThresholdedRelu Transpose Unsqueeze
    """.split()  # noqa: SIM905 - a list of literals takes forty lines
)
_FLOAT8 = frozenset(kind for name, kind in TensorProto.DataType.items() if name.startswith("FLOAT8"))
_GRID_MODES = {"linear": b"bilinear", "cubic": b"bicubic"}
Lower = Callable[[onnx.NodeProto, Mapping[str, Array]], bool]


def lower_opset(model: onnx.ModelProto) -> list[str]:
    """Rewrite a model of a newer operator set into opset 17; nothing is changed where any node has no equal form.

    Returns:
        What was changed, in words.
    """
    version = opset(model)
    if version <= TARGET or left_behind(model):
        return []
    changed = []
    for node, values in list(_newer(model)):
        lowered = _lowered(node, values)
        if lowered is not None and lowered != node:
            node.CopyFrom(lowered)
            changed.append(f"{_named(node)} in the form of opset {TARGET}")
    for entry in model.opset_import:
        if entry.domain in STANDARD:
            entry.version = TARGET
    return [f"opset {version} is now {TARGET}", *changed]


def left_behind(model: onnx.ModelProto) -> list[str]:
    """Return what opset 17 cannot express, each as `Operator name`."""
    if model.functions:
        return [f"function {one.name}" for one in model.functions]
    return [_named(node) for node, values in _newer(model) if not _lowered(node, values)]


def misread(model: onnx.ModelProto) -> list[str]:
    """Return the nodes to which a parser of opset 17 gives another meaning, each as `Operator name`.

    A parser refuses an operator that it does not know; one that it knows by an older rule it reads by that.
    """
    if opset(model) <= TARGET:
        return []
    found = []
    for node, values in _newer(model):
        known = _since(node.op_type, TARGET) is not None
        lowered = _lowered(node, values) if known else None
        unseen = node.op_type in _REDUCTIONS and len(node.input) > 1 and node.input[1]
        if known and (unseen or lowered is None or (node.op_type == "GridSample" and lowered != node)):
            found.append(_named(node))
    return found


def _newer(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, Mapping[str, Array]]]:
    """Yield the nodes whose operator changed in more than its types after opset 17, with the constants they see."""
    version = opset(model)
    for node, values in _with_constants(model.graph, {}):
        since = _since(node.op_type, version) if node.domain in STANDARD else None
        if since is not None and since > TARGET and node.op_type not in _TYPES_ONLY:
            yield node, values


def _with_constants(
    graph: onnx.GraphProto, outer: Mapping[str, Array]
) -> Iterator[tuple[onnx.NodeProto, Mapping[str, Array]]]:
    values = Constants(outer) | constants(graph)
    for node in graph.node:
        yield node, values
        for inner in subgraphs([node]):
            yield from _with_constants(inner, values)


def _lowered(node: onnx.NodeProto, values: Mapping[str, Array]) -> onnx.NodeProto | None:
    """Return a node in the form of opset 17; None without one."""
    if _since(node.op_type, TARGET) is None or node.op_type not in _LOWERED:
        return None
    found = onnx.NodeProto()
    found.CopyFrom(node)
    return found if _LOWERED[node.op_type](found, values) else None


def _named(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name}".rstrip()


def _since(operator: str, version: int) -> int | None:
    try:
        return int(defs.get_schema(operator, version).since_version)
    except defs.SchemaError:
        return None


def _reduction(node: onnx.NodeProto, values: Mapping[str, Array]) -> bool:
    """Make the axes an attribute."""
    name = node.input[1] if len(node.input) > 1 else ""
    if name and name not in values:
        return False
    axes = [int(axis) for axis in values[name].reshape(-1)] if name else []
    if not axes and integer(node, "noop_with_empty_axes"):
        return False
    del node.input[1:]
    _drop(node, "noop_with_empty_axes")
    if axes:
        node.attribute.append(helper.make_attribute("axes", axes))
    return True


def _split(node: onnx.NodeProto, _: Mapping[str, Array]) -> bool:
    """Leave out the number of parts: with equal ones it is the number of outputs. Unequal ones are refused at 17."""
    _drop(node, "num_outputs")
    return True


def _cast(node: onnx.NodeProto, _: Mapping[str, Array]) -> bool:
    _drop(node, "saturate")  # of eight-bit floats alone
    return integer(node, "to") not in _FLOAT8


def _pool(node: onnx.NodeProto, _: Mapping[str, Array]) -> bool:
    dilations = next((one.ints for one in node.attribute if one.name == "dilations"), ())
    _drop(node, "dilations")
    return all(step == 1 for step in dilations) and not integer(node, "ceil_mode")  # what ceil_mode means was mended


def _grid(node: onnx.NodeProto, _: Mapping[str, Array]) -> bool:
    for one in node.attribute:
        if one.name == "mode":
            one.s = _GRID_MODES.get(one.s.decode(), one.s)
    return True


# Attributes that say nothing else than what opset 17 means without them.
_PLAIN_SCALES = {"saturate": 1, "block_size": 0, "output_dtype": 0, "precision": 0}
_PLAIN_SIZES = {"antialias": 0, "keep_aspect_ratio_policy": b"stretch"}
_LOWERED: Mapping[str, Lower] = {
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "AveragePool": _pool,
    "Cast": _cast,
    "GridSample": _grid,
    "Pad": lambda node, _: not (len(node.input) > 3 and node.input[3]) and _text(node, "mode") != "wrap",
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), lambda node, _: _without(node, _PLAIN_SCALES)),
    "Resize": lambda node, _: (
        _without(node, _PLAIN_SIZES, absent=("axes",))
        and _text(node, "coordinate_transformation_mode") != "half_pixel_symmetric"
    ),
    **dict.fromkeys(("ScatterElements", "ScatterND"), lambda node, _: _text(node, "reduction") not in ("min", "max")),
    "Split": _split,
}


def _text(node: onnx.NodeProto, name: str) -> str:
    return next((one.s.decode() for one in node.attribute if one.name == name), "")


def _drop(node: onnx.NodeProto, name: str) -> None:
    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)


def _without(node: onnx.NodeProto, plain: Mapping[str, object], absent: tuple[str, ...] = ()) -> bool:
    """Leave out attributes that have the value that opset 17 means without them; False where one has another."""
    for one in list(node.attribute):
        if one.name in absent or (one.name in plain and helper.get_attribute_value(one) != plain[one.name]):
            return False
        if one.name in plain:
            _drop(node, one.name)
    return True
