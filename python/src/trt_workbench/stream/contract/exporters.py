"""What exporters write into a model's names and metadata, besides the tensors: chunks, counters, sizes, languages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.front_ends import SILENCE
from trt_workbench.stream.contract.model_tensors import ModelTensors

_BUFFER = "buffer_"
# icefall, NeMo for sherpa-onnx, WeNet with its window and without, T-one, which takes samples: numbers of the metadata,
# what else it has to say, and the frames of a chunk and of those the new ones.
_CHUNKS: tuple[tuple[tuple[str, ...], Mapping[str, str | None], Callable[..., tuple[int, int]]], ...] = (
    (("T", "decode_chunk_len"), {}, lambda size, hop: (size, hop)),
    (("window_size", "chunk_shift"), {}, lambda size, hop: (size, hop)),
    (("decoding_window", "chunk_size", "subsampling_rate"), {}, lambda size, count, rate: (size, count * rate)),
    (
        ("chunk_size", "subsampling_factor", "right_context"),
        {"left_chunks": None},
        lambda count, rate, right: ((count - 1) * rate + right + 1, count * rate),
    ),
    (
        ("sample_rate", "frame_length_ms"),
        {"model_type": "t-one"},
        lambda rate, ms: (0, 0) if rate * ms % 1000 else (rate * ms // 1000,) * 2,
    ),
)
# Of WeNet's script and of sherpa-onnx's for the same encoders: cache, mask, and the key of the subsampling.
_WENET = (("att_cache", "att_mask", "subsampling_rate"), ("attn_cache", "attn_mask", "subsampling_factor"))
_PROCESSED = "processed_lens"


@dataclass(frozen=True)
class ChunkKeys:
    """What an exporter wrote of chunks.

    Attributes:
        frames: of a chunk.
        hop: new ones in each.
        keys: of the metadata that say it.
        right: frames at its end that the model looks ahead into.
        valid: first output frame that counts, and how many do; None where the model's other outputs say it.
    """

    frames: int
    hop: int
    keys: str
    right: int = 0
    valid: tuple[int, int] | None = None


def chunk_of(metadata: Mapping[str, str]) -> ChunkKeys | None:
    """Return the chunk that an exporter wrote into the metadata."""
    if buffered := _buffered(metadata):
        return buffered
    for keys, needed, sizes in _CHUNKS:
        numbers = [_number(metadata, key) for key in keys]
        if None not in numbers and all(key in metadata and one in (None, metadata[key]) for key, one in needed.items()):
            frames, hop = sizes(*numbers)
            return ChunkKeys(frames, hop, ", ".join(keys)) if 0 < hop <= frames else None
    return None


def _buffered(metadata: Mapping[str, str]) -> ChunkKeys | None:
    """Return the window of a buffered encoder: context on both sides of what counts."""
    keys = [f"{_BUFFER}{side}_feature_frames" for side in ("left", "chunk", "right")]
    left, hop, right = (_number(metadata, key) for key in keys)
    first, count = (_number(metadata, f"{_BUFFER}{side}_encoder_frames") for side in ("left", "chunk"))
    if left is None or right is None or not hop or first is None or not count:
        return None
    return ChunkKeys(left + hop + right, hop, ", ".join(keys), right, (first, count))


@dataclass(frozen=True)
class Counted:
    """What the caller of a model keeps.

    Attributes:
        roles: keys of the inputs' entries in a contract.
        sizes: of inputs, by axis; exporters give several of them one name.
        note: what was concluded.
    """

    roles: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, Mapping[int, int]]
    note: str


def counted_of(model: ModelTensors) -> Counted | None:
    """Return what the caller keeps of WeNet's encoders and of icefall's conformer; None of another model."""
    return _processed(model) if _PROCESSED in model.inputs else _cached(model)


def _processed(model: ModelTensors) -> Counted | None:
    """Return the counter of a conformer whose cache does not say how much of it holds something."""
    keys = ("decode_chunk_len", "chunk_size")
    hop, count = (_number(model.metadata, key) for key in keys)
    if not hop or not count or hop % count or f"new_{_PROCESSED}" in model.outputs:
        return None
    role = {"role": "counter", "value": f"(start - left_context) // {hop // count}"}
    return Counted({_PROCESSED: role}, {}, f"Counted by the caller: {_PROCESSED} ({_listed(keys)})")


def _cached(model: ModelTensors) -> Counted | None:
    """Return what WeNet's caller keeps for an encoder with a cache of so many chunks.

    The cache has one size from the first chunk on, and the mask says how much of it holds something.
    """
    for cache, mask, rate_key in _WENET:
        keys = ("chunk_size", "left_chunks", rate_key)
        chunk, left, rate = (_number(model.metadata, key) for key in keys)
        shapes = [model.inputs[name].shape or () for name in (cache, mask) if name in model.inputs]
        if not chunk or not left or not rate or [len(shape) for shape in shapes] != [4, 3]:
            continue
        if not {"offset", "required_cache_size"} <= model.inputs.keys():
            continue
        held = chunk * left
        signals = [name for name, one in model.inputs.items() if len(one.shape or ()) == 3 and name != mask]
        exported = chunk_of(model.metadata)
        # the cache has no place for several streams, and the mask none for other chunks
        window = {0: 1, 1: exported.frames} if exported else {0: 1}
        return Counted(
            {
                "offset": {"role": "counter", "value": f"{held} + start // {rate}"},
                "required_cache_size": {"role": "constant", "value": held},
                mask: {"role": "mask", "axis": 2, "valid": f"min(start // {rate}, {held}) + {chunk}"},
            },
            {cache: {2: held}, mask: {2: held + chunk}, **dict.fromkeys(signals, window)},
            f"Counted by the caller: offset, required_cache_size and {mask} ({_listed(keys)})",
        )
    return None


def with_sizes(model: ModelTensors, sizes: Mapping[str, Mapping[int, int | str]]) -> ModelTensors:
    """Return tensors whose inputs have other sizes, by name and axis."""

    def sized(one: ModelTensor) -> ModelTensor:
        own = sizes.get(one.name, {})
        return replace(one, shape=tuple(own.get(axis, dim) for axis, dim in enumerate(one.shape or ()))) if own else one

    return replace(model, inputs={name: sized(one) for name, one in model.inputs.items()})


def with_own_names(model: ModelTensors) -> ModelTensors:
    """Return tensors whose inputs share no names where their caller gives them several sizes: WeNet's are all T."""
    counted = counted_of(model)
    return with_sizes(
        model,
        {
            name: {axis: f"{name}_{axis}" for axis in axes if isinstance((model.inputs[name].shape or ())[axis], str)}
            for name, axes in (counted.sizes if counted else {}).items()
        },
    )


