"""The ways around a wrong engine: what is built instead, in the order of what it costs."""

from __future__ import annotations

import dataclasses
import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from trt_workbench.engine import native
from trt_workbench.model.attention_pattern import AttentionIndex
from trt_workbench.model.fences import fences
from trt_workbench.model.sanitize.attention import candidates
from trt_workbench.model.sanitize.sanitize import MOST_WEIGHTS
from trt_workbench.model.weights import weight_bytes
from trt_workbench.verify.opening import VerifyRequest

_LEVELS = (0, 3, 5)
_TYPED = ("Add", "Div", "MatMul", "Mul", "Softmax")  # of which the parser makes a layer with the node's name


@dataclass(frozen=True)
class Workaround:
    """One thing to try.

    Attributes:
        name: for people and records.
        model: to build instead; None for the model itself.
        rewritten: whether that model computes the same in other nodes, which is checked before it is built.
        options: of the backend, beside those that were asked for.
    """

    name: str
    model: onnx.ModelProto | None = None
    rewritten: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def ways(
    request: VerifyRequest, model: onnx.ModelProto, nodes: Sequence[str], rows: Sequence[int]
) -> Iterator[Workaround]:
    """Yield the ways that fit, the cheapest first; of other backends than `trt` those in the model alone.

    The graph of a model with more than 2 GB of weights, whose shapes protobuf cannot carry, is left as it is.

    Args:
        request: that is wrong.
        model: of the request.
        nodes: names of nodes of the place where it is wrong; none where that is not known.
        rows: sizes of batches to split larger ones into.
    """
    is_large = weight_bytes(model) > MOST_WEIGHTS
    if not is_large:
        for name, rewritten in candidates(model):
            yield Workaround(name, rewritten, rewritten=True)
    if not request.runs_plans:
        return
    if not is_large:
        for name, fenced in fences(model, nodes):
            yield Workaround(name, fenced)
        yield from _layer_types(request, model, nodes)
    off = [f"-{name}" for name in sorted(native.require("option_names")()["tactic_sources"])]
    yield Workaround("tactic-sources-off", options={"tactic_sources": off})
    for level in _LEVELS:
        if request.options.get("optimization_level", 3) != level:  # 3 is TensorRT's own
            yield Workaround(f"optimization-level-{level}", options={"optimization_level": level})
    for size in rows:
        yield Workaround(f"rows-{size}", options={"rows": size})


def applied(request: VerifyRequest, way: Workaround, target: Any) -> VerifyRequest:
    """Return the request for a way whose model was written to `target`."""
    options = {**request.options, **way.options}
    return dataclasses.replace(request, target=target, model=request.model or request.target, options=options)


def _layer_types(request: VerifyRequest, model: onnx.ModelProto, nodes: Sequence[str]) -> Iterator[Workaround]:
    """Yield the layers of the place, else of every attention, in fp32, where another precision is asked for."""
    if request.precision == "fp32":
        return
    attentions = [node for place in AttentionIndex(model).found for node in place.nodes]
    chosen = [node for node in model.graph.node if node.name in nodes] or attentions
    names = [node.name for node in chosen if node.name and node.op_type in _TYPED]
    if names:
        types = dict.fromkeys(map(glob.escape, names), "fp32")
        yield Workaround("layers-in-fp32", options={"precision_constraints": "obey", "layer_precisions": types})
