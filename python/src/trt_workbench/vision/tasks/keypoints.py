"""Keypoints: what a model for poses finds in addition to boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.boxes import FAR
from trt_workbench.vision.extras import TaskName
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.keypoints import COCO_SIGMAS, Keypoints
from trt_workbench.vision.measure import BOXES, KEYPOINTS
from trt_workbench.vision.tasks.base import VisionTask, are_places, changed, described

if TYPE_CHECKING:
    from trt_workbench.vision.dataset import GroundTruth
    from trt_workbench.vision.families.base import Family

_SHOWN = 0.5  # visibility of a model's point that is drawn
# Limbs of COCO's 17 points, as chains.
_LIMBS = ((9, 7, 5, 6, 8, 10), (5, 11, 13, 15), (6, 12, 14, 16), (11, 12), (3, 1, 0, 2, 4))


class Poses(VisionTask):
    """Boxes with keypoints, scored by their similarity (OKS) as COCO does."""

    name: ClassVar[TaskName] = "keypoints"
    words: ClassVar[str] = "poses"
    keys: ClassVar[frozenset[str]] = frozenset({"keypoints"})
    measures: ClassVar[tuple[Measure, ...]] = (BOXES, KEYPOINTS)

    def truth(self, rows: Sequence[Mapping[str, Any]], sizes: Sequence[tuple[int | None, int | None]]) -> Keypoints:  # noqa: ARG002
        """Return the keypoints of annotations."""
        points = [_points(row, place) for place, row in enumerate(rows)]
        if len(counts := {len(one) for one in points}) > 1:
            raise ValueError(f"its annotations have different numbers of keypoints ({sorted(counts)})")
        stacked = np.array(points, np.float64).reshape(len(rows), -1, 3)
        seen = (stacked[..., 2] > 0).sum(axis=1)
        labelled = [row.get("num_keypoints", count) for row, count in zip(rows, seen.tolist(), strict=True)]
        if not all(isinstance(one, int) and one >= 0 for one in labelled):
            raise ValueError("num_keypoints is not a whole number everywhere")
        return Keypoints(stacked, np.array(labelled, np.int64))

    def found(self, rows: Sequence[Mapping[str, Any]]) -> Keypoints:
        """Return the keypoints of rows of predictions.json."""
        try:
            points = np.array([row["keypoints"] for row in rows], np.float32)
            points = points.reshape(len(rows), points.shape[1] // 3 if len(rows) else 1, 3)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise changed(f"they hold no keypoints ({error})") from error
        return Keypoints(points, np.full(len(points), points.shape[1], np.int64))

    def notes(self, family: Family, truth: GroundTruth) -> list[str]:
        """Compare the numbers of points."""
        assert isinstance(truth.extra, Keypoints)  # as it was read
        own, theirs = family.facts.keypoints, truth.extra.points.shape[1]
        if own and len(truth) and own[0] != theirs:
            raise UsageProblem(
                f"The model finds {own[0]} keypoints and the annotations have {theirs}; they must be the same ones."
            )
        if not (truth.extra.labelled[~truth.crowd] > 0).any():
            raise UsageProblem("No annotation has a labelled keypoint, so there is nothing to score.")
        if theirs == len(COCO_SIGMAS):
            return []
        return [
            f"COCO defines tolerances only for its 17 keypoints; each of these {theirs} has 1/{theirs}, as Ultralytics."
        ]

    def paint(
        self, image: NDArray[np.uint8], entry: Mapping[str, Any], scale: float, colour: tuple[int, int, int]
    ) -> None:
        """Draw the points, and the limbs of COCO's."""
        flat = entry.get("keypoints")
        if not isinstance(flat, list) or not flat or len(flat) % 3:
            return
        points = np.array(flat, np.float64).reshape(-1, 3)
        places = (points[:, :2] * scale).clip(-FAR, FAR).round().astype(int).tolist()
        shown = points[:, 2] >= (_SHOWN if "score" in entry else 1)
        limbs = [pair for chain in _LIMBS for pair in pairwise(chain)] if len(points) == len(COCO_SIGMAS) else []
        for first, second in limbs:
            if shown[first] and shown[second]:
                cv2.line(image, places[first], places[second], colour, 1, cv2.LINE_AA)
        for place in np.flatnonzero(shown):
            cv2.circle(image, places[place], 3, colour, -1, cv2.LINE_AA)


def _points(row: Mapping[str, Any], place: int) -> list[list[float]]:
    flat, which = row.get("keypoints"), described(row, place)
    if not flat:
        raise ValueError(f"{which} has no keypoints, only a box, but the model finds keypoints")
    if not isinstance(flat, list) or len(flat) % 3 or not are_places(flat):
        raise ValueError(f"{which} has keypoints that are not x, y, visibility of each as numbers up to 2^24")
    points = [flat[start : start + 3] for start in range(0, len(flat), 3)]
    if any(one[2] not in (0, 1, 2) for one in points):
        raise ValueError(f"{which} has a visibility of a keypoint that is not 0, 1 or 2")
    return points
