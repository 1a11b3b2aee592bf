"""Random ONNX models of one attention each, in the forms in which exporters write it; all of them healthy.

Head dimensions of 4 to 128; one query or several; masks of none, [N,1,1,K], [1,1,Q,K] and [N,1,Q,K], selected or added;
queries, keys and values from products, from inputs with heads, from inputs that are transposed, or from slots of which
one is written (a step of cached generation).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto
from tests.random_models import HEAD_DIMENSIONS, Graph

SOURCES = ("products", "heads", "transposed", "slots")
MASKS = ("none", "rows", "queries", "both")
_HIDDEN = -1e4


@dataclass(frozen=True)
class Attention:
    """One form of attention.

    Attributes:
        source: where queries, keys and values come from.
        mask: which of its dimensions have sizes above 1.
        added: whether the mask is added to the scores; it selects them otherwise.
        scaled_first: whether the queries are scaled, not the scores.
        tail: what follows: "product" after the heads are joined, "heads" as they are, "dots" of heads by a product and
            a sum.
        size: head dimension.
        heads: their number.
        queries: positions that look.
        keys: positions that are looked at.
    """

    source: str = "products"
    mask: str = "none"
    added: bool = True
    scaled_first: bool = False
    tail: str = "product"
    size: int = 16
    heads: int = 2
    queries: int = 4
    keys: int = 8


def drawn(seed: int) -> Attention:
    """Return the form of a seed."""
    draw = np.random.default_rng([seed, 7])
    source = str(draw.choice(SOURCES))
    queries = 1 if source == "slots" or draw.random() < 0.35 else int(draw.integers(2, 9))
    return Attention(
        source=source,
        mask=str(draw.choice(MASKS)),
        added=bool(draw.random() < 0.6),
        scaled_first=bool(draw.random() < 0.3),
        tail=str(draw.choice(["product", "product", "heads", "dots"])),
        size=int(draw.choice(HEAD_DIMENSIONS)),
        heads=int(draw.integers(1, 5)),
        queries=queries,
        keys=int(draw.integers(max(4, queries), 17)),
    )


def write_attention(form: Attention, path: Path, seed: int = 0) -> tuple[str, ...]:
    """Write the model with a dynamic batch `N`, and return the words of its form."""
    g = Graph(seed)
    query, key, value = _sources(g, form)
    scale = g.constant(form.size**-0.5)
    if form.scaled_first:
        query = str(g.node("Mul", query, scale))
    scores = str(g.node("MatMul", query, key))
    if not form.scaled_first:
        scores = str(g.node("Mul", scores, scale))
    share = g.node("Softmax", _masked(g, form, scores), axis=-1)
    mixed = str(g.node("MatMul", share, value))
    _tail(g, form, mixed)
    g.save(f"attention{seed}", path)
    return tuple(f"{name}={value}" for name, value in asdict(form).items())


def _sources(g: Graph, form: Attention) -> tuple[str, str, str]:
    """Return queries [N,H,Q,D], keys [N,H,D,K] and values [N,H,K,D]."""
    heads, size, queries, keys = form.heads, form.size, form.queries, form.keys
    if form.source in ("heads", "transposed"):
        turned = form.source == "transposed"
        names = {"query": queries, "key": keys, "value": keys}
        for name, length in names.items():
            g.input(name, TensorProto.FLOAT, ["N", length, heads, size] if turned else ["N", heads, length, size])
        if not turned:
            return "query", str(g.node("Transpose", "key", perm=[0, 1, 3, 2])), "value"
        query, value = (str(g.node("Transpose", name, perm=[0, 2, 1, 3])) for name in ("query", "value"))
        return query, str(g.node("Transpose", "key", perm=[0, 2, 3, 1])), value
    x = g.input("x", TensorProto.FLOAT, ["N", queries, g.width])
    query = _of_heads(g, form, x, queries)
    if form.source == "slots":
        return query, *_slots(g, form, x)
    y = x if queries == keys else g.input("y", TensorProto.FLOAT, ["N", keys, g.width])
    key, value = (_of_heads(g, form, y, keys) for _ in "kv")
    return query, str(g.node("Transpose", key, perm=[0, 1, 3, 2])), value


def _of_heads(g: Graph, form: Attention, x: str, length: int) -> str:
    split = g.node("Reshape", g.linear(x, form.size * form.heads), g.ints(-1, length, form.heads, form.size))
    return str(g.node("Transpose", split, perm=[0, 2, 1, 3]))


def _slots(g: Graph, form: Attention, x: str) -> tuple[str, str]:
    """Return keys and values of which the slot `start` is written."""
    start = g.input("start", TensorProto.INT64, [1])
    place = g.node("Equal", g.constant(np.arange(form.keys), np.int64), start)
    written = g.node("Unsqueeze", place, g.ints(0, 1, 3))
    found = []
    for name in ("past_key", "past_value"):
        past = g.input(name, TensorProto.FLOAT, ["N", form.heads, form.keys, form.size])
        found.append(str(g.node("Where", written, _of_heads(g, form, x, 1), past)))
    return str(g.node("Transpose", found[0], perm=[0, 1, 3, 2])), found[1]


def _masked(g: Graph, form: Attention, scores: str) -> str:
    seen = []
    if form.mask in ("queries", "both"):
        if form.source == "slots":
            place = g.node("LessOrEqual", g.constant(np.arange(form.keys), np.int64), "start")
            seen.append(g.node("Unsqueeze", place, g.ints(0, 1, 2)))
        else:
            triangle = np.tril(np.ones((form.queries, form.keys), bool), form.keys - form.queries)
            seen.append(g.constant(triangle[None, None], np.bool_))
    if form.mask in ("rows", "both"):
        mask = g.input("mask", TensorProto.INT64, ["N", form.keys])
        seen.append(g.node("Unsqueeze", g.node("Cast", mask, to=TensorProto.BOOL), g.ints(1, 2)))
    if not seen:
        return scores
    together = seen[0] if len(seen) == 1 else g.node("And", *seen)
    if not form.added:
        return str(g.node("Where", together, scores, g.constant(_HIDDEN)))
    return str(g.node("Add", scores, g.node("Where", together, g.constant(0.0), g.constant(_HIDDEN))))


def _tail(g: Graph, form: Attention, mixed: str) -> None:
    if form.tail == "heads":
        g.output(mixed, TensorProto.FLOAT, 4)
        return
    width = form.size * form.heads
    joined = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), g.ints(-1, form.queries, width))
    made = g.node("MatMul", joined, g.weights(width, width))
    if form.tail == "dots":
        flat = g.ints(-1, form.heads, form.size)
        dots = g.node("Mul", g.node("Reshape", joined, flat), g.node("Reshape", made, flat))
        made = g.node("ReduceSum", dots, g.ints(-1), keepdims=0)
        made = g.node("Reshape", made, g.ints(-1, form.queries, form.heads))
    g.output(made, TensorProto.FLOAT, 3)
