"""The one table of number formats: what a precision holds, how it rounds, who has it, and what limits follow.

A row is a format. Whatever lists formats derives from the rows: options, labels, limits, TensorRT's flags, ONNX's
element types. docs/extending.md adds one; docs/reference/precision.md prints the table. Imports nothing heavy, as
`--help` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from trt_workbench.core.errors import UsageProblem, did_you_mean

Recipe = Literal["cast", "scales", "blocks", "weights"]
Simulation = Literal["cast", "operators"]

WHOLE, MIXED, WEIGHTS = "", "mixed", "weights"
"""What of a model is in a format: all that can be, all but what a search or a rule leaves alone, its weights alone."""

DEPTHWISE, HEAD, FEW_CHANNELS = "depthwise", "it makes an output", "at most 16 input channels"
"""What loses most in a low precision."""


@dataclass(frozen=True)
class Format:
    """A number format.

    Attributes:
        name: as it is asked for and printed.
        exponent_bits: 0 of integers.
        mantissa_bits: without the hidden one; of integers, all bits but the sign.
        largest: finite value; of integers, the largest code in use.
        infinity: whether what is beyond becomes infinite. Other formats keep their largest value.
        bias: of the exponent, where it is not the usual one.
        onnx: ONNX element types, the one that is written first.
        numpy: its name in numpy or ml_dtypes; "" of those that neither has.
        torch: PyTorch's dtype of floats that it computes in; "" of others.
        words: regular expression of TensorRT's names for it, in lower case.
        flag: TensorRT's builder flag, an attribute of the native core's options; "" where it has none. Formats of
            blocks are allowed by that of their elements.
        tensorrt: first major version of TensorRT that reads graphs in it; 0 where no version does.
        operators: of TensorRT's own domain, that quantise to it or widen it.
        block: values that share a scale; 0 where a tensor or a channel does.
        scale: format of a block's scale.
        since: first operator set of ONNX that has the element type.
        opset: the operator set that models made in it are in.
        ir_version: of ONNX, of such a model.
        recipe: how `quantize` makes it: casts; scales found on calibration data; scales of blocks, found while running;
            weights alone.
        modes: what of a model can be made in it.
        method: how ranges are chosen, where they are found on data: of the smallest loss on the worst of three models
            (docs/benchmarks/precision).
        sensitive: what of a model is left alone unless asked: where that brought more than its arithmetic.
        by_default: those that `decide` tries unasked.
        graph: how an ONNX file is had in it where a runtime computes what the graph says.
        cpu: whether ONNX Runtime's CPU provider loads graphs in it.
        simulation: how its rounding is written into a graph of standard operators: a Cast to the type and back, or
            arithmetic.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    largest: float
    infinity: bool = False
    bias: int | None = None
    onnx: tuple[str, ...] = ()
    numpy: str = ""
    torch: str = ""
    words: str = ""
    flag: str = ""
    tensorrt: int = 0
    operators: tuple[str, ...] = ()
    block: int = 0
    scale: str = ""
    since: int = 0
    opset: int = 0
    ir_version: int = 0
    recipe: Recipe | None = None
    modes: tuple[str, ...] = ()
    method: Literal["max", "mse"] = "max"
    sensitive: tuple[str, ...] = ()
    by_default: tuple[str, ...] = ()
    graph: Literal["as exported", "converted", "quantised"] | None = None
    cpu: bool = True
    simulation: Simulation | None = None

    @property
    def is_float(self) -> bool:
        """Whether it has an exponent of its own."""
        return self.exponent_bits > 0

    @property
    def is_quantised(self) -> bool:
        """Whether values need a scale to fit into it: integers, and floats of eight bits and fewer."""
        return not self.is_float or self.bits <= 8

    @property
    def bits(self) -> int:
        """Bits of an element, the sign included."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def unit(self) -> float:
        """Unit roundoff: the largest relative error of rounding to nearest (of integers, over the largest value)."""
        return 2.0 ** -(self.mantissa_bits + 1)

    @property
    def smallest_normal(self) -> float:
        """Smallest value of full precision; 1 of integers."""
        usual = 2 ** (self.exponent_bits - 1) - 1 if self.is_float else 1
        return 2.0 ** (1 - (usual if self.bias is None else self.bias)) if self.is_float else 1.0

    @property
    def smallest(self) -> float:
        """Smallest value above 0: the step between subnormal numbers; 1 of integers."""
        return self.smallest_normal * 2.0**-self.mantissa_bits if self.is_float else 1.0

    @property
    def is_flag(self) -> bool:
        """Whether TensorRT has a builder flag of its name."""
        return self.flag == self.name

    @property
    def is_half(self) -> bool:
        """Whether it is a float of two bytes, which a graph is cast to."""
        return self.is_float and self.bits == 16

    @property
    def is_calibrated(self) -> bool:
        """Whether activations have scales of their own, found on calibration data."""
        return self.recipe == "scales"

    @property
    def makes(self) -> tuple[str, ...]:
        """The modes that `quantize` makes; what a mixed model leaves alone, `decide` finds."""
        return tuple(mode for mode in self.modes if self.recipe and mode != MIXED)

    @property
    def error(self) -> float:
        """What one result may be off by: it is rounded to the format, and summed in fp32 in another order."""
        return max(self.unit, _SUM)

    @property
    def lacks_numpy(self) -> bool:
        """Whether numpy itself lacks it, and ml_dtypes has it."""
        return bool(self.numpy) and (self.numpy == "bfloat16" or self.bits < 8 or (self.is_float and self.bits == 8))

    def holds(self, other: Format) -> bool:
        """Whether it has every value of another format of floats, with no scale on either side."""
        exact = self.exponent_bits >= other.exponent_bits and self.mantissa_bits >= other.mantissa_bits
        return self is not other and not other.is_quantised and exact

    def is_built_by(self, release: int) -> bool:
        """Whether a major version of TensorRT reads graphs in it."""
        return 0 < self.tensorrt <= release

    def made(self, mode: str = WHOLE) -> str:
        """Return the precision that `quantize` and `decide` know it as, such as "int8-mixed"."""
        return f"{self.name}-{mode}" if mode else self.name


# Sixteen roundoffs of fp32, whatever format a product's factors have: a runtime adds up its terms in another order, in
# parts, or transformed (Winograd), and approximates functions.
_SUM = 2.0**-20

FORMATS: list[Format] = [
    Format("int2", 0, 1, largest=1, onnx=("INT2", "UINT2"), numpy="int2", since=25),
    Format(
        "nvfp4", 2, 1, largest=6, numpy="float4_e2m1fn", flag="fp4", tensorrt=11, operators=("TRT_FP4DynamicQuantize",),
        block=16, scale="fp8", since=23, opset=23, ir_version=11, recipe="blocks", modes=(WHOLE,), by_default=(WHOLE,),
        cpu=False, simulation="operators",
    ),
    Format(
        "fp4", 2, 1, largest=6, onnx=("FLOAT4E2M1",), numpy="float4_e2m1fn", words=r"fp4|e2m1", flag="fp4", tensorrt=10,
        since=23, cpu=False, simulation="operators",
    ),
    Format(
        "int4", 0, 3, largest=7, onnx=("INT4", "UINT4"), numpy="int4", words=r"int4", flag="int4", tensorrt=10,
        operators=("TRT_INT4QuantizeLinear", "TRT_INT4DequantizeLinear"), block=128, scale="fp32", since=21, opset=21,
        ir_version=10, recipe="weights", modes=(WEIGHTS,),
    ),
    Format(
        "fp8-e5m2", 5, 2, largest=57344, infinity=True, onnx=("FLOAT8E5M2",), numpy="float8_e5m2", words=r"e5m2",
        since=19, opset=19, ir_version=9, recipe="scales", modes=(WHOLE,), sensitive=(DEPTHWISE, HEAD, FEW_CHANNELS),
        cpu=False, simulation="cast",
    ),
    Format(
        "fp8-e5m2-fnuz", 5, 2, largest=57344, bias=16, onnx=("FLOAT8E5M2FNUZ",), numpy="float8_e5m2fnuz", since=19,
        cpu=False, simulation="cast",
    ),
    Format(
        "mxfp8", 4, 3, largest=448, numpy="float8_e4m3fn", flag="fp8", tensorrt=10,
        operators=("TRT_MXFP8DynamicQuantize", "TRT_MXFP8DequantizeLinear"), block=32, scale="e8m0", since=19, opset=19,
        ir_version=9, recipe="blocks", modes=(WHOLE,), cpu=False, simulation="operators",
    ),
    Format(
        "fp8-fnuz", 4, 3, largest=240, bias=8, onnx=("FLOAT8E4M3FNUZ",), numpy="float8_e4m3fnuz", since=19, cpu=False,
        simulation="cast",
    ),
    Format(
        "fp8", 4, 3, largest=448, onnx=("FLOAT8E4M3FN",), numpy="float8_e4m3fn", words=r"fp8|float8|e4m3",
        flag="fp8", tensorrt=10, operators=("TRT_FP8QuantizeLinear", "TRT_FP8DequantizeLinear"), since=19, opset=19,
        ir_version=9, recipe="scales", modes=(WHOLE,), sensitive=(DEPTHWISE, HEAD, FEW_CHANNELS), by_default=(WHOLE,),
        cpu=False, simulation="cast",
    ),
    Format(
        "int8", 0, 7, largest=127, onnx=("INT8", "UINT8"), numpy="int8", words=r"int8", flag="int8", tensorrt=8,
        since=10, opset=13, ir_version=7, recipe="scales", modes=(WHOLE, MIXED), method="mse",
        sensitive=(DEPTHWISE, HEAD), by_default=(WHOLE, MIXED), graph="quantised",
    ),
    Format(
        "bf16", 8, 7, largest=(2 - 2.0**-7) * 2.0**127, infinity=True, onnx=("BFLOAT16",), numpy="bfloat16",
        torch="bfloat16", words=r"bf16|bfloat16", flag="bf16", tensorrt=10, since=13, opset=22, ir_version=10,
        recipe="cast", modes=(WHOLE,), cpu=False, simulation="cast",
    ),
    Format(
        "fp16", 5, 10, largest=65504, infinity=True, onnx=("FLOAT16",), numpy="float16", torch="float16",
        words=r"fp16|half|float16", flag="fp16", tensorrt=8, since=1, opset=7, ir_version=3, recipe="cast",
        modes=(WHOLE,), by_default=(WHOLE,), graph="converted", simulation="cast",
    ),
    # The factors of products alone are rounded to it.
    Format("tf32", 8, 10, largest=(2 - 2.0**-10) * 2.0**127, infinity=True, flag="tf32"),
    Format("int16", 0, 15, largest=32767, onnx=("INT16", "UINT16"), numpy="int16", since=21),
    Format(
        "fp32", 8, 23, largest=(2 - 2.0**-23) * 2.0**127, infinity=True, onnx=("FLOAT",), numpy="float32",
        torch="float32", words=r"fp32|float(?!64)", tensorrt=8, since=1, modes=(WHOLE,), by_default=(WHOLE,),
        graph="as exported",
    ),
    Format(
        "fp64", 11, 52, largest=(2 - 2.0**-52) * 2.0**1023, infinity=True, onnx=("DOUBLE",), numpy="float64",
        torch="float64", words=r"fp64|float64|double", since=1,
    ),
]  # fmt: skip
"""From the coarsest to the finest."""

# TensorRT's words for types that are no formats. They come before those of the table, which has the longer ones first.
_OTHER_TYPES = re.compile(r"\bint64|\bint32|uint8|bool")


@dataclass(frozen=True)
class Rule:
    """How a command's default limit follows from a format: so many times what one of its results may be off by.

    Attributes:
        times: how far a right model may take that error in what the command compares.
        most: the limit of formats so coarse that a larger one would say nothing.
    """

    times: float
    most: float

    def limit(self, *names: str) -> float:
        """Return the limit of the coarsest of formats, rounded to one digit."""
        return min(self.most, float(f"{self.times * coarsest(names).error:.0e}"))


STREAM = Rule(10, most=0.2)
"""`eval-stream`, `check-contract`: relative L2 of a tensor in a chunk, where the contract sets none."""
MATCH = Rule(100, most=0.2)
"""`bench`: relative L2 of a row, beyond which the yardstick is asked; `verify` of an engine without its model: the
least that is allowed, as what it rounds inside is not seen. YOLOX-Nano comes to 120 to 340 times."""
FAULT = Rule(400, most=0.75)
"""`bench`: relative L2 of a row that is wrong, if rounding does not explain more. A fault is off by about 1."""
LOGITS = Rule(400, most=0.3)
"""Language models: largest difference of a logit, as a share of the spread: the largest distance of a logit of the
reference from the mean of its position. Rounding in fp32 stays below 1e-4, fp16 of a small model at 1e-2; sequences
that were computed from a wrong mask came to 0.4 to 1.6."""


def names(wanted: Callable[[Format], object] = lambda _: True) -> tuple[str, ...]:
    """Return the names of the formats for which `wanted` is true, from the coarsest to the finest."""
    return tuple(one.name for one in FORMATS if wanted(one))


GRAPH_PRECISIONS = tuple(reversed(names(lambda one: one.graph)))
"""Those that a file can be made in, the finest first."""


def precisions(modes: Callable[[Format], Iterable[str]] = lambda one: one.modes) -> tuple[str, ...]:
    """Return what a model can be run in, from the finest to the coarsest: formats, each with its modes."""
    return tuple(one.made(mode) for one in reversed(FORMATS) for mode in modes(one))


def find(name: str) -> Format | None:
    """Return the format of a name; None where there is none."""
    return next((one for one in FORMATS if one.name == name), None)


def get(name: str) -> Format:
    """Return the format of a name. Raises UsageProblem where there is none."""
    if found := find(name):
        return found
    raise UsageProblem(f"There is no precision {name!r}; {did_you_mean(name, names())}")


def read(name: str) -> tuple[Format, str]:
    """Return format and mode of a precision such as "int8-mixed". Raises UsageProblem for any other text."""
    stem, _, mode = name.rpartition("-")
    if mode in (MIXED, WEIGHTS) and (found := find(stem)):
        return found, mode
    return get(name), WHOLE


def parse(text: str) -> tuple[Format, ...]:
    """Return the formats of a precision such as "int8+fp16" or "int4-weights", from the coarsest to the finest.

    Raises:
        UsageProblem: a part of it is no precision.
    """
    return ordered(read(part.strip())[0] for part in text.split("+"))


def known(text: str) -> tuple[Format, ...]:
    """Return the formats of a text such as "int8+fp16", without the parts that are none: a backend may name its own."""
    parts = (part.strip() for part in text.split("+"))
    return ordered(row for part in parts if (row := find(part) or find(part.rpartition("-")[0])))


def check_any(text: str) -> None:
    """Raise UsageProblem where no part of a text is a format."""
    if not known(text):
        get(text)


def data_type(description: str) -> str | None:
    """Return the precision in a runtime's words for a tensor, such as "Channel major FP16 format"; None if unknown."""
    text = description.lower()
    if other := _OTHER_TYPES.search(text):
        return other[0]
    return next((row.name for row in FORMATS if row.words and re.search(row.words, text)), None)


def ordered(formats: Iterable[Format]) -> tuple[Format, ...]:
    """Return formats from the coarsest to the finest, each once."""
    return tuple(sorted(dict.fromkeys(formats), key=FORMATS.index))


def coarsest(wanted: Iterable[str]) -> Format:
    """Return the coarsest of formats, whose error a result carries. Raises UsageProblem for an unknown one."""
    return min(map(get, wanted), key=FORMATS.index)
