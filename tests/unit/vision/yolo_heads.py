"""Outputs of Ultralytics' heads, drawn: boxes, scores and whatever a task adds to each row."""

from typing import Any

import numpy as np

SIZE = (96, 112)
ANCHORS = sum((SIZE[0] // stride) * (SIZE[1] // stride) for stride in (8, 16, 32))


def drawn(rng: np.random.Generator, batch: int, *, end_to_end: bool) -> Any:
    """Boxes as centre and size, some beyond the edge: [batch, rows, 4]."""
    count = 40 if end_to_end else ANCHORS
    return np.concatenate(
        [rng.uniform(-5, [117, 101], (batch, count, 2)), rng.uniform(1, 70, (batch, count, 2))], axis=2
    )


def output_of(
    rng: np.random.Generator, boxes: Any, more: Any, classes: int, *, end_to_end: bool, corners: bool = True
) -> Any:
    """The output [batch, rows, 6 + more] with one class a row, or [batch, 4 + classes + more, rows]."""
    shape = boxes.shape[:2]
    if end_to_end:
        centres, halves = boxes[..., :2], boxes[..., 2:] / 2
        placed = np.concatenate([centres - halves, centres + halves], axis=2) if corners else boxes
        score, label = rng.random((*shape, 1)), rng.integers(0, classes, (*shape, 1))
        return np.concatenate([placed, score, label, more], axis=2).astype(np.float32)
    scores = np.where(rng.random((*shape, classes)) < 0.1, rng.random((*shape, classes)), 0)
    return np.concatenate([boxes, scores, more], axis=2).transpose(0, 2, 1).astype(np.float32)
