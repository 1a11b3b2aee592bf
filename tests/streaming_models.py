"""Small streaming models with their contracts: what `check-contract` has to pass, and faults planted into them."""

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tests.onnx_text import write_onnx

Document = dict[str, Any]
F, D, C, K, H = 3, 4, 6, 3, 5


def _weights(**shapes: tuple[int, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: (rng.standard_normal(shape) * 0.5).astype(np.float32) for name, shape in shapes.items()}


def _integers(**values: Any) -> dict[str, Any]:
    return {name: np.asarray(value, np.int64) for name, value in values.items()}


# Frames of a strided convolution, attention over them and the valid end of a cache of earlier ones.
_ATTENTION = """
g (float[B,3,T] x, int64[B] length, float[B,6,4] cache, int64[B] cache_len)
=> (float[B,4,N] encoded, int64[B] encoded_len, float[B,6,4] cache_next, int64[B] cache_len_next) {
    y = Conv <strides = [2]> (x, w)
    new = Transpose <perm = [0, 2, 1]> (y)
    less = Sub(length, one)
    encoded_len = Div(less, two)
    keys = Concat <axis = 1> (cache, new)
    shape = Shape(keys)
    count = Gather(shape, one)
    place = Range(zero, count, one)
    places = Unsqueeze(place, first)
    first_valid = Sub(capacity, cache_len)
    low = Unsqueeze(first_valid, last)
    end = Add(encoded_len, capacity)
    high = Unsqueeze(end, last)
    after = GreaterOrEqual(places, low)
    before = Less(places, high)
    valid = And(after, before)
    mask = Unsqueeze(valid, middle)
    turned = Transpose <perm = [0, 2, 1]> (keys)
    scores = MatMul(new, turned)
    masked = Where(mask, scores, little)
    weights = Softmax <axis = -1> (masked)
    context = MatMul(weights, keys)
    both = Add(new, context)
    encoded = Transpose <perm = [0, 2, 1]> (both)
    kept = Range(zero, capacity, one)
    kept_row = Unsqueeze(kept, first)
    step = Unsqueeze(encoded_len, last)
    moved = Add(kept_row, step)
    moved_in = Unsqueeze(moved, last)
    wide = Expand(moved_in, width)
    cache_next = GatherElements <axis = 1> (keys, wide)
    longer = Add(cache_len, encoded_len)
    cache_len_next = Min(longer, capacity)
}"""

_ATTENTION_CONTRACT: Document = {
    "schema_version": 1,
    "name": "attention over a cache with a length",
    "symbols": {"B": None, "T": None, "N": "(T - 1) / 2", "F": F, "D": D, "C": C},
    "inputs": {
        "x": {"dtype": "float32", "shape": ["B", "F", "T"], "batch_axis": 0, "role": "signal", "time_axis": 2},
        "length": {"dtype": "int64", "shape": ["B"], "role": "length", "of": "x", "range": [2, "T"]},
        "cache": {"dtype": "float32", "shape": ["B", "C", "D"], "role": "state"},
        "cache_len": {"dtype": "int64", "shape": ["B"], "role": "state", "range": [0, "C"]},
    },
    "outputs": {
        "encoded": {"dtype": "float32", "shape": ["B", "D", "N"], "valid": {"axis": 2, "by": "encoded_len"}},
        "encoded_len": {"dtype": "int64", "shape": ["B"]},
        "cache_next": {"dtype": "float32", "shape": ["B", "C", "D"]},
        "cache_len_next": {"dtype": "int64", "shape": ["B"]},
    },
    "state": [
        {
            "output": "cache_next",
            "input": "cache",
            "shift": {"axis": 1, "valid_at": "end", "by": "cache_len", "moves": "N"},
        },
        {"output": "cache_len_next", "input": "cache_len"},
    ],
    "chunking": {
        "first": {"size": 5, "left_context": 1},
        "later": {"size": 9, "left_context": 1},
        "memory": {"kind": "finite", "chunks": "ceil(C / N)"},
    },
    "profiles": [
        {"name": "A", "symbols": {"B": [1, 1, 1], "T": [5, 5, 5]}},
        {"name": "B", "symbols": {"B": [1, 2, 3], "T": [3, 9, 15]}},
    ],
    "invariants": [
        {"id": "valid_out", "check": "encoded_len == (length - 1) // 2"},
        {"id": "len_out", "check": "cache_len_next == min(cache_len + encoded_len, C)"},
        {"id": "full", "check": "encoded_len == N", "when": "length == T"},
        {"id": "hop", "check": "N * 2 == hop"},
        {"id": "no_loss", "check": "total(encoded_len) == total(new) // 2", "why": "a frame is lost"},
    ],
}


def attention(folder: Path, *edits: tuple[str, str], name: str = "attention") -> Path:
    """Write the model with an attention cache; `edits` replace lines of its text."""
    weights = _weights(w=(D, F, 3)) | _integers(
        one=1, two=2, zero=0, capacity=C, first=[0], last=[1], middle=[1], width=[1, 1, D]
    )
    weights |= {"last": np.asarray([-1], np.int64), "little": np.asarray(-1e9, np.float32)}
    return write_onnx(folder / f"{name}.onnx", _edited(_ATTENTION, edits), weights)


# A causal convolution over the end of the chunk before: layers first, as [1, B, F, K - 1].
_CONVOLUTION = """
g (float[B,3,T] x, float[1,B,3,2] past) => (float[B,4,T] y, float[1,B,3,2] present) {
    held = Squeeze(past, first)
    whole = Concat <axis = 2> (held, x)
    y = Conv(whole, w)
    end = Slice(whole, start, stop, axis)
    present = Unsqueeze(end, first)
}"""

_CONVOLUTION_CONTRACT: Document = {
    "schema_version": 1,
    "name": "causal convolution, layers first",
    "symbols": {"B": None, "T": None, "F": F, "D": D, "K": 2},
    "inputs": {
        "x": {"dtype": "float32", "shape": ["B", "F", "T"], "batch_axis": 0, "role": "signal", "time_axis": 2},
        "past": {"dtype": "float32", "shape": [1, "B", "F", "K"], "batch_axis": 1, "role": "state"},
    },
    "outputs": {
        "y": {"dtype": "float32", "shape": ["B", "D", "T"]},
        "present": {"dtype": "float32", "shape": [1, "B", "F", "K"], "batch_axis": 1},
    },
    "state": [{"output": "present", "input": "past", "init": 0, "shift": {"axis": 3, "moves": "T"}}],
    "chunking": {
        "first": {"size": 4},
        "later": {"size": 4},
        "memory": {"kind": "finite", "chunks": "ceil(K / T)"},
    },
    "profiles": [{"name": "all", "symbols": {"B": [1, 1, 4], "T": [1, 4, 8]}}],
}


def convolution(folder: Path, *edits: tuple[str, str], name: str = "convolution") -> Path:
    """Write the model with a convolution's cache."""
    weights = _weights(w=(D, F, K)) | _integers(first=[0], start=[-2], stop=[2**31], axis=[2])
    return write_onnx(folder / f"{name}.onnx", _edited(_CONVOLUTION, edits), weights)


# An LSTM, whose two states lie as [1, B, H].
_LSTM = """
g (float[B,T,3] x, int64[B] lengths, float[1,B,5] h, float[1,B,5] c)
=> (float[B,T,5] y, float[1,B,5] hn, float[1,B,5] cn) {
    by_time = Transpose <perm = [1, 0, 2]> (x)
    counts = Cast <to = 6> (lengths)
    rows, hn, cn = LSTM <hidden_size = 5> (by_time, wi, wr, bias, counts, h, c)
    inner = Squeeze(rows, axis)
    y = Transpose <perm = [1, 0, 2]> (inner)
}"""

_LSTM_CONTRACT: Document = {
    "schema_version": 1,
    "name": "LSTM",
    "symbols": {"B": None, "T": None, "F": F, "H": H},
    "inputs": {
        "x": {"dtype": "float32", "shape": ["B", "T", "F"], "batch_axis": 0, "role": "signal", "time_axis": 1},
        "lengths": {"dtype": "int64", "shape": ["B"], "role": "length", "of": "x", "range": [1, "T"]},
        "h": {"dtype": "float32", "shape": [1, "B", "H"], "role": "state"},
        "c": {"dtype": "float32", "shape": [1, "B", "H"], "role": "state"},
    },
    "outputs": {
        "y": {"dtype": "float32", "shape": ["B", "T", "H"], "valid": {"axis": 1, "by": "lengths"}},
        "hn": {"dtype": "float32", "shape": [1, "B", "H"]},
        "cn": {"dtype": "float32", "shape": [1, "B", "H"]},
    },
    "state": [{"output": "hn", "input": "h"}, {"output": "cn", "input": "c"}],
    "chunking": {"first": {"size": 4}, "later": {"size": 4}, "memory": {"kind": "infinite"}},
    "profiles": [{"name": "all", "symbols": {"B": [1, 1, 3], "T": [1, 4, 6]}}],
}


def lstm(folder: Path, *edits: tuple[str, str], name: str = "lstm") -> Path:
    """Write the LSTM."""
    weights = _weights(wi=(1, 4 * H, F), wr=(1, 4 * H, H), bias=(1, 8 * H)) | _integers(axis=[1])
    return write_onnx(folder / f"{name}.onnx", _edited(_LSTM, edits), weights)


# The stream of a known checklist: T = 592, then 584; the attention cache has the length 0 for ever, so nothing is read
# of it; one frame comes out of a chunk. Layers first.
_DEGENERATE = """
g (float[B,3,T] audio_signal, int64[B] length, float[2,B,6,4] cache_last_channel, float[2,B,4,2] cache_last_time,
   int64[B] cache_last_channel_len)
=> (float[B,4,1] encoded, int64[B] encoded_lengths, float[2,B,6,4] cache_last_channel_next,
    float[2,B,4,2] cache_last_time_next, int64[B] cache_last_channel_len_next) {
    mean = ReduceMean <axes = [2], keepdims = 1> (audio_signal)
    turned = Transpose <perm = [0, 2, 1]> (mean)
    frame = MatMul(turned, w)
    column = Transpose <perm = [0, 2, 1]> (frame)
    position = Range(zero, capacity, one)
    row = Unsqueeze(position, ahead)
    first_valid = Sub(capacity, cache_last_channel_len)
    low = Unsqueeze(first_valid, behind)
    read = GreaterOrEqual(row, low)
    mask = Cast <to = 1> (read)
    mask_wide = Unsqueeze(mask, behind)
    masked = Mul(cache_last_channel, mask_wide)
    context = ReduceSum <keepdims = 0> (masked, channel_axes)
    context_column = Unsqueeze(context, behind)
    remembered = ReduceSum <keepdims = 0> (cache_last_time, time_axes)
    remembered_column = Unsqueeze(remembered, behind)
    some = Add(column, context_column)
    sum = Add(some, remembered_column)
    encoded = Tanh(sum)
    zeros = Mul(length, zero)
    encoded_lengths = Add(zeros, one)
    layer = Unsqueeze(frame, ahead)
    layers = Concat <axis = 0> (layer, layer)
    cache = Concat <axis = 2> (cache_last_channel, layers)
    cache_last_channel_next = Slice(cache, from, to, channel_axis)
    frames = Unsqueeze(column, ahead)
    frames_twice = Concat <axis = 0> (frames, frames)
    time = Concat <axis = 3> (cache_last_time, frames_twice)
    cache_last_time_next = Slice(time, from, to, last_axis)
    cache_last_channel_len_next = Identity(cache_last_channel_len)
}"""

_DEGENERATE_CONTRACT: Document = {
    "schema_version": 1,
    "name": "degenerate stream: T = 592, then 584, one frame a chunk, attention cache never read",
    "symbols": {"B": 1, "T": None, "F": F, "L": 2, "C": C, "D": D, "K": 2},
    "inputs": {
        "audio_signal": {
            "dtype": "float32", "shape": ["B", "F", "T"], "batch_axis": 0, "role": "signal", "time_axis": 2
        },
        "length": {"dtype": "int64", "shape": ["B"], "batch_axis": 0, "role": "length", "of": "audio_signal",
                   "range": ["T", "T"]},
        "cache_last_channel": {"dtype": "float32", "shape": ["L", "B", "C", "D"], "batch_axis": 1, "role": "state"},
        "cache_last_time": {"dtype": "float32", "shape": ["L", "B", "D", "K"], "batch_axis": 1, "role": "state"},
        "cache_last_channel_len": {"dtype": "int64", "shape": ["B"], "batch_axis": 0, "role": "state"},
    },
    "outputs": {
        "encoded": {"dtype": "float32", "shape": ["B", "D", 1]},
        "encoded_lengths": {"dtype": "int64", "shape": ["B"]},
        "cache_last_channel_next": {"dtype": "float32", "shape": ["L", "B", "C", "D"], "batch_axis": 1},
        "cache_last_time_next": {"dtype": "float32", "shape": ["L", "B", "D", "K"], "batch_axis": 1},
        "cache_last_channel_len_next": {"dtype": "int64", "shape": ["B"]},
    },
    "state": [
        {
            "output": "cache_last_channel_next",
            "input": "cache_last_channel",
            "shift": {"axis": 2, "by": "cache_last_channel_len", "moves": 1},
            "dead": True,
        },
        {"output": "cache_last_time_next", "input": "cache_last_time", "shift": {"axis": 3, "moves": 1}},
        {"output": "cache_last_channel_len_next", "input": "cache_last_channel_len", "dead": True},
    ],
    "chunking": {"first": {"size": 592}, "later": {"size": 584}},
    "profiles": [
        {"name": "A", "symbols": {"T": [592, 592, 592]}},
        {"name": "B", "symbols": {"T": [584, 584, 584]}},
    ],
    "invariants": [
        {"id": "one_frame", "check": "encoded_lengths == 1"},
        {"id": "len_stays", "check": "cache_last_channel_len_next == 0"},
        {"id": "no_loss", "check": "total(encoded_lengths) == total(1)"},
    ],
}  # fmt: skip


def degenerate(folder: Path, *edits: tuple[str, str], name: str = "degenerate") -> Path:
    """Write the model of the degenerate stream."""
    weights = _weights(w=(F, D)) | _integers(
        one=1, zero=0, capacity=C, ahead=[0], behind=[-1], channel_axes=[0, 2], time_axes=[0, 3]
    )
    weights |= _integers(**{"from": [1], "to": [2**31], "channel_axis": [2], "last_axis": [3]})
    return write_onnx(folder / f"{name}.onnx", _edited(_DEGENERATE, edits), weights)


# A cache that nothing ever leaves, so that it does not keep its shape.
_GROWING = """
g (float[B,T,3] x, float[B,P,3] cache) => (float[B,T,3] y, float[B,Q,3] cache_next) {
    cache_next = Concat <axis = 1> (cache, x)
    mean = ReduceMean <axes = [1], keepdims = 1> (cache_next)
    y = Add(x, mean)
}"""

GROWING_CONTRACT: Document = {
    "schema_version": 1,
    "name": "a cache that grows",
    "symbols": {"B": None, "T": None, "P": None, "F": F},
    "inputs": {
        "x": {"dtype": "float32", "shape": ["B", "T", "F"], "batch_axis": 0, "role": "signal", "time_axis": 1},
        "cache": {"dtype": "float32", "shape": ["B", "P", "F"], "role": "state"},
    },
    "outputs": {
        "y": {"dtype": "float32", "shape": ["B", "T", "F"]},
        "cache_next": {"dtype": "float32", "shape": ["B", "P", "F"]},
    },
    "state": [{"output": "cache_next", "input": "cache"}],
    "chunking": {"first": {"size": 4}, "later": {"size": 4}},
    "profiles": [{"name": "all", "symbols": {"B": [1, 1, 3], "T": [4, 4, 4], "P": [1, 8, 64]}}],
}


def growing(folder: Path) -> Path:
    """Write the model whose cache grows."""
    return write_onnx(folder / "growing.onnx", _GROWING, {})


# What WeNet's encoders ask of their caller: how many frames went by, and which of the cache's entries hold some. Each
# row has its own, or all of a call share one.
_COUNTED = """
g (float[B,T,3] x, int64[B] offset, float[B,6,3] cache, bool[B,M] mask)
=> (float[B,T,3] y, float[B,Slice_dim_1,3] r_cache) {
    keys = Concat <axis = 1> (cache, x)
    read = Cast <to = 1> (mask)
    column = Unsqueeze(read, two)
    masked = Mul(keys, column)
    sum = ReduceSum <keepdims = 1> (masked, one)
    count = ReduceSum <keepdims = 1> (column, one)
    mean = Div(sum, count)
    place = Cast <to = 1> (offset)
    angle = Mul(place, step)
    phase = Sin(angle)
    shift = Unsqueeze(phase, behind)
    near = Add(x, mean)
    y = Add(near, shift)
    r_cache = Slice(keys, minus6, end, one)
}"""

COUNTED_CONTRACT: Document = {
    "schema_version": 2,
    "name": "counted by its caller",
    "symbols": {"B": None, "T": None, "C": C, "M": "C + T"},
    "inputs": {
        "x": {"dtype": "float32", "shape": ["B", "T", 3], "batch_axis": 0, "role": "signal", "time_axis": 1},
        "offset": {"dtype": "int64", "shape": ["B"], "role": "counter", "value": "C + start"},
        "cache": {"dtype": "float32", "shape": ["B", "C", 3], "role": "state"},
        "mask": {"dtype": "bool", "shape": ["B", "M"], "role": "mask", "axis": 1, "valid": "min(start, C) + T"},
    },
    "outputs": {
        "y": {"dtype": "float32", "shape": ["B", "T", 3]},
        "r_cache": {"dtype": "float32", "shape": ["B", "C", 3]},
    },
    # what is never read before it was written
    "state": [{"output": "r_cache", "input": "cache", "init": 7}],
    "chunking": {"first": {"size": 3}, "later": {"size": 2}, "frame_seconds": 0.01},
    "profiles": [{"name": "all", "symbols": {"B": [1, 1, 4], "T": [1, 2, 4]}}],
}
SHARED = (("int64[B] offset", "int64[1] offset"), ("bool[B,M] mask", "bool[1,M] mask"))


def counted(folder: Path, *edits: tuple[str, str], name: str = "counted") -> Path:
    """Write the model that its caller counts for; with the edits `SHARED` all rows of a call have one number."""
    weights = _integers(one=[1], two=[2], behind=[1, 2], minus6=[-6], end=[2**31], zero=[0])
    weights["step"] = np.asarray(0.37, np.float32)
    return write_onnx(folder / f"{name}.onnx", _edited(_COUNTED, edits), weights)


def counted_contract(*, shared: bool = False) -> Document:
    """Return a copy of its contract."""
    document = copy.deepcopy(COUNTED_CONTRACT)
    if shared:
        document["inputs"]["offset"]["shape"] = [1]
        document["inputs"]["mask"]["shape"][0] = 1
    return document


# One chunk size, as exports of icefall's Zipformer have it: features through a convolution in two dimensions, caches of
# a convolution and of the attention's keys, and how many frames went by.
_ZIPFORMER = """
g (float[N,45,80] x, float[32,N,4] cached_key_0, float[N,4,6] cached_conv1_0, float[N,4,3] embed_states,
   int64[N] processed_lens)
=> (float[N,22,4] encoder_out, float[Slicenew_cached_key_0_dim_0,N,4] new_cached_key_0,
    float[N,4,Slice_dim_2] new_cached_conv1_0, float[N,4,3] new_embed_states, int64[N] new_processed_lens) {
    image = Unsqueeze(x, one)
    narrow = Conv <strides = [2, 80]> (image, w2)
    frames = Squeeze(narrow, three)
    embedded = Concat <axis = 2> (embed_states, frames)
    new_embed_states = Slice(embedded, minus3, end, two)
    mixed = Conv(embedded, w4)
    longer = Concat <axis = 2> (cached_conv1_0, mixed)
    new_cached_conv1_0 = Slice(longer, minus6, end, two)
    y = Conv(longer, w7)
    by_time = Transpose <perm = [2, 0, 1]> (y)
    keys = Concat <axis = 0> (cached_key_0, by_time)
    new_cached_key_0 = Slice(keys, minus32, end, zero)
    new_processed_lens = Add(processed_lens, frames_out)
    valid = Min(new_processed_lens, capacity)
    count = Cast <to = 1> (valid)
    column = Unsqueeze(count, one)
    sum = ReduceSum <keepdims = 0> (new_cached_key_0, zero)
    context = Div(sum, column)
    row = Unsqueeze(context, one)
    turned = Transpose <perm = [0, 2, 1]> (y)
    encoder_out = Add(turned, row)
}"""


def zipformer(folder: Path, *edits: tuple[str, str], name: str = "zipformer", **metadata: str) -> Path:
    """Write the model of one chunk size."""
    weights = _weights(w2=(D, 1, 3, 80), w4=(D, D, 4), w7=(D, D, 7))
    weights |= _integers(one=[1], two=[2], three=[3], zero=[0], minus3=[-3], minus6=[-6], minus32=[-32], end=[2**31])
    weights |= _integers(frames_out=22, capacity=32)
    path = write_onnx(folder / f"{name}.onnx", _edited(_ZIPFORMER, edits), weights)
    model = onnx.load(path)
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


MODELS: Mapping[str, tuple[Callable[..., Path], Document]] = {
    "attention": (attention, _ATTENTION_CONTRACT),
    "convolution": (convolution, _CONVOLUTION_CONTRACT),
    "lstm": (lstm, _LSTM_CONTRACT),
    "degenerate": (degenerate, _DEGENERATE_CONTRACT),
}


def contract_of(name: str) -> Document:
    """Return a copy of a model's contract, to be changed at will."""
    return copy.deepcopy(MODELS[name][1])


def write_contract(path: Path, document: Document) -> Path:
    """Write a contract."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _edited(text: str, edits: tuple[tuple[str, str], ...]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text
