"""What is wrong with the detections of an image, by the kinds of TIDE.

Bolya et al., TIDE: A General Toolbox for Identifying Object Detection Errors (2020), with its limits: a box is on an
object from IoU 0.5 on, and on the background up to 0.1. Here errors are counted at a threshold; TIDE weighs kinds by
what each costs of AP.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.detections import ranks
from trt_workbench.vision.pairs import take_turns
from trt_workbench.vision.settings import IOU_THRESHOLD

_BACKGROUND: Final = 0.1
KINDS: Final = {
    "class": "on an object, of another class",
    "localisation": "of the right class, not on its object (IoU 0.1 to 0.5)",
    "both": "of another class, and not on the object (IoU 0.1 to 0.5)",
    "duplicate": "on an object that a better one has found",
    "background": "where no object is",
    "missed": "objects that no detection found, nor one with a wrong class or place",
}
"""In this order."""


class Paired(NamedTuple):
    """The detections of some images, and each with the objects of its image.

    Attributes:
        rows: [P], places of detections, ascending.
        objects: [P], of objects, ascending for each detection.
        overlaps: float64 [P].
        found_images: [D], places of images, ascending.
        true_images: [G].
        found_classes: [D].
        true_classes: [G].
        crowd: bool [G].
    """

    rows: NDArray[np.intp]
    objects: NDArray[np.intp]
    overlaps: NDArray[np.float64]
    found_images: NDArray[np.intp]
    true_images: NDArray[np.intp]
    found_classes: NDArray[np.intp]
    true_classes: NDArray[np.intp]
    crowd: NDArray[np.bool_]

    @property
    def same(self) -> NDArray[np.bool_]:
        """Whether both are of one class, bool [P]."""
        return np.asarray(self.found_classes[self.rows] == self.true_classes[self.objects])

    @property
    def in_crowd(self) -> NDArray[np.bool_]:
        """Which detections lie in a crowd of their class, so that they are not wrong, bool [D]."""
        inside = np.zeros(len(self.found_classes), np.bool_)
        inside[self.rows[self.same & self.crowd[self.objects] & (self.overlaps >= IOU_THRESHOLD)]] = True
        return inside

    def nearest(self, which: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return the largest overlap of each detection among some pairs, 0 without, and the first object with it."""
        rows, objects, overlaps = self.rows[which], self.objects[which], self.overlaps[which]
        largest, places = np.zeros(len(self.found_classes)), np.full(len(self.found_classes), -1, np.intp)
        np.maximum.at(largest, rows, overlaps)
        best = overlaps == largest[rows]
        known, first = np.unique(rows[best], return_index=True)
        places[known] = objects[best][first]
        return largest, places


def count_errors(paired: Paired, scores: NDArray[np.float32], images: int) -> NDArray[np.int64]:
    """Return how many of each kind images have, int64 [images, kinds], in the order of `KINDS`.

    Args:
        paired: their detections and objects.
        scores: float32 [D].
        images: how many there are.
    """
    crowd, same = paired.crowd[paired.objects], paired.same
    own, other = same & ~crowd, ~same & ~crowd
    by_score, turns = np.lexsort((-scores, paired.found_images)), np.empty(len(scores), np.intp)
    turns[by_score] = ranks(paired.found_images)
    every, none = np.ones((len(paired.crowd), 1), np.bool_), np.zeros(len(paired.crowd), np.bool_)
    pairs = paired.rows[own], paired.objects[own], paired.overlaps[own]
    found = take_turns(*pairs, turns, np.array([IOU_THRESHOLD]), none, every)
    wrong = ~paired.in_crowd
    wrong[found.rows[found.hits[:, 0, 0]]] = False
    (near, its_own), (far, another) = paired.nearest(own), paired.nearest(other)
    localised = wrong & (near >= _BACKGROUND) & (near < IOU_THRESHOLD)
    misnamed = wrong & ~localised & (far >= IOU_THRESHOLD)
    missed = ~paired.crowd & found.free[:, 0, 0]
    missed[its_own[localised]] = missed[another[misnamed]] = False
    cases = {
        "localisation": localised,
        "class": misnamed,
        "duplicate": near >= IOU_THRESHOLD,
        "both": far > _BACKGROUND,
    }
    names = list(KINDS)
    kinds = np.select([*cases.values()], [names.index(name) for name in cases], names.index("background"))
    counts = np.zeros((images, len(KINDS)), np.int64)
    np.add.at(counts, (paired.found_images[wrong], kinds[wrong]), 1)
    counts[:, -1] = np.bincount(paired.true_images[missed], minlength=images)
    return counts