def _listed(keys: Iterable[str]) -> str:
    return f"{', '.join(keys)} of the model's metadata"


def _number(metadata: Mapping[str, str], key: str) -> int | None:
    text = metadata.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


_BATCH = "batch"
# NeMo names each dynamic dimension after its tensor.
_NEMO_BATCH = re.compile(r".+_dynamic_axes_1")
_MOST_VALUES = 4096


def same_batch(model: ModelTensors) -> set[str]:
    """Return the names of first dimensions that NeMo gives each tensor, and which are all the streams'."""
    shapes = [one.shape or () for one in (*model.inputs.values(), *model.outputs.values())]
    return {shape[0] for shape in shapes if shape and isinstance(shape[0], str) and _NEMO_BATCH.fullmatch(shape[0])}


def with_one_batch(model: ModelTensors) -> ModelTensors:
    """Return tensors whose first dimension has one name where NeMo gave each its own."""
    names = same_batch(model)

    def named(one: ModelTensor) -> ModelTensor:
        return replace(one, shape=(_BATCH, *one.shape[1:])) if one.shape and one.shape[0] in names else one

    inputs, outputs = ({name: named(one) for name, one in many.items()} for many in (model.inputs, model.outputs))
    return replace(model, inputs=inputs, outputs=outputs)


def cache_sizes(model: ModelTensors) -> dict[str, int]:
    """Return sizes by what a model calls them, of metadata such as `cache_last_channel_dim2`."""
    places = (
        (dim, f"{name}_dim{axis}") for name, one in model.inputs.items() for axis, dim in enumerate(one.shape or ())
    )
    found = ((dim, _number(model.metadata, key)) for dim, key in places if isinstance(dim, str))
    return {dim: size for dim, size in found if size}


def named_constants(model: ModelTensors) -> dict[str, dict[str, Any]]:
    """Return the roles of inputs whose values have names in the metadata, such as languages: `prompt_dictionary`."""
    found = {}
    for key, stem in ((key, key.removesuffix("_dictionary")) for key in model.metadata if key.endswith("_dictionary")):
        names = [
            name
            for name, one in model.inputs.items()
            if name in (stem, f"{stem}_index", f"{stem}_id")
            and (len(one.shape or ()) <= 1 and one.dtype in ("int64", "int32"))
        ]
        values = _values(model.metadata[key])
        if len(names) == 1 and values:
            usual = "auto" if "auto" in values else min(values, key=lambda name: values[name])
            found[names[0]] = {"role": "constant", "value": usual, "values": values}
    return found


def _values(text: str) -> dict[str, int]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict) or len(said) > _MOST_VALUES:
        return {}
    return {str(name): value for name, value in said.items() if type(value) is int and abs(value) < 2**31}


def front_end_of(metadata: Mapping[str, str], features: int) -> tuple[str, dict[str, Any]] | None:
    """Return what frames are made of, and what chunking says of it: an exporter's front end, or samples.

    Args:
        metadata: of the model.
        features: of a frame; 1 of a sample.
    """
    if features == 1 and (rate := _number(metadata, "sample_rate")):
        return f"samples at {rate / 1000:g} kHz", {"sample_rate": rate, "frame_seconds": 1 / rate}
    author = metadata.get("model_author")
    wenet = author == "wenet" or "decoding_window" in metadata
    kind = "wenet" if wenet else "kaldi" if author == "k2-fsa" else "nemo" if "normalize_type" in metadata else None
    if kind is None:
        return None
    # features that are normalised have the mean 0
    silence = {} if metadata.get("normalize_type") else {"left_fill": round(SILENCE[kind], 4)}
    words = f"{kind}, every 10 ms at 16 kHz" + (f", padded with silence ({silence['left_fill']})" if silence else "")
    return words, {"features": kind, "sample_rate": 16_000, "frame_seconds": 0.01, **silence}


def subsampling(metadata: Mapping[str, str]) -> int | None:
    """Return how many frames make an output frame, by NeMo's metadata."""
    return _number(metadata, "subsampling_factor")


def normalization(metadata: Mapping[str, str], chunk: ChunkKeys | None, *, has_state: bool) -> str | None:
    """Return over what frames an exporter's front end normalises each feature; None where it does not."""
    if metadata.get("normalize_type") != "per_feature" or has_state:
        return None
    return "window" if chunk else "valid"
