"""What exporters of streaming encoders write into a model's metadata: chunks, and what WeNet's caller counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trt_workbench.stream.contract.model_tensors import ModelTensors

# icefall, NeMo for sherpa-onnx, WeNet: frames of a chunk, and what the number of new ones is a product of.
_CHUNK_KEYS = (
    ("T", ("decode_chunk_len",)),
    ("window_size", ("chunk_shift",)),
    ("decoding_window", ("chunk_size", "subsampling_rate")),
)


@dataclass(frozen=True)
class ChunkKeys:
    """Frames of a chunk, new ones in each, and the keys of the metadata that say it."""

    frames: int
    hop: int
    keys: str


def chunk_of(metadata: Mapping[str, str]) -> ChunkKeys | None:
    """Return the chunk that an exporter wrote into the metadata."""
    for size, factors in _CHUNK_KEYS:
        numbers = [_number(metadata, key) for key in (size, *factors)]
        if None not in numbers:
            frames, *others = (number or 0 for number in numbers)
            hop = math.prod(others)
            return ChunkKeys(frames, hop, ", ".join((size, *factors))) if 0 < hop <= frames else None
    return None


@dataclass(frozen=True)
class Counted:
    """What the caller of a model keeps.

    Attributes:
        roles: keys of the inputs' entries in a contract.
        sizes: by what the model calls a dimension.
        note: what was concluded.
    """

    roles: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, int]
    note: str


def counted_of(model: ModelTensors) -> Counted | None:
    """Return what WeNet's caller keeps for an encoder with a cache of so many chunks; None of another model.

    The cache has one size from the first chunk on, and the mask says how much of it holds something.
    """
    keys = ("chunk_size", "left_chunks", "subsampling_rate")
    numbers = [_number(model.metadata, key) for key in keys]
    mask, cache = model.inputs.get("att_mask"), model.inputs.get("att_cache")
    if None in numbers or 0 in numbers or not {"offset", "required_cache_size"} <= model.inputs.keys():
        return None
    if mask is None or cache is None or len(mask.shape or ()) != 3 or len(cache.shape or ()) != 4:
        return None
    chunk, left, rate = (number or 0 for number in numbers)
    held = chunk * left
    sizes = {(mask.shape or ())[2]: held + chunk, (cache.shape or ())[2]: held}
    return Counted(
        {
            "offset": {"role": "counter", "value": f"{held} + start // {rate}"},
            "required_cache_size": {"role": "constant", "value": held},
            "att_mask": {"role": "mask", "axis": 2, "valid": f"min(start // {rate}, {held}) + {chunk}"},
        },
        {name: size for name, size in sizes.items() if isinstance(name, str)},
        f"Counted by the caller: offset, required_cache_size and att_mask ({', '.join(keys)} of the model's metadata)",
    )


def _number(metadata: Mapping[str, str], key: str) -> int | None:
    text = metadata.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
