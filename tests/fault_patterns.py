"""Minimal graphs of the patterns that TensorRT is known or reported to get wrong, and of their ways around.

docs/reference/known-faults.md tells of them; tests/gpu/test_known_faults.py builds them. All of them are right in ONNX
Runtime. The batch `N` is dynamic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from onnx import TensorProto
from tests.random_attention import Attention, write_attention
from tests.random_models import Graph

_TEXT_LENGTH = 12
_IMAGE, _PATCH = 64, 4


@dataclass(frozen=True)
class Pattern:
    """A graph and what is known of it.

    Attributes:
        name: of its section in the page.
        write: writes the graph.
        precision: in which it is built.
        wrong_on: versions of TensorRT, as they begin, on which this very graph was found wrong by us.
        reported_on: versions of which others report the pattern, or of which we know it from a larger model.
        around: writes the same computation in a form that is not known to go wrong; None where there is none.
    """

    name: str
    write: Callable[[Path], Any]
    precision: str = "fp32"
    wrong_on: tuple[str, ...] = ()
    reported_on: tuple[str, ...] = ()
    around: Callable[[Path], Any] | None = None


def mask_for_each_row(path: Path, *, one_for_all: bool = False) -> None:
    """Write a step of cached generation: one query, keys in slots, a mask [N,1,1,K] that is added; or [1,1,1,K].

    Both masks say the same: positions after `start` are not seen.
    """
    g = _graph(width=32)
    heads, size, slots = 4, 8, 16
    x, start = g.input("x", TensorProto.FLOAT, ["N", 1, g.width]), g.input("start", TensorProto.INT64, [1])
    places = g.constant(range(slots), "int64")
    query = _heads(g, g.linear(x, heads * size), heads, size, 1)
    written = g.node("Unsqueeze", g.node("Equal", places, start), g.ints(0, 1, 3))
    past = []
    for name in ("past_key", "past_value"):
        kept = g.input(name, TensorProto.FLOAT, ["N", heads, slots, size])
        past.append(g.node("Where", written, _heads(g, g.linear(x, heads * size), heads, size, 1), kept))
    seen = g.node("Unsqueeze", g.node("LessOrEqual", places, start), g.ints(0, 1, 2))
    if not one_for_all:
        batch = g.node("Gather", g.node("Shape", x), g.ints(0), axis=0)
        seen = g.node("Expand", seen, g.node("Concat", batch, g.ints(1, 1, slots), axis=0))
    mask = g.node("Where", seen, g.constant(0.0), g.constant(-1e4))
    scores = g.node("Mul", g.node("MatMul", query, g.node("Transpose", past[0], perm=[0, 1, 3, 2])), g.constant(0.35))
    share = g.node("Softmax", g.node("Add", scores, mask), axis=-1)
    _joined(g, g.node("MatMul", share, past[1]), heads * size, 1)
    g.save("mask-for-each-row", path)


def segformer_block(path: Path) -> None:
    """Write a patch embedding and one block of a SegFormer: attention over keys that a convolution has made fewer."""
    g = _graph(width=32)
    side = _IMAGE // _PATCH
    tokens, reduced = side * side, 16
    images = g.input("images", TensorProto.FLOAT, ["N", 3, _IMAGE, _IMAGE])
    embedded = _convolution(g, images, (g.width, 3, 7, 7), strides=[4, 4], pads=[3] * 4)
    x = _norm(g, _flattened(g, embedded))
    normed = _norm(g, x)
    query = _heads(g, g.linear(normed, g.width), 1, g.width, tokens)
    fewer = _convolution(g, _image(g, normed, side), (g.width, g.width, 4, 4), strides=[4, 4])
    fewer = _norm(g, _flattened(g, fewer))
    key, value = (_heads(g, g.linear(fewer, g.width), 1, g.width, reduced) for _ in "kv")
    mixed = _attended(g, query, key, value, g.width)
    joined = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), g.ints(0, tokens, g.width))
    x = g.node("Add", x, g.linear(joined, g.width))
    wide = _image(g, g.linear(_norm(g, x), g.width), side)
    deep = _convolution(g, wide, (g.width, 1, 3, 3), pads=[1] * 4, group=g.width)
    x = g.node("Add", x, g.linear(_gelu(g, _flattened(g, deep)), g.width))
    g.output(x, TensorProto.FLOAT, 3)
    g.save("segformer-block", path)


def transposed_inputs(path: Path) -> None:
    """Write attention whose operands are transposed inputs: head dimension 16, heads 2, as the report has it."""
    write_attention(Attention("transposed", size=16, heads=2, queries=8, keys=8, tail="heads"), path)


def vit_block(path: Path) -> None:
    """Write a block of a vision transformer: attention and two linear layers, each after a layer norm."""
    g = _graph(width=64)
    heads, size, tokens = 2, 32, 17
    x = g.input("x", TensorProto.FLOAT, ["N", tokens, g.width])
    normed = _norm(g, x)
    query, key, value = (_heads(g, g.linear(normed, g.width), heads, size, tokens) for _ in "qkv")
    mixed = _attended(g, query, key, value, size)
    joined = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), g.ints(0, tokens, g.width))
    x = g.node("Add", x, g.linear(joined, g.width))
    wide = _gelu(g, g.linear(_norm(g, x), 2 * g.width))
    back = g.node("MatMul", wide, g.weights(2 * g.width, g.width))
    g.output(g.node("Add", x, back), TensorProto.FLOAT, 3)
    g.save("vit-block", path)


def reshaped_heads(path: Path, *, multiplied_first: bool = False) -> None:
    """Write dot products by head of gathered queries with keys: both reshaped to heads, multiplied and summed.

    As in the report: rows are the edges of a graph, each with the index of its centre.
    """
    g = _graph(width=32)
    heads, centres = 8, 4
    table = g.input("centres", TensorProto.FLOAT, [centres, g.width])
    index = g.input("index", TensorProto.INT64, ["N"])
    query = g.linear(g.node("Gather", table, index, axis=0), g.width)
    key = g.linear(g.input("neighbours", TensorProto.FLOAT, ["N", g.width]), g.width)
    split = g.ints(-1, heads, g.width // heads)
    if multiplied_first:
        dots = g.node("Reshape", g.node("Mul", query, key), split)
    else:
        dots = g.node("Mul", g.node("Reshape", query, split), g.node("Reshape", key, split))
    g.output(g.node("ReduceSum", dots, g.ints(-1), keepdims=0), TensorProto.FLOAT, 2)
    g.save("reshaped-heads", path)


def scaled_operands(path: Path, *, query_alone: bool = False) -> None:
    """Write attention as PyTorch exports it: queries and keys each times the root of the scale; or queries alone."""
    g = _graph(width=64)
    heads, size, tokens = 2, 32, 10
    x = g.input("x", TensorProto.FLOAT, ["N", tokens, g.width])
    query, key, value = (_heads(g, g.linear(x, g.width), heads, size, tokens) for _ in "qkv")
    key = g.node("Transpose", key, perm=[0, 1, 3, 2])
    if query_alone:
        query = g.node("Mul", query, g.constant(size**-0.5))
    else:
        query, key = (g.node("Mul", operand, g.constant(size**-0.25)) for operand in (query, key))
    share = g.node("Softmax", g.node("MatMul", query, key), axis=-1)
    _joined(g, g.node("MatMul", share, value), g.width, tokens)
    g.save("scaled-operands", path)


def bert_layer(path: Path) -> None:
    """Write a layer of a BERT with its embedding and a mask of ones and zeros for each row."""
    g = _graph(width=32)
    heads, size, tokens = 2, 16, _TEXT_LENGTH
    ids = g.input("input_ids", TensorProto.INT64, ["N", tokens])
    mask = g.input("attention_mask", TensorProto.INT64, ["N", tokens])
    x = g.node("Add", g.node("Gather", g.weights(256, g.width), ids), g.weights(tokens, g.width))
    x = _norm(g, x)
    ones = g.node("Unsqueeze", g.node("Cast", mask, to=TensorProto.FLOAT), g.ints(1, 2))
    bias = g.node("Mul", g.node("Sub", g.constant(1.0), ones), g.constant(-1e4))
    query, key, value = (_heads(g, g.linear(x, g.width), heads, size, tokens) for _ in "qkv")
    mixed = _attended(g, query, key, value, size, bias)
    joined = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), g.ints(0, tokens, g.width))
    x = _norm(g, g.node("Add", x, g.linear(joined, g.width)))
    x = _norm(g, g.node("Add", x, g.linear(_gelu(g, g.linear(x, g.width)), g.width)))
    g.output(x, TensorProto.FLOAT, 3)
    g.save("bert-layer", path)


PATTERNS = (
    Pattern(
        "mask-for-each-row",
        mask_for_each_row,
        wrong_on=("8.6",),
        around=partial(mask_for_each_row, one_for_all=True),
    ),
    Pattern("segformer-block", segformer_block, reported_on=("10.11", "11.1")),
    Pattern("transposed-inputs", transposed_inputs, "fp16", reported_on=("11.2",)),
    Pattern("vit-block", vit_block, "fp16", reported_on=("10.16",)),
    Pattern(
        "reshaped-heads",
        reshaped_heads,
        wrong_on=("8.6",),
        around=partial(reshaped_heads, multiplied_first=True),
    ),
    Pattern(
        "scaled-operands",
        scaled_operands,
        reported_on=("10.7",),
        around=partial(scaled_operands, query_alone=True),
    ),
    Pattern("bert-layer", bert_layer, reported_on=("7.1", "8.0")),
)


def _graph(width: int) -> Graph:
    g = Graph(0)
    g.width = width
    return g


def _heads(g: Graph, x: str, heads: int, size: int, length: int) -> str:
    """Return [N,heads,length,size] of x [N,length,heads*size]."""
    return str(g.node("Transpose", g.node("Reshape", x, g.ints(-1, length, heads, size)), perm=[0, 2, 1, 3]))


def _attended(g: Graph, query: str, key: str, value: str, size: int, bias: str | None = None) -> str:
    scores = g.node("MatMul", query, g.node("Transpose", key, perm=[0, 1, 3, 2]))
    scores = g.node("Mul", scores, g.constant(size**-0.5))
    if bias is not None:
        scores = g.node("Add", scores, bias)
    return str(g.node("MatMul", g.node("Softmax", scores, axis=-1), value))


def _joined(g: Graph, mixed: str, width: int, length: int) -> None:
    """End the graph with the heads of `mixed` side by side, through a linear layer."""
    joined = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), g.ints(-1, length, width))
    g.output(g.node("MatMul", joined, g.weights(width, width)), TensorProto.FLOAT, 3)


def _norm(g: Graph, x: str) -> str:
    scale, bias = (g.constant(base + g.draw.standard_normal(g.width) / 4) for base in (1.0, 0.0))
    return str(g.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-6))


def _gelu(g: Graph, x: str) -> str:
    bent = g.node("Add", g.node("Erf", g.node("Mul", x, g.constant(0.5**0.5))), g.constant(1.0))
    return str(g.node("Mul", g.node("Mul", x, bent), g.constant(0.5)))


def _convolution(g: Graph, x: str, shape: tuple[int, int, int, int], **attributes: Any) -> str:
    fan_in = shape[1] * shape[2] * shape[3]
    weights = g.constant(g.draw.standard_normal(shape) / fan_in**0.5)
    return str(g.node("Conv", x, weights, kernel_shape=list(shape[2:]), **attributes))


def _flattened(g: Graph, image: str) -> str:
    """Return tokens [N,H*W,C] of an image [N,C,H,W]."""
    return str(g.node("Transpose", g.node("Reshape", image, g.ints(0, g.width, -1)), perm=[0, 2, 1]))


def _image(g: Graph, tokens: str, side: int) -> str:
    """Return the image [N,C,side,side] of tokens [N,side*side,C]."""
    return str(g.node("Reshape", g.node("Transpose", tokens, perm=[0, 2, 1]), g.ints(0, g.width, side, side)))
