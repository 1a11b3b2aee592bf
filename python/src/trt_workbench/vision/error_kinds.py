"""What is wrong with the detections of an image, by the kinds of TIDE.

Bolya et al., TIDE: A General Toolbox for Identifying Object Detection Errors (2020), with its limits: a box is on an
object from IoU 0.5 on, and on the background up to 0.1. Here errors are counted at a threshold; TIDE weighs kinds by
what each costs of AP.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class ImagePairs(NamedTuple):
    """The detections of an image with its objects.

    Attributes:
        overlaps: float64 [D, G].
        true_classes: [G].
        crowd: bool [G].
        found_classes: [D].
    """

    overlaps: NDArray[np.float64]
    true_classes: NDArray[np.int64]
    crowd: NDArray[np.bool_]
    found_classes: NDArray[np.int64]

    @property
    def same(self) -> NDArray[np.bool_]:
        """Whether both are of one class, bool [D, G]."""
        return np.asarray(self.found_classes[:, None] == self.true_classes)

    @property
    def in_crowd(self) -> NDArray[np.bool_]:
        """Which detections lie in a crowd of their class, so that they are not wrong, bool [D]."""
        return np.asarray((self.same & self.crowd & (self.overlaps >= IOU_THRESHOLD)).any(axis=1))


def count_errors(image: ImagePairs, scores: NDArray[np.float32]) -> list[int]:
    """Return how many of each kind an image has, in the order of `KINDS`; `scores` is float32 [D]."""
    overlaps, crowd, in_crowd = image.overlaps, image.crowd, image.in_crowd
    same = image.same & ~crowd
    own, other = np.where(same, overlaps, 0.0), np.where(same | crowd, 0.0, overlaps)
    missed, covered, kinds = ~crowd, np.zeros(len(crowd), np.bool_), []
    wrong = [place for place in _unmatched(own, missed, np.argsort(-scores, kind="stable")) if not in_crowd[place]]
    for place in wrong:
        near, far = own[place].max(initial=0.0), other[place].max(initial=0.0)
        if _BACKGROUND <= near < IOU_THRESHOLD:
            kinds.append("localisation")
            covered[own[place].argmax()] = True
        elif far >= IOU_THRESHOLD:
            kinds.append("class")
            covered[other[place].argmax()] = True
        elif near >= IOU_THRESHOLD:
            kinds.append("duplicate")
        else:
            kinds.append("both" if far > _BACKGROUND else "background")
    return [*(kinds.count(kind) for kind in list(KINDS)[:-1]), int((missed & ~covered).sum())]


def _unmatched(own: NDArray[np.float64], free: NDArray[np.bool_], order: NDArray[np.intp]) -> Iterator[int]:
    """Yield the detections that find nothing, best score first, as COCO does; clear in `free` what the others find."""
    for place in order:
        fits = np.flatnonzero(free & (own[place] >= IOU_THRESHOLD))
        if len(fits):
            free[fits[::-1][own[place, fits[::-1]].argmax()]] = False  # of equal ones the last
        else:
            yield int(place)
