"""Faults of annotations with an example of each, as the report shows them; `dataset_check.py` says what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.dataset import CocoDataset, GroundTruth

Boxes = NDArray[np.float64]
Sizes = Mapping[int, tuple[int, int]]
"""(height, width) in pixels by image id."""

# How far a box may reach outside before it counts, as a share of the side and in pixels: annotators draw roughly.
_SLACK, _SLACK_PIXELS = 0.02, 2.0
# A mask's area is not so much larger, nor so much smaller, than its box's.
_LARGER, _SMALLER = 1.5, 0.001
_MOST_SHOWN = 50
EMPTY: Final = "without width or height"
AREA: Final = "with an area that does not fit the box"
DUPLICATE: Final = "duplicates of another one"
OUTSIDE: Final = "reaching outside the image"


@np.errstate(over="ignore")  # a box may have any finite number
def odd_boxes(truth: GroundTruth) -> dict[str, NDArray[np.bool_]]:
    """Return by fault which annotations have it, bool [N], of what needs no image."""
    extent = truth.boxes[:, 2] * truth.boxes[:, 3]
    which = np.unique(np.stack([truth.image_ids, truth.category_ids], axis=1), axis=0, return_inverse=True)[1]
    # crowds need not be found; each has a value of its own here
    crowds = np.where(truth.crowd, np.arange(len(truth)), -1)
    first = np.unique(np.column_stack([which.ravel(), truth.boxes, crowds]), axis=0, return_index=True)[1]
    return {
        EMPTY: np.asarray((truth.boxes[:, 2:] <= 0).any(axis=1)),
        AREA: (truth.areas > _LARGER * extent + 1) | (truth.areas < _SMALLER * extent),
        DUPLICATE: ~np.isin(np.arange(len(truth)), first),
    }


def are_outside(boxes: Boxes, size: Boxes) -> NDArray[np.bool_]:
    """Return which boxes [N, 4] reach outside of images of width and height [N, 2]."""
    slack = _SLACK * size + _SLACK_PIXELS
    low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    return np.asarray(((low < -slack) | (high > size + slack) | (boxes[:, 2:] < 0)).any(axis=1))


def by_box(truth: GroundTruth, sizes: Sizes) -> Boxes:
    """Return width, height of the image of every box: float64 [N, 2]."""
    return np.array([sizes[key][::-1] for key in truth.image_ids.tolist()], np.float64).reshape(-1, 2)


@np.errstate(over="ignore", invalid="ignore")
def find_faults(dataset: CocoDataset, sizes: Sizes) -> list[dict[str, Any]]:
    """Return the faults that annotations have, with the image that has most of each.

    Args:
        dataset: of the images that were evaluated.
        sizes: of the decoded images.

    Returns:
        JSON objects for metrics.json: `fault`, `count`, `image_id`, and `boxes` of that image that have it.
    """
    truth = dataset.truth
    masks = {**odd_boxes(truth), OUTSIDE: are_outside(truth.boxes, by_box(truth, sizes))}
    found = []
    for fault, mask in masks.items():
        if not mask.any():
            continue
        images, counts = np.unique(truth.image_ids[mask], return_counts=True)
        image = int(images[counts.argmax()])
        boxes = truth.boxes[mask & (truth.image_ids == image)][:_MOST_SHOWN].tolist()
        found.append({"fault": fault, "count": int(mask.sum()), "image_id": image, "boxes": boxes})
    return found
