"""Which detections are right: the confusion matrix of a run, and true and false positives image by image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable, at_least
from trt_workbench.vision.error_kinds import KINDS, Paired, count_errors
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.measure import BOXES
from trt_workbench.vision.pairs import Spans, pairs_of, portions, take_nearest
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
        wrong: for every image the places of its false positives among its counted detections, the best score first.
        missed: for every image the places of its false negatives among its annotations.
    """

    threshold: float
    labels: tuple[str, ...]
    matrix: NDArray[np.int64]
    counts: NDArray[np.int64]
    errors: NDArray[np.int64]
    wrong: tuple[list[int], ...]
    missed: tuple[list[int], ...]

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
    """Match detections and ground truth of each image.

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
    shown = detections.select(np.flatnonzero(at_least(detections.scores, threshold)))
    shown = shown.select(np.lexsort((-shown.scores, shown.image_ids)))
    found, objects = (Spans.of(one.image_ids, image_ids) for one in (shown, truth))
    found_classes, true_classes = (np.searchsorted(ids, one.category_ids) for one in (shown, truth))
    background = len(categories)
    matrix = np.zeros((background + 1, background + 1), np.int64)
    counts, errors = np.zeros((len(image_ids), 5), np.int64), np.zeros((len(image_ids), len(KINDS)), np.int64)
    counts[:, 0] = Spans.of(detections.image_ids, image_ids).sizes
    wrong, missed = np.zeros(len(shown), np.bool_), np.zeros(len(truth), np.bool_)
    for part in portions(found, objects):
        mine, theirs = found.part(part), objects.part(part)
        rows, others = pairs_of(mine, theirs)
        own, true = slice(mine.first[0], mine.end[-1]), slice(theirs.first[0], theirs.end[-1])
        paired = Paired(
            rows - own.start,
            others - true.start,
            measure.pair_overlaps(shown, rows, truth, others),
            mine.owners,
            theirs.owners,
            found_classes[own],
            true_classes[true],
            truth.crowd[true],
        )
        errors[part] = count_errors(paired, shown.scores[own], part.stop - part.start)
        counts[part, 1:], wrong[own], missed[true] = _count(paired, matrix, part.stop - part.start)
    labels = (*(category.name for category in categories), "background")
    return Confusion(threshold, labels, matrix, counts, errors, _places(wrong, found), _places(missed, objects))


def _places(which: NDArray[np.bool_], groups: Spans) -> tuple[list[int], ...]:
    return tuple(np.flatnonzero(one).tolist() for one in np.split(which, groups.end[:-1]))


def _count(
    paired: Paired, matrix: NDArray[np.int64], images: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Add the matches of some images to the matrix.

    Returns:
        Columns 1 to 4 of `Confusion.counts`; which detections are wrong; which objects are missed. See `confuse`.
    """
    background, crowd = len(matrix) - 1, paired.crowd
    near = (paired.overlaps >= IOU_THRESHOLD) & ~crowd[paired.objects]
    truth_of, taken = np.full(len(paired.found_classes), -1, np.intp), np.zeros(len(crowd), np.bool_)
    for allowed in (near & paired.same, near & ~paired.same):
        left = allowed & (truth_of[paired.rows] < 0) & ~taken[paired.objects]
        found, objects = take_nearest(paired.rows[left], paired.objects[left], paired.overlaps[left])
        truth_of[found], taken[objects] = objects, True
    labels = np.where(truth_of < 0, background, np.append(paired.true_classes, background)[truth_of])
    counted, missed = (truth_of >= 0) | ~paired.in_crowd, ~taken & ~crowd
    np.add.at(matrix, (labels[counted], paired.found_classes[counted]), 1)
    np.add.at(matrix, (paired.true_classes[missed], np.intp(background)), 1)
    hit = labels == paired.found_classes
    objects, right, all_ = (
        np.bincount(owners, minlength=images)
        for owners in (
            paired.true_images[~crowd],
            paired.found_images[hit],
            paired.found_images[counted],
        )
    )
    unfound = ~crowd
    unfound[truth_of[hit]] = False
    return np.stack([objects, right, all_ - right, objects - right], axis=1), counted & ~hit, unfound
