"""Suppression of boxes that a better one of the same class overlaps."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

# Candidates per call. Suppression is greedy, so a block's survivors are final and later blocks only meet those.
_BLOCK = 1024


def class_aware_nms(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], labels: NDArray[np.int64], iou: float, limit: int
) -> NDArray[np.intp]:
    """Return the indices of the boxes that no better box of the same class overlaps by more than `iou`.

    Greedy suppression by `cv2.dnn.NMSBoxes`, class by class: several times faster than `NMSBoxesBatched`, which
    compares boxes of different classes too. Two boxes without any area count as overlapping.

    Args:
        boxes: xyxy, float32 [K, 4].
        scores: float32 [K], positive.
        labels: int64 [K].
        iou: intersection over union above which the lower-scored box is dropped.
        limit: how many to return at most.

    Returns:
        Indices into `boxes`, by descending score; equal scores in their order in `boxes`.
    """
    if not len(boxes):
        return np.empty(0, np.intp)
    order = np.argsort(-scores, kind="stable")
    grouped = order[np.argsort(labels[order], kind="stable")]
    cuts = np.flatnonzero(np.diff(labels[grouped])) + 1
    # OpenCV computes in double precision on x, y, width, height.
    rects = boxes.astype(np.float64)
    rects[:, 2:] -= rects[:, :2]
    kept = np.concatenate([_one_class(rects, scores, group, iou, limit) for group in np.split(grouped, cuts)])
    # Back to the order by score: `order` already has the ties right.
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    return kept[np.argsort(rank[kept])][:limit]


def _one_class(
    rects: NDArray[np.float64], scores: NDArray[np.float32], group: NDArray[np.intp], iou: float, limit: int
) -> NDArray[np.intp]:
    """Suppress within `group`, indices of one class by descending score; stop at `limit` survivors."""
    if len(group) == 1:
        return group
    kept = group[:0]
    for start in range(0, len(group), _BLOCK):
        pool = np.concatenate([kept, group[start : start + _BLOCK]])
        kept = pool[np.asarray(cv2.dnn.NMSBoxes(rects[pool], scores[pool], 0.0, iou), np.intp).reshape(-1)]
        if len(kept) >= limit:
            break
    return kept[:limit]
