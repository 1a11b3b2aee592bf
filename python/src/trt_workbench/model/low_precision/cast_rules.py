"""Which tensors of a node may be in fp16 or bf16: by ONNX's own schemas, and by what would lose its meaning."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import TensorProto

from trt_workbench.core.precision import get
from trt_workbench.model.proto import STANDARD, kinds_where

TYPE_STRINGS = {kind: f"tensor({get(name).numpy})" for kind, name in kinds_where(lambda one: one.is_half).items()}
# Squares and sums leave fp16's range, and bf16 adds few digits: a variance of values around 300 is infinite in fp16.
WIDE = frozenset(
    {"Pow", "CumSum", "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"}
    | {"ReduceLogSum", "ReduceLogSumExp", "Range", "Det"}
)
# Their results are small whatever comes in: they end what has to stay wide.
BOUNDED = frozenset({"Cos", "Sin", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Erf", "Atan"})
# They take a mean from data, or divide by a power of them.
CENTRES = frozenset({"Sub", "Div", "Mul"})
# They multiply data with weights, which is what is made low.
PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
# They multiply their first inputs with each other.
MULTIPLIES = frozenset({"Mul", "MatMul", "Gemm", "Einsum"})
# They add: of a constant that stands for infinity they get a half, so that the sum is finite, too.
SUMS = frozenset({"Add", "Sub", "Sum"})
# A value that stands for infinity stays one in these.
CARRIES = SUMS | frozenset(
    {
        "Mul",
        "Div",
        "Where",
        "Neg",
        "Expand",
        "Reshape",
        "Unsqueeze",
        "Squeeze",
        "Concat",
        "Slice",
        "Split",
        "Tile",
        "Flatten",
    }
    | {"Transpose", "Identity", "Cast", "Gather", "Pad", "Min", "Max", "Trilu", "ScatterND"}
)
# They give their input or its negative in some shape, so that the product of two such is a square, or sums of squares.
SAME_SIZE = frozenset(
    {"Identity", "Neg", "Abs", "Cast", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand"}
)
# What brings small constants into shape, such as the frequencies that positions are multiplied by.
SHAPES_CONSTANTS = frozenset({"Expand", "Reshape", "Unsqueeze", "Squeeze", "Concat", "Slice", "Tile", "Flatten"})
# ONNX Runtime draws only float and double; ONNX writes MeanVarianceNormalization with constants in fp32.
_FP32_ONLY = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "MeanVarianceNormalization"}
)
# Their results are of another type once an attribute says so, and they are the same.
_RETYPED = frozenset({"Cast", "ConstantOfShape"})
# Operators of ONNX Runtime's own whose floats are all of one type, fp16 among them; it writes them into models that it
# has optimised.
_RUNTIME_DOMAINS = (*STANDARD, "com.microsoft")
_OF_ONE_TYPE = frozenset(
    {"Gelu", "FastGelu", "BiasGelu", "QuickGelu", "BiasAdd", "BiasSplitGelu", "BiasSoftmax", "FusedMatMul", "FusedGemm"}
    | {"FusedConv", "NhwcConv", "MatMulNBits", "SimplifiedLayerNormalization", "SkipLayerNormalization"}
    | {"SkipSimplifiedLayerNormalization", "EmbedLayerNormalization", "GroupNorm", "SkipGroupNorm", "Attention"}
    | {"MultiHeadAttention", "GroupQueryAttention", "PackedAttention", "PackedMultiHeadAttention", "RotaryEmbedding"}
    | {"DecoderMaskedMultiHeadAttention", "RelativePositionBias", "GatedRelativePositionBias"}
)


class NodeTypes:
    """The types that a node's tensors may have.

    Attributes:
        known: whether ONNX knows the operator and it can take and make tensors alone.
    """

    def __init__(self, node: onnx.NodeProto, opset: int) -> None:
        """Look up `node` in the operator set of version `opset`."""
        self.known = False
        self._operator = node.op_type
        self._inputs: list[frozenset[str]] = []
        self._outputs: list[frozenset[str]] = []
        self._kinds: list[str] = []
        self._free: list[bool] = []
        of_runtime = node.domain not in STANDARD or not onnx.defs.has(node.op_type, opset, "")
        if of_runtime and node.op_type in _OF_ONE_TYPE and node.domain in _RUNTIME_DOMAINS:
            self.known = True
            self._inputs = self._outputs = [frozenset({TYPE_STRINGS[TensorProto.FLOAT16]})]
            return
        if node.domain not in STANDARD or node.op_type in _FP32_ONLY or not onnx.defs.has(node.op_type, opset, ""):
            return
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        allowed = {one.type_param_str: frozenset(one.allowed_type_strs) for one in schema.type_constraints}
        self._inputs = [allowed.get(one.type_str, frozenset({one.type_str})) for one in schema.inputs]
        self._outputs = [allowed.get(one.type_str, frozenset({one.type_str})) for one in schema.outputs]
        self._kinds = [one.type_str for one in schema.outputs]
        given = {one.type_str for one in schema.inputs}
        self._free = [one not in given for one in self._kinds]
        # Identity, of newer sets, takes sequences too; what takes or makes nothing else has no form in another type
        self.known = all(any(kind.startswith("tensor(") for kind in kinds) for kinds in (*self._inputs, *self._outputs))

    def input_may_be(self, place: int, low: int) -> bool:
        """Whether an input may be of the type `low`; further inputs are as the last."""
        return self.known and _may_be(self._inputs, place, low)

    def is_free(self, place: int) -> bool:
        """Whether the type of an output follows from no input: an attribute, or what is left out, says it."""
        return bool(self._free) and self._free[min(place, len(self._free) - 1)]

    def can_say(self, low: int) -> bool:
        """Whether the first output is of the type `low` once an attribute says so."""
        return self.is_free(0) and self._operator in _RETYPED and _may_be(self._outputs, 0, low)

    def as_first(self, place: int) -> bool:
        """Whether an output always has the first one's type; assumed so for operators that ONNX does not know."""
        kinds = self._kinds
        return not kinds or kinds[min(place, len(kinds) - 1)] == kinds[0]

    def output_may_be(self, place: int, low: int) -> bool:
        """Whether an output may be of the type `low`; further outputs are as the last.

        One whose type an attribute sets keeps it.
        """
        return self.known and not self.is_free(place) and _may_be(self._outputs, place, low)


def _may_be(kinds: Sequence[frozenset[str]], place: int, low: int) -> bool:
    return bool(kinds) and TYPE_STRINGS[low] in kinds[min(place, len(kinds) - 1)]
