"""Keypoints of objects, in pixels of the model's input or of the image: those of annotations and those of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.extras import Restored
from trt_workbench.vision.letterbox import Geometry


@dataclass(frozen=True)
class Keypoints(Restored):
    """The same number of points for each box.

    Attributes:
        points: float [K, n, 3], x, y and visibility: of annotations 0, 1 or 2, of a model 0 to 1.
        labelled: int64 [K], how many of them annotators gave; of a model all.
    """

    words: ClassVar[str] = "keypoints"
    fills: ClassVar[bool] = False
    points: NDArray[Any]
    labelled: NDArray[np.int64]

    @classmethod
    def of_model(cls, values: NDArray[np.float32], shape: tuple[int, int]) -> Keypoints:
        """Return what a model gives: float32 [K, n * d] with d of 2, without visibility, or 3."""
        points = values.reshape(len(values), *shape)
        if shape[1] == 2:
            points = np.concatenate([points, np.ones_like(points[..., :1])], axis=2)
        return cls(points, np.full(len(points), shape[0], np.int64))

    def take(self, rows: NDArray[np.intp]) -> Keypoints:
        """Return the points of some boxes."""
        return Keypoints(self.points[rows], self.labelled[rows])

    def restore(self, boxes: NDArray[np.float32], geometry: Geometry) -> Keypoints:  # noqa: ARG002 - as of every extra
        """Map the points to the image and confine them to it, as Ultralytics' `scale_coords` does."""
        points, (height, width) = self.points.copy(), geometry.source
        for place, shift, scale, side in (
            (0, geometry.left, geometry.scale_x, width),
            (1, geometry.top, geometry.scale_y, height),
        ):
            points[..., place] = ((points[..., place] - shift) / np.float32(scale)).clip(0, side)
        return Keypoints(points, self.labelled)

    @classmethod
    def joined(cls, parts: Sequence[Keypoints]) -> Keypoints:
        """Return the points of several images."""
        return cls(np.concatenate([one.points for one in parts]), np.concatenate([one.labelled for one in parts]))

    def __len__(self) -> int:
        return len(self.points)

    def entries(self, rows: slice) -> list[dict[str, Any]]:
        """Return COCO's `keypoints` of some boxes."""
        return [{"keypoints": one} for one in self.flat()[rows].tolist()]

    def flat(self) -> NDArray[Any]:
        """Return x, y, visibility of all points of each box in a row, as COCO has them."""
        return self.points.reshape(len(self), 3 * self.points.shape[1])

    def areas(self) -> NDArray[np.float64]:
        """Return the areas that the points of each span, as pycocotools takes them of results without boxes."""
        places = self.points[..., :2].astype(np.float64)
        sides: NDArray[np.float64] = (places.max(axis=1) - places.min(axis=1)).prod(axis=-1)
        return sides

    def spans(self) -> NDArray[np.float64]:
        """Return x, y, width and height of what the points that were given reach; NaN where there is none."""
        given = self.points[..., 2:] > 0
        places = np.where(given, self.points[..., :2], np.nan).astype(np.float64)
        low, high = np.fmin.reduce(places, axis=1), np.fmax.reduce(places, axis=1)
        return np.concatenate([low, high - low], axis=1)


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
