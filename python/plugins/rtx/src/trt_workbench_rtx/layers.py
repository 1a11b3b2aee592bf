"""The layers of an engine that TensorRT-RTX compiled, and what they compute in.

Its engine inspector needs a GPU. The verbose log of a build with detailed profiling lists the same layers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

from trt_workbench.core.documents import Strict
from trt_workbench.core.precision import Format, data_type, find, ordered
from trt_workbench.model.precision import Precision, shares_of

_LAYERS = "Layers:\n"
_TENSOR = re.compile(r"\{ Name: .*?, Dimensions: \[([-\d,]*)\].*?Datatype: (\w+)", re.DOTALL)
_LAYER = re.compile(
    r"Name: (?P<name>.*?), LayerType: (?P<kind>[^,]*), Inputs: \[(?P<inputs>.*?)\], Constants: \[(?P<constants>.*?)\], "
    r"Outputs: \[(?P<outputs>.*?)\], TacticName: (?P<kernel>.*?), StreamId: .*?Metadata:(?P<nodes>.*)"
)
_NODE = re.compile(r"\[ONNX Layer: (.*?)\]")
# Layers that multiply and add: kernels of cuBLAS's and cuDNN's kind, and fusions that the card's own compiler makes.
_MULTIPLY = frozenset({"gemm", "correlation", "runtime_fusion", "fmha", "deconv"})


class BuiltTensor(Strict):
    """Type and shape of what a layer reads or writes; -1 for a dimension known at run time only."""

    type: str
    shape: tuple[int, ...]


class BuiltLayer(Strict):
    """A layer of an engine.

    Attributes:
        name: TensorRT-RTX's own.
        kind: such as "gemm" or "kgen".
        kernel: its name, where one is chosen already; the rest is compiled on the card.
        nodes: ONNX nodes that it computes.
        inputs: what it reads.
        constants: weights among them.
        outputs: what it writes.
    """

    name: str
    kind: str
    kernel: str
    nodes: tuple[str, ...]
    inputs: tuple[BuiltTensor, ...]
    constants: tuple[BuiltTensor, ...]
    outputs: tuple[BuiltTensor, ...]


def built_layers(messages: Iterable[str]) -> tuple[BuiltLayer, ...]:
    """Return the layers that a build's messages list; none where they do not."""
    text = next((message for message in messages if message.startswith(_LAYERS)), "")
    found = (_LAYER.fullmatch(line) for line in text.removeprefix(_LAYERS).split("\n"))
    return tuple(
        BuiltLayer(
            name=one["name"],
            kind=one["kind"],
            kernel=one["kernel"],
            nodes=tuple(_NODE.findall(one["nodes"])),
            inputs=_tensors(one["inputs"]),
            constants=_tensors(one["constants"]),
            outputs=_tensors(one["outputs"]),
        )
        for one in found
        if one
    )


def built_precision(layers: Iterable[BuiltLayer]) -> Precision:
    """Return what an engine computes in.

    Layers that multiply count, each with the wider type of what it multiplies, as it widens the other inside. The
    weights' own types are counted separately, by elements.
    """
    computed, held = [], Counter[str]()
    for layer in layers:
        if layer.kind not in _MULTIPLY:
            continue
        types = [row for one in layer.inputs if (row := find(one.type))]
        weights = _weights(layer)
        factors = [*types[:1], weights[1]] if weights else types[:2]
        if types:
            computed.append(ordered(factors)[-1].name)
        if weights:
            held[weights[1].name] += weights[0]
    return Precision(shares_of(computed), "layers that multiply", len(computed), "engine layers", shares_of(held))


def _weights(layer: BuiltLayer) -> tuple[int, Format] | None:
    """Return how many elements a layer's weights have, and their format.

    They are the largest of its constants; scales that were widened to the same size are of a wider type.
    """
    known = [(math.prod(one.shape), row) for one in layer.constants if (row := find(one.type))]
    size = max((size for size, _ in known), default=0)
    return (size, ordered(row for count, row in known if count == size)[0]) if size > 1 else None


def _tensors(text: str) -> tuple[BuiltTensor, ...]:
    return tuple(
        BuiltTensor(type=_type(kind), shape=tuple(int(dim) for dim in dims.split(",") if dim))
        for dims, kind in _TENSOR.findall(text)
    )


def _type(word: str) -> str:
    """Return the name of a type; the scales of MXFP8 are no fp8, although they are called FP8UE8M0."""
    lower = word.lower()
    return "e8m0" if lower.endswith("e8m0") else data_type(lower) or lower
