"""Object keypoint similarity, as pycocotools' `computeOks` has it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

COCO_SIGMAS: Final = (
    *(0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072),
    *(0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089),
)
"""How exactly annotators place each of COCO's 17 points, as a share of the object's size."""


def sigmas(count: int) -> NDArray[np.float64]:
    """Return the tolerance of each point: COCO's of 17, else the same of all, as Ultralytics has it."""
    return np.array(COCO_SIGMAS) if count == len(COCO_SIGMAS) else np.full(count, 1 / count)


def similarities(
    found: NDArray[Any], truth: NDArray[np.float64], boxes: NDArray[np.float64], areas: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the similarity of every detection with every annotation, float64 [D, G].

    Args:
        found: float [D, n, 3].
        truth: float64 [G, n, 3].
        boxes: float64 [G, 4], x, y, width, height of the annotations: for those without a labelled point.
        areas: float64 [G], of the annotations.
    """
    variances = (sigmas(truth.shape[1]) * 2) ** 2
    similar = np.zeros((len(found), len(truth)))
    places = found[..., :2].astype(np.float64)
    for column, (points, box, area) in enumerate(zip(truth, boxes, areas, strict=True)):
        labelled = points[:, 2] > 0
        if labelled.any():
            apart = places - points[:, :2]
        else:  # inside of the box and its surroundings all is well
            low, high = box[:2] - box[2:], box[:2] + box[2:] * 2
            apart = np.maximum(0, low - places) + np.maximum(0, places - high)
            labelled = ~labelled
        error = (apart**2).sum(axis=-1) / variances / (area + np.spacing(1)) / 2
        similar[:, column] = np.exp(-error[:, labelled]).sum(axis=1) / labelled.sum()
    return similar
