"""What an engine's layers compute in, by what TensorRT's inspector tells of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from trt_workbench.onnxtools.precision import TYPES, Precision, Source, shares_of

Move = Literal["reformat", "cast", "quantize", "copy", "other"]
"""What a layer is for that computes nothing the model asks for."""

_ORIGINS: Mapping[str, Move] = {"REFORMAT": "reformat", "CAST": "cast", "QDQ": "quantize"}
_LAYER_TYPES: Mapping[str, Move] = {
    "cast": "cast",
    "constant": "other",
    "dequantize": "quantize",
    "devicetoshapehost": "copy",
    "noop": "other",
    "quantize": "quantize",
    "reformat": "reformat",
    "shapehosttodevice": "copy",
}
# TensorRT's words for data types, the longer before those that they contain.
_DATA_TYPES = (
    ("fp4", r"fp4|e2m1"),
    ("fp8", r"fp8|float8|e4m3"),
    ("bf16", r"bf16|bfloat16"),
    ("fp16", r"fp16|half|float16"),
    ("fp64", r"fp64|float64|double"),
    ("int64", r"\bint64"),
    ("int32", r"\bint32"),
    ("uint8", r"uint8"),
    ("int8", r"int8"),
    ("int4", r"int4"),
    ("bool", r"bool"),
    ("fp32", r"fp32|float"),
)
_FOUR_BITS = ("int4", "fp4")


def data_type(description: str) -> str | None:
    """Return the precision in a runtime's words for a tensor, such as "Channel major FP16 format"; None if unknown."""
    text = description.lower()
    return next((name for name, pattern in _DATA_TYPES if re.search(pattern, text)), None)


def tensor_types(tensors: Any) -> list[str]:
    """Return the precisions of a layer's `Inputs` or `Outputs`; TensorRT 8 and 10 tell format and type in one text."""
    found = []
    for tensor in tensors if isinstance(tensors, list) else []:
        if isinstance(tensor, dict):
            text = next((str(tensor[key]) for key in ("Datatype", "Format/Datatype", "Format") if key in tensor), "")
            found.append(data_type(text) or text or "?")
    return found


def move_of(layer: Mapping[str, Any]) -> Move | None:
    """Return what a layer moves or converts; None for one that may compute."""
    if move := _ORIGINS.get(str(layer.get("Origin", "")).upper()):
        return move
    if str(layer.get("Name", "")).startswith("Reformatting CopyNode"):
        return "reformat"
    return _LAYER_TYPES.get(str(layer.get("LayerType", "")).lower())


def layer_precision(layers: Sequence[Mapping[str, Any]], allowed: Sequence[str] = ()) -> Precision:
    """Return what an engine's layers compute in.

    Layers that only convert or move are left out, as are those of integers. A layer computes in the type of its
    weights, else in the narrowest type among its inputs; one of fp32 whose kernel multiplies in TF32 counts as that.
    A region that TensorRT compiles as a whole (`ForeignNode`) shows the types at its borders alone: where more than
    fp32 is allowed, it may have chosen any of them.

    Args:
        layers: as the inspector tells them; with names alone nothing can be said of what ran.
        allowed: precisions that the engine was built with, for the case that its layers do not tell.
    """
    choice = tuple(dict.fromkeys((*allowed, "fp32"))) if allowed else ()
    computing = [layer for layer in layers if move_of(layer) is None]
    shown = [layer for layer in computing if len(choice) < 2 or not _is_region(layer)]
    found = [name for layer in shown if (name := _computes_in(layer))]
    may_choose = choice if not found or len(shown) < len(computing) else ()
    source: Source = "engine layers" if found or not choice else "build options"
    return Precision(shares_of(found), "layers", len(found), source, may_choose=may_choose)


def _is_region(layer: Mapping[str, Any]) -> bool:
    return str(layer.get("Name", "")).startswith("{ForeignNode[") or layer.get("LayerType") == "Myelin"


def _computes_in(layer: Mapping[str, Any]) -> str | None:
    inputs = [name for name in tensor_types(layer.get("Inputs")) if name in TYPES]
    weights = layer.get("Weights")
    held = data_type(str(weights.get("Type", ""))) if isinstance(weights, dict) and weights.get("Count") else None
    candidates = [held] if held in TYPES else inputs or [n for n in tensor_types(layer.get("Outputs")) if n in TYPES]
    if held in _FOUR_BITS:
        candidates = [*candidates, *inputs]
    # weights of four bits are widened to meet a wider input
    wide = [name for name in candidates if name not in _FOUR_BITS] or candidates
    if not wide:
        return None
    name = min(wide, key=TYPES.index)
    return "tf32" if name == "fp32" and "tf32" in str(layer.get("TacticName", "")) else name
