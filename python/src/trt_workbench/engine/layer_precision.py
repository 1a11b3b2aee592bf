"""What an engine's layers compute in, by what TensorRT's inspector tells of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from trt_workbench.core.precision import FORMATS, Format, find, ordered
from trt_workbench.model.precision import Precision, Source, shares_of

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
# TensorRT's words for types that are no formats. They come before those of the table, which has the longer ones first.
_OTHER_TYPES = re.compile(r"\bint64|\bint32|uint8|bool")


def data_type(description: str) -> str | None:
    """Return the precision in a runtime's words for a tensor, such as "Channel major FP16 format"; None if unknown."""
    text = description.lower()
    if other := _OTHER_TYPES.search(text):
        return other[0]
    return next((row.name for row in FORMATS if row.words and re.search(row.words, text)), None)


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
    inputs = _formats(tensor_types(layer.get("Inputs")))
    weights = layer.get("Weights")
    weights_type = (
        data_type(str(weights.get("Type", ""))) if isinstance(weights, dict) and weights.get("Count") else None
    )
    held = _formats([weights_type or ""])
    candidates = held or inputs or _formats(tensor_types(layer.get("Outputs")))
    if any(_is_widened(row) for row in held):
        candidates = [*candidates, *inputs]
    wide = [row for row in candidates if not _is_widened(row)] or candidates
    if not wide:
        return None
    name = ordered(wide)[0].name
    return "tf32" if name == "fp32" and "tf32" in str(layer.get("TacticName", "")) else name


def _is_widened(row: Format) -> bool:
    """Whether weights of a format are widened to meet a wider input."""
    return row.bits <= 4


def _formats(names: Sequence[str]) -> list[Format]:
    return [row for row in map(find, names) if row]
