"""Which detections are right: the confusion matrix of a run, and true and false positives image by image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable, at_least
from trt_workbench.vision.error_kinds import KINDS, ImagePairs, count_errors
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.measure import BOXES
from trt_workbench.vision.settings import IOU_THRESHOLD, SCORE_THRESHOLD

_MOST_CLASSES: Final = 2000  # of a matrix of all; with more it has those that occur


@dataclass(frozen=True)
class Confusion:
    """Counts at IoU 0.5.

    Attributes:
        threshold: least score of a detection that is counted.
        labels: category names in the order of the matrix, then "background".
        matrix: int64 [C+1,C+1], rows ground truth, columns predicted.
        counts: int64 [N,5] for every image: detections (of any score), ground truths, true positives,
            false positives, false negatives. Crowds are not counted as ground truths, nor are detections inside one.
        errors: int64 [N,6], errors of every image by `KINDS`, matched by score as COCO does.
    """

    threshold: float
    labels: tuple[str, ...]
    matrix: NDArray[np.int64]
    counts: NDArray[np.int64]
    errors: NDArray[np.int64]

    def document(self) -> dict[str, Any]:
        """Return the content of `confusion.json`, without its schema version."""
        return {
            "score_threshold": self.threshold,
            "iou_threshold": IOU_THRESHOLD,
            "labels": list(self.labels),
            "matrix": self.matrix.tolist(),
            "errors": dict(zip(KINDS, self.errors.sum(axis=0).tolist(), strict=True)),
        }


def confuse(
    image_ids: NDArray[np.int64],
    categories: tuple[Category, ...],
    truth: GroundTruth,
    detections: DetectionTable,
    measure: Measure = BOXES,
    *,
    threshold: float = SCORE_THRESHOLD,
) -> Confusion:
    """Match detections and ground truth image by image.

    Pairs of one class are matched first, the greatest IoU first; what is left is matched across classes in the same
    way. So the diagonal of the matrix is the sum of the images' true positives. A detection that is left over and lies
    by half or more in a crowd of its class is ignored, as COCOeval does.

    Args:
        image_ids: int64 [N], ascending: the images that were evaluated.
        categories: of the dataset.
        truth: annotations of these images.
        detections: of these images, sorted by image id.
        measure: of what overlaps.
        threshold: least score of a detection that is counted.
    """
    if len(categories) > _MOST_CLASSES:
        seen = detections.category_ids[at_least(detections.scores, threshold)]
        met = set(truth.category_ids.tolist()) | set(seen.tolist())
        categories = tuple(category for category in categories if category.id in met)
    ids = np.array([category.id for category in categories], np.int64)
    truth = truth.select(np.argsort(truth.image_ids, kind="stable"))
    true_classes, found_classes = (
        np.searchsorted(ids, truth.category_ids),
        np.searchsorted(ids, detections.category_ids),
    )
    background = len(categories)
    matrix = np.zeros((background + 1, background + 1), np.int64)
    counts, errors = np.zeros((len(image_ids), 5), np.int64), np.zeros((len(image_ids), len(KINDS)), np.int64)
    truth_bounds, found_bounds = _bounds(image_ids, truth.image_ids), _bounds(image_ids, detections.image_ids)
    for index in range(len(image_ids)):
        own, found = slice(*truth_bounds[index : index + 2]), slice(*found_bounds[index : index + 2])
        kept = found.start + np.flatnonzero(at_least(detections.scores[found], threshold))
        rows, overlaps = np.arange(own.start, own.stop), np.zeros((len(kept), own.stop - own.start))
        if overlaps.size:
            overlaps = measure.overlaps(detections, kept, truth, rows)
        image = ImagePairs(overlaps, true_classes[own], truth.crowd[own], found_classes[kept])
        errors[index] = count_errors(image, detections.scores[kept])
        pairs = _match_image(image, background)
        np.add.at(matrix, (pairs[:, 0], pairs[:, 1]), 1)
        right = int(np.count_nonzero(pairs[:, 0] == pairs[:, 1]))
        objects = int(np.count_nonzero(~truth.crowd[own]))
        wrong = int(np.count_nonzero(pairs[:, 1] != background)) - right
        counts[index] = (found.stop - found.start, objects, right, wrong, objects - right)
    return Confusion(threshold, (*(category.name for category in categories), "background"), matrix, counts, errors)


def _bounds(image_ids: NDArray[np.int64], owners: NDArray[np.int64]) -> list[int]:
    """Start of each image's rows among `owners` (ascending), and the end."""
    return [*np.searchsorted(owners, image_ids, side="left").tolist(), len(owners)]


def _match_image(image: ImagePairs, background: int) -> NDArray[np.int64]:
    """Pairs (ground-truth class, predicted class) [P,2], each object and detection in one; see `confuse`."""
    overlaps, true_classes, crowd, found_classes = image
    if not overlaps.size:
        rows = [(int(label), background) for label in true_classes[~crowd]]
        rows += [(background, int(label)) for label in found_classes]
        return np.array(rows, np.int64).reshape(-1, 2)
    same = image.same
    near = (overlaps >= IOU_THRESHOLD) & ~crowd[None, :]
    truth_of = np.full(len(found_classes), -1)
    taken = np.zeros(len(true_classes), np.bool_)
    for allowed in (near & same, near & ~same):
        rows_, columns = np.nonzero(allowed)
        for place in np.argsort(-overlaps[rows_, columns], kind="stable"):
            row, column = rows_[place], columns[place]
            if truth_of[row] < 0 and not taken[column]:
                truth_of[row], taken[column] = column, True
    matched = truth_of >= 0
    alone, missed = ~matched & ~image.in_crowd, ~taken & ~crowd
    return np.concatenate(
        [
            np.stack([true_classes[truth_of[matched]], found_classes[matched]], axis=1),
            np.stack([np.full(np.count_nonzero(alone), background), found_classes[alone]], axis=1),
            np.stack([true_classes[missed], np.full(np.count_nonzero(missed), background)], axis=1),
        ]
    )
