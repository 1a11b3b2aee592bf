"""What TensorRT's ONNX parser documents of each operator, and checks: types and restrictions. Only for predictions.

Sources, all of the onnx-tensorrt project: docs/operators.md and onnxOpCheckers.cpp of release 10.15, and what
onnxOpImporters.cpp of release 10.1 asserts (newer ones were not read). Each restriction says of which release it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from trt_workbench.core.precision import FORMATS
from trt_workbench.model.constants import Array
from trt_workbench.model.proto import Shape

RELEASE = "10.15"
_IMPORTER = "10.1"
SOURCE = f"operator table and checks of TensorRT's ONNX parser, release {RELEASE}"

_FLOATS = frozenset({"float32", "float16", "bfloat16", "float64"})  # fp64 is cast down
_INTS = frozenset({"int32", "int64"})
_BOOL = frozenset({"bool"})
_ANY = _FLOATS | _INTS | _BOOL
_HALF = frozenset({"float32", "float16", "float64"})
_QUANTIZED = frozenset(one.numpy for one in FORMATS if one.is_quantised and one.onnx and one.is_built_by(10))

_BY_TYPES: tuple[tuple[frozenset[str], str], ...] = (
    (
        _FLOATS | _INTS,
        "Abs Add ArgMax ArgMin DepthToSpace Div Equal Gelu Greater GreaterOrEqual IsNaN Less LessOrEqual Max Mean Min "
        "Mod Mul Neg Pad Pow Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
        "ReduceProd ReduceSum ReduceSumSquare Relu Scatter ScatterElements ScatterND Shrink Sign SpaceToDepth Sub Sum "
        "TopK",
    ),
    (
        _FLOATS,
        "Acos Acosh Asin Asinh Atan Atanh AveragePool BatchNormalization Ceil Celu Clip Conv ConvTranspose Cos Cosh "
        "CumSum Dropout Einsum Elu Erf Exp Floor GRU Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool "
        "GroupNormalization HardSigmoid HardSwish Hardmax InstanceNormalization IsInf LRN LSTM LayerNormalization "
        "LeakyRelu Log LogSoftmax LpNormalization LpPool MatMul MaxPool MeanVarianceNormalization PRelu "
        "ParametricSoftplus ImageScaler RMSNormalization RotaryEmbedding ScaledTanh "
        "QuantizeLinear RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike Reciprocal Resize Round Scan "
        "Selu Sigmoid Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Upsample",
    ),
    (_HALF, "DeformConv GridSample Mish NonMaxSuppression NonZero RoiAlign"),
    (_FLOATS | {"int8"} | {one.numpy for one in FORMATS if one.name == "fp8"}, "Attention"),
    (frozenset({"float32", "float64"}), "STFT"),
    (_FLOATS | {"int32"}, "TensorScatter"),
    (_INTS, "BlackmanWindow HammingWindow HannWindow"),  # of their size
    (_BOOL, "And Not Or Xor"),
    (_ANY | {"uint8"}, "Cast CastLike"),
    (
        _ANY,
        "Concat Constant ConstantOfShape Expand EyeLike Flatten Gather GatherElements GatherND Identity If Loop OneHot "
        "Reshape ReverseSequence Shape Size Slice Split Squeeze Tile Transpose Trilu Unsqueeze Where",
    ),
    (_QUANTIZED, "DequantizeLinear"),
    (
        _FLOATS,
        "trt::TRT_FP8QuantizeLinear trt::TRT_INT4QuantizeLinear trt::TRT_FP4DynamicQuantize "
        "trt::TRT_MXFP8QuantizeLinear trt::TRT_MXFP8DynamicQuantize trt::TRT_DynamicQuantize trt::TRT_BlockQuantize",
    ),
    (
        _QUANTIZED | {"uint8"},
        "trt::TRT_FP8DequantizeLinear trt::TRT_INT4DequantizeLinear trt::TRT_MXFP8DequantizeLinear "
        "trt::TRT_BlockDequantize",
    ),
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
        arrays: constant inputs of at most 4096 elements, by place.
        shapes: of the inputs, None where unknown.
    """

    operator: str
    input_types: tuple[str | None, ...] = ()
    constant_inputs: tuple[bool, ...] = ()
    constant_values: Mapping[int, float] = field(default_factory=dict)
    rank: int | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    arrays: Mapping[int, Array] = field(default_factory=dict)
    shapes: tuple[Shape | None, ...] = ()

    def text(self, name: str, default: str) -> str:
        """Return an attribute of text."""
        value = self.attributes.get(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def given(self, place: int) -> bool:
        """Whether an input is there, as far as is known: of one left out there is no type."""
        constant = place < len(self.constant_inputs) and self.constant_inputs[place]
        return constant or (place < len(self.input_types) and self.input_types[place] is not None)

    def rank_of(self, place: int) -> int | None:
        """Return the number of dimensions of an input."""
        shape = self.shapes[place] if place < len(self.shapes) else None
        return self.rank if place == 0 and shape is None else None if shape is None else len(shape)


Check = Callable[[OperatorUse], "str | bool | None"]


@dataclass(frozen=True)
class Restriction:
    """One restriction of operators.

    Attributes:
        operators: their names.
        broken: of a use: text or a true value where it is broken; text is put behind `says`.
        says: what is restricted: "attribute", "shape", "dtype", "output" or "size", and in what way.
        release: of the parser that it is taken from.
    """

    operators: str
    broken: Check
    says: str
    release: str = RELEASE


def why_not(use: OperatorUse) -> str:
    """Return why TensorRT's parser would leave the node out, and of which release that is; "" if nothing is known."""
    if reason := _unlike_table(use):
        return f"{reason} (release {RELEASE})"
    for row in _BY_OPERATOR.get(use.operator, ()):
        if found := row.broken(use):
            return f"{row.says}{f' {found}' if isinstance(found, str) else ''} (release {row.release})"
    return ""


def _unlike_table(use: OperatorUse) -> str:
    types = TYPES.get(use.operator)
    if types is None:
        return "operator: TensorRT's parser does not import it"
    if "string" in use.input_types or (use.operator == "Cast" and use.attributes.get("to") == _STRING):
        return "dtype: TensorRT has no strings"
    place = _TYPED_INPUT.get(use.operator, 0)
    dtype = use.input_types[place] if place < len(use.input_types) else None
    if dtype is not None and dtype not in types:
        return f"dtype: {dtype} is not among {', '.join(sorted(types))}"
    for index in _CONSTANT_INPUTS.get(use.operator, ()):
        if index < len(use.constant_inputs) and use.input_types[index] is not None and not use.constant_inputs[index]:
            return f"shape: input {index} must be a constant but is computed"
    return ""


def _other(name: str, default: Any, *allowed: Any) -> Check:
    """Broken where an attribute is none of these values; text is compared as text."""

    def broken(use: OperatorUse) -> str | None:
        value = use.text(name, default) if isinstance(default, str) else use.attributes.get(name, default)
        return None if value in allowed else str(value)

    return broken


def _rank(place: int, *allowed: int) -> Check:
    def broken(use: OperatorUse) -> str | None:
        rank = use.rank_of(place)
        return None if rank is None or rank in allowed else f"{rank}"

    return broken


def _computed(place: int) -> Check:
    return lambda use: use.given(place) and place < len(use.constant_inputs) and not use.constant_inputs[place]


def _dilated(use: OperatorUse) -> bool:
    return any(one != 1 for one in use.attributes.get("dilations", ()))


def _not_zero(use: OperatorUse) -> bool:
    zeros = use.arrays.get(2)
    return zeros is not None and bool(np.any(zeros.astype(np.float32) != 0))


def _unordered_axes(use: OperatorUse) -> str | None:
    axes, rank = list(use.attributes.get("axes", ())), use.rank
    if not axes:
        return None
    if rank is not None:
        axes = [axis + rank if axis < 0 else axis for axis in axes]
    every = rank is not None and axes == list(range(rank))
    if axes != sorted(set(axes)) or (_computed(2)(use) and not every):
        return str(axes)
    return None


def _scales_beyond(use: OperatorUse) -> bool:
    scales = use.arrays.get(2)
    linear = use.text("mode", "nearest") == "linear" and not use.attributes.get("axes")
    return linear and scales is not None and bool(np.any(scales.reshape(-1)[:-3] != 1))


def _unlike_directions(use: OperatorUse) -> bool:
    if use.text("direction", "forward") != "bidirectional":
        return False
    lists = [list(use.attributes.get(name, ())) for name in ("activations", "activation_alpha", "activation_beta")]
    return any(one[: len(one) // 2] != one[len(one) // 2 :] for one in lists)


def _numpy_name(kind: int) -> str | None:
    known = kind in onnx.TensorProto.DataType.values() and kind not in (0, _STRING)
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind).name) if known else None


def _made_type(names: frozenset[str], attribute: str) -> Check:
    def broken(use: OperatorUse) -> str | None:
        code = use.attributes.get(attribute)
        name = _numpy_name(code) if code else None
        return name if name is not None and name not in names else None

    return broken


def _value_type(use: OperatorUse) -> str | None:
    value = use.attributes.get("value")
    name = _numpy_name(value.data_type) if value is not None else None
    return name if name is not None and name not in _ANY | _QUANTIZED else None


def _spatial(use: OperatorUse) -> str | None:
    pads = list(use.attributes.get("pads", ()))
    half = len(pads) // 2
    return str(pads) if pads[:half] != pads[half:] else None


def _trains(use: OperatorUse) -> bool:
    mode = use.arrays.get(2)
    return mode is not None and bool(np.any(mode))


def _odd_letters(use: OperatorUse) -> str | None:
    odd = set(use.text("equation", "")) - set("abcdefghijklmnopqrstuvwxyz->., ")
    return " ".join(sorted(odd)) or None


def _dynamic(use: OperatorUse) -> bool:
    shape = use.shapes[0] if use.shapes else None
    return shape is not None and not all(isinstance(dim, int) for dim in shape)


_MODES = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric", "align_corners")
RESTRICTIONS: tuple[Restriction, ...] = (
    Restriction("AveragePool MaxPool", _rank(0, 4, 5), "shape: 2-D or 3-D pooling only, the input has rank"),
    Restriction("AveragePool MaxPool LpPool", _dilated, "attribute: dilations must be 1"),
    Restriction("MaxPool", lambda use: use.outputs > 1, "output: the indices are not supported"),
    Restriction("LpPool LpNormalization", _other("p", 2, 1, 2), "attribute: p must be 1 or 2, not"),
    Restriction("LayerNormalization", lambda use: use.outputs > 1, "output: only the first one is supported"),
    Restriction("BatchNormalization", _other("training_mode", 0, 0), "attribute: training_mode must be 0, not"),
    Restriction("BatchNormalization", lambda use: use.outputs > 1, "output: only the first one is supported"),
    Restriction("Dropout", _trains, "input: its training mode must be false"),
    Restriction("Dropout", _computed(2), "input: its training mode must be a constant"),
    Restriction("Resize", _other("mode", "nearest", "nearest", "linear"), "attribute: mode"),
    Restriction(
        "Resize",
        _other("coordinate_transformation_mode", "half_pixel", *_MODES),
        "attribute: coordinate_transformation_mode",
    ),
    Restriction(
        "Resize",
        lambda use: (
            use.text("coordinate_transformation_mode", "") == "tf_half_pixel_for_nn"
            and use.text("nearest_mode", "round_prefer_floor") != "round_prefer_floor"
        ),
        "attribute: nearest_mode must be round_prefer_floor with tf_half_pixel_for_nn",
    ),
    Restriction("Resize", _other("antialias", 0, 0), "attribute: antialias must be 0, not"),
    Restriction(
        "Resize",
        _other("keep_aspect_ratio_policy", "stretch", "stretch"),
        "attribute: keep_aspect_ratio_policy must be stretch, not",
    ),
    Restriction(
        "Resize",
        _unordered_axes,
        "attribute: axes must be in order, and complete if the scales are computed, not",
    ),
    Restriction("Resize", _scales_beyond, "input: linear scales of more than the last 3 dimensions", _IMPORTER),
    Restriction("Upsample", _other("mode", "nearest", "nearest", "linear", "bilinear"), "attribute: mode"),
    Restriction("QuantizeLinear DequantizeLinear", _not_zero, "input: the zero point must be 0"),
    Restriction(  # no check of 10.15: read in the importer of 10.1, which warns and computes int8 in its place
        "QuantizeLinear",
        lambda use: len(use.input_types) > 2 and use.input_types[2] == "uint8",
        "dtype: TensorRT quantises to int8, not to uint8",
        _IMPORTER,
    ),
    Restriction("QuantizeLinear", _made_type(_QUANTIZED, "output_dtype"), "dtype: TensorRT does not quantise to"),
    Restriction("Cast", _made_type(_ANY | {"uint8"}, "to"), "dtype: TensorRT does not cast to"),
    Restriction("EyeLike", _made_type(_ANY, "dtype"), "dtype: TensorRT does not make"),
    Restriction("EyeLike", _dynamic, "shape: the input must have a fixed shape"),
    Restriction("EyeLike", _rank(0, 2), "shape: the input must be of rank 2, not", _IMPORTER),
    Restriction("ConstantOfShape", _value_type, "dtype: TensorRT does not make"),
    Restriction(
        "RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
        _made_type(frozenset({"float32", "float16"}), "dtype"),
        "dtype: TensorRT does not make",
    ),
    Restriction(
        "BlackmanWindow HammingWindow HannWindow",
        _made_type(frozenset({"float32", "float16"}), "output_datatype"),
        "dtype: TensorRT does not make",
    ),
    Restriction(
        "TopK",
        lambda use: f"{use.constant_values[1]:g}" if use.constant_values.get(1, 0) >= _LARGEST_K else None,
        f"size: K must be below {_LARGEST_K}, not",
    ),
    Restriction("TopK", _other("sorted", 1, 1), "attribute: sorted must be 1, not"),
    Restriction("ScatterND", _other("reduction", "none", "none"), "attribute: reduction must be none, not"),
    Restriction("GridSample", _rank(0, 4), "shape: the input must be of rank 4, not"),
    Restriction("DeformConv", _rank(0, 3, 4), "shape: 1-D or 2-D convolutions only, the input has rank"),
    Restriction("DeformConv", _spatial, "attribute: pads must be the same at both ends, not"),
    Restriction("ConvTranspose", _rank(0, 3, 4, 5), "shape: 1-D to 3-D only, the input has rank", _IMPORTER),
    Restriction("DepthToSpace SpaceToDepth", _rank(0, 4), "shape: the input must be of rank 4, not", _IMPORTER),
    Restriction("GRU LSTM RNN", _unlike_directions, "attribute: both directions need the same activations"),
    Restriction("LSTM", _other("input_forget", 0, 0), "attribute: input_forget must be 0, not"),
    Restriction("LSTM", _other("layout", 0, 0), "attribute: layout must be 0, not"),
    Restriction("Einsum", _odd_letters, "attribute: the equation may contain only small letters, not"),
    Restriction("STFT", _computed(1), "input: frame_step must be a constant"),
    Restriction("STFT", _computed(2), "input: the window must be a constant"),
    Restriction("RoiAlign", _other("mode", "avg", "avg", "max"), "attribute: mode"),
    Restriction("Attention", lambda use: use.outputs > 1, "output: only the first one is supported"),
    Restriction(
        "Attention",
        lambda use: any(use.given(place) for place in (4, 5, 6)),
        "input: past keys and values, and nonpad_kv_seqlen, are not supported",
    ),
    Restriction("Attention", _other("softcap", 0.0, 0.0), "attribute: softcap must be 0, not"),
    Restriction(
        "Attention",
        lambda use: bool({"softmax_precision", "qk_matmul_output_mode"} & use.attributes.keys()),
        "attribute: softmax_precision and qk_matmul_output_mode are not supported",
    ),
    *[Restriction("Attention", _rank(place, 4), f"shape: input {place} must be of rank 4, not") for place in range(4)],
    Restriction("TensorScatter", _rank(0, 4), "shape: the cache must be of rank 4, not"),
    Restriction("TensorScatter", _other("axis", -2, -2), "attribute: axis must be -2, not"),
    Restriction(
        "RotaryEmbedding",
        lambda use: use.given(3) and use.input_types[3] not in ("int64", None),
        "dtype: position_ids must be int64",
    ),
)
_BY_OPERATOR: Mapping[str, tuple[Restriction, ...]] = {
    name: tuple(row for row in RESTRICTIONS if name in row.operators.split())
    for name in {name for row in RESTRICTIONS for name in row.operators.split()}
}
