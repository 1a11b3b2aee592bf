"""What TensorRT 10's ONNX parser documents of each operator: types and restrictions. For predictions alone.

Source: docs/operators.md of the onnx-tensorrt project, release 10.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trt_workbench.core.precision import FORMATS

SOURCE = "operator table of TensorRT's ONNX parser, release 10.1"

_FLOATS = frozenset({"float32", "float16", "bfloat16", "float64"})  # fp64 is cast down
_INTS = frozenset({"int32", "int64"})
_BOOL = frozenset({"bool"})
_ANY = _FLOATS | _INTS | _BOOL
_HALF = frozenset({"float32", "float16", "float64"})
# fp4 came after the release that the table is of, with 10.8.
_QUANTIZED = frozenset(
    one.numpy for one in FORMATS if one.is_quantised and one.onnx and one.is_built_by(10) and one.name != "fp4"
)

_BY_TYPES: tuple[tuple[frozenset[str], str], ...] = (
    (
        _FLOATS | _INTS,
        "Abs Add ArgMax ArgMin DepthToSpace Div Equal Gelu Greater GreaterOrEqual IsNaN Less LessOrEqual Max Mean Min "
        "Mod Mul Neg Pad Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
        "ReduceProd ReduceSum ReduceSumSquare Relu Scatter ScatterElements ScatterND Shrink Sign SpaceToDepth Sub Sum "
        "TopK",
    ),
    (
        _FLOATS,
        "Acos Acosh Asin Asinh Atan Atanh AveragePool BatchNormalization Ceil Celu Clip Conv ConvTranspose Cos Cosh "
        "CumSum Dropout Einsum Elu Erf Exp Floor GRU Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool "
        "GroupNormalization HardSigmoid HardSwish Hardmax InstanceNormalization IsInf LRN LSTM LayerNormalization "
        "LeakyRelu Log LogSoftmax LpNormalization LpPool MatMul MaxPool MeanVarianceNormalization PRelu Pow "
        "QuantizeLinear RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike Reciprocal Resize Round Scan "
        "Selu Sigmoid Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Upsample",
    ),
    (_HALF, "DeformConv GridSample Mish NonMaxSuppression NonZero RoiAlign"),
    (_BOOL, "And Not Or Xor"),
    (_ANY | {"uint8"}, "Cast CastLike"),
    (
        _ANY,
        "Concat Constant ConstantOfShape Expand EyeLike Flatten Gather GatherElements GatherND Identity If Loop OneHot "
        "Reshape ReverseSequence Shape Size Slice Split Squeeze Tile Transpose Trilu Unsqueeze Where",
    ),
    (_QUANTIZED, "DequantizeLinear"),
)
TYPES: Mapping[str, frozenset[str]] = {name: types for types, names in _BY_TYPES for name in names.split()}

# The input whose type counts, where it is not the first.
_TYPED_INPUT = {"Where": 1, "OneHot": 2}
# Inputs that have to be constants.
_CONSTANT_INPUTS = {
    "CumSum": (1,),
    "OneHot": (1,),
    "Pad": (3,),
    "Slice": (3,),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
    **{name: (1,) for name in TYPES if name.startswith("Reduce")},
}
_LARGEST_K = 3840
_STRING = 8  # TensorProto.STRING


@dataclass(frozen=True)
class OperatorUse:
    """One use of an operator, as far as the restrictions ask.

    Attributes:
        operator: name, `domain::Name` outside the standard domain.
        input_types: numpy dtype names or "string", None where unknown; one per input.
        constant_inputs: which inputs are constants; one per input.
        constant_values: values of constant inputs of one element, by place.
        rank: of the first input, None where unknown.
        attributes: of the node.
        outputs: number of outputs that are used.
    """

    operator: str
    input_types: tuple[str | None, ...] = ()
    constant_inputs: tuple[bool, ...] = ()
    constant_values: Mapping[int, float] = field(default_factory=dict)
    rank: int | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1


def why_not(use: OperatorUse) -> str:
    """Return why TensorRT's parser would leave the node out; "" if nothing documented speaks against it."""
    types = TYPES.get(use.operator)
    if types is None:
        return "operator: TensorRT's parser does not import it"
    if "string" in use.input_types:
        return "dtype: TensorRT has no strings"
    place = _TYPED_INPUT.get(use.operator, 0)
    dtype = use.input_types[place] if place < len(use.input_types) else None
    if dtype is not None and dtype not in types:
        return f"dtype: {dtype} is not among {', '.join(sorted(types))}"
    for index in _CONSTANT_INPUTS.get(use.operator, ()):
        if index < len(use.constant_inputs) and use.input_types[index] is not None and not use.constant_inputs[index]:
            return f"shape: input {index} has to be a constant and is computed"
    rule = _RULES.get(use.operator)
    return rule(use) if rule else ""


def _pooling(use: OperatorUse) -> str:
    if use.rank is not None and use.rank not in (4, 5):
        return f"shape: 2-D or 3-D pooling only, the input has rank {use.rank}"
    if any(dilation != 1 for dilation in use.attributes.get("dilations", ())):
        return "attribute: dilations have to be 1"
    return "output: the indices are not offered" if use.operator == "MaxPool" and use.outputs > 1 else ""


def _resize(use: OperatorUse) -> str:
    mode = use.attributes.get("mode", b"nearest")
    text = mode.decode() if isinstance(mode, bytes) else mode
    coordinates = use.attributes.get("coordinate_transformation_mode", b"half_pixel")
    words = coordinates.decode() if isinstance(coordinates, bytes) else coordinates
    if text not in ("nearest", "linear"):
        return f"attribute: mode {text}"
    known = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric", "align_corners")
    return "" if words in known else f"attribute: coordinate_transformation_mode {words}"


def _top_k(use: OperatorUse) -> str:
    k = use.constant_values.get(1)
    if k is not None and k >= _LARGEST_K:
        return f"size: K is {k:g} and has to be below {_LARGEST_K}"
    return "" if use.attributes.get("sorted", 1) else "attribute: sorted has to be 1"


def _scatter_nd(use: OperatorUse) -> str:
    reduction = use.attributes.get("reduction", b"none")
    return "" if reduction in (b"none", "none") else "attribute: reduction is not supported"


def _grid_sample(use: OperatorUse) -> str:
    return "" if use.rank in (4, None) else f"shape: the input has to be of rank 4, not {use.rank}"


def _cast(use: OperatorUse) -> str:
    return "dtype: TensorRT has no strings" if use.attributes.get("to") == _STRING else ""


def _first_output(use: OperatorUse) -> str:
    return "" if use.outputs == 1 else "output: only the first one is supported"


_RULES: Mapping[str, Callable[[OperatorUse], str]] = {
    "AveragePool": _pooling,
    "Cast": _cast,
    "GridSample": _grid_sample,
    "LayerNormalization": _first_output,
    "LpPool": _pooling,
    "MaxPool": _pooling,
    "Resize": _resize,
    "ScatterND": _scatter_nd,
    "TopK": _top_k,
}
