"""Names of ONNX nodes in what TensorRT tells of a layer.

The parser records them in the layer's metadata as `[ONNX Layer: NAME]`, apart by control characters. Where an engine
tells layer names only, the names are read from these: fused layers join theirs by `+`, `||` or inside `PWN(…)`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_METADATA = re.compile(r"\[ONNX Layer: (.*)\]", re.DOTALL)
_BETWEEN_ENTRIES = re.compile(r"[\x1e\x1f]|(?<=\])\s*(?=\[ONNX Layer: )")
_REFORMAT = re.compile(
    r"Reformatting CopyNode for (?:Input|Output|Network Input|Network Output)(?: Tensor \d+ to)? (.+)"
)
_BETWEEN_NAMES = re.compile(r" \+ | \|\| |\.\.\.|[(){}\[\],]")
_SUFFIX = re.compile(r"(?:_clone_\d+| copy| \d+)$")
# Words that TensorRT's own names are made of.
_WORDS = frozenset({"PWN", "ForeignNode", "Unnamed Layer*", "HostToDeviceCopy", "ShapeHostToDeviceCopy"})


def names_in_metadata(metadata: str) -> list[str]:
    """Return the names of the nodes in a layer's metadata, each once, in order."""
    found = [_METADATA.fullmatch(part.strip()) for part in _BETWEEN_ENTRIES.split(metadata)]
    return list(dict.fromkeys(match.group(1) for match in found if match))


def served_layer(layer: str) -> str | None:
    """Return the layer that a reformat layer works for; None for any other layer."""
    match = _REFORMAT.fullmatch(layer)
    return match.group(1) if match else None


def names_in_layer(layer: str, known: Collection[str] = ()) -> list[str]:
    """Return the names of nodes in the name of a layer, each once, in order.

    Args:
        layer: TensorRT's name of it.
        known: names of the model's nodes, where the model is at hand; then only these are returned.

    Returns:
        The names; none for a layer of TensorRT's own. Of a region (`ForeignNode[first...last]`) only the two ends.
    """
    if layer in known:
        return [layer]
    if served_layer(layer) or layer.startswith("__myl"):
        return []
    parts = [part.strip() for part in _BETWEEN_NAMES.split(layer)]
    names = [part if part in known else _SUFFIX.sub("", part) for part in parts]
    if known:
        return list(dict.fromkeys(name for name in names if name in known))
    if layer.startswith("(Unnamed Layer*"):
        return []
    return list(dict.fromkeys(name for name in names if name and " " not in name and name not in _WORDS))
