"""Boxes at an angle: those of annotations and those of a model, what they share, and which of them overlap too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.extras import Restored
from trt_workbench.vision.letterbox import Geometry

_EPS: Final = np.float32(1e-7)  # of Ultralytics' `batch_probiou`
_AT_ONCE = 4096  # pairs of boxes whose shared area is worked out together
_BLOCK = 1024  # candidates that are compared with as many better ones together


@dataclass(frozen=True)
class RotatedBoxes(Restored):
    """One rotated box for each box, which encloses it.

    Attributes:
        boxes: float [K, 5], centre x, centre y, width, height, and the angle of the width in radians, clockwise as y
            points down.
    """

    words: ClassVar[str] = "rotated boxes"
    boxes: NDArray[Any]

    @classmethod
    def of_corners(cls, corners: NDArray[np.float64]) -> RotatedBoxes:
        """Return the smallest rotated boxes around four corners each, [K, 4, 2], as Ultralytics reads labels."""
        found = [cv2.minAreaRect(one.astype(np.float32)) for one in corners]
        rows = [(*centre, *sides, np.deg2rad(angle)) for centre, sides, angle in found]
        return cls(np.array(rows, np.float64).reshape(-1, 5))

    def take(self, rows: NDArray[np.intp]) -> RotatedBoxes:
        """Return the boxes at these indices."""
        return RotatedBoxes(self.boxes[rows])

    def restore(self, boxes: NDArray[np.float32], geometry: Geometry) -> RotatedBoxes:  # noqa: ARG002 - as of every extra
        """Map the boxes to the image, sides by the scales of the axes, as Ultralytics' `scale_boxes` does."""
        scale, shift = (geometry.scale_x, geometry.scale_y), (geometry.left, geometry.top)
        restored = self.boxes - np.array([*shift, 0, 0, 0], self.boxes.dtype)
        return RotatedBoxes(restored / np.array([*scale, *scale, 1], self.boxes.dtype))

    @classmethod
    def joined(cls, parts: Sequence[RotatedBoxes]) -> RotatedBoxes:
        """Return the boxes of several images."""
        return cls(np.concatenate([one.boxes for one in parts]))

    def __len__(self) -> int:
        return len(self.boxes)

    def entries(self, rows: slice) -> list[dict[str, Any]]:
        """Return `rbox` as Ultralytics writes it, and the corners as a polygon."""
        pairs = zip(self.boxes[rows].tolist(), self.corners()[rows].reshape(-1, 8).tolist(), strict=True)
        return [{"rbox": box, "segmentation": [polygon]} for box, polygon in pairs]

    def corners(self) -> NDArray[Any]:
        """Return the four corners, [K, 4, 2], in the order of Ultralytics' `xywhr2xyxyxyxy`."""
        centre, sides, angle = self.boxes[:, :2], self.boxes[:, 2:4] / 2, self.boxes[:, 4]
        along = np.stack([np.cos(angle), np.sin(angle)], axis=1) * sides[:, :1]
        across = np.stack([-np.sin(angle), np.cos(angle)], axis=1) * sides[:, 1:]
        signs = ((1, 1), (1, -1), (-1, -1), (-1, 1))
        return np.stack([centre + one * along + other * across for one, other in signs], axis=1)

    def enclosing(self) -> NDArray[np.float32]:
        """Return the boxes around the corners, float32 [K, 4], x1, y1, x2, y2."""
        corners = self.corners()
        return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1).astype(np.float32)

    def spans(self) -> NDArray[np.float64]:
        """Return x, y, width and height of the boxes around the corners."""
        found = self.enclosing().astype(np.float64)
        return np.concatenate([found[:, :2], found[:, 2:] - found[:, :2]], axis=1)

    def areas(self) -> NDArray[np.float64]:
        """Return width times height."""
        sides: NDArray[np.float64] = self.boxes[:, 2:4].astype(np.float64).prod(axis=1)
        return sides


def overlaps(found: RotatedBoxes, truth: RotatedBoxes, crowd: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the exact intersection over union, float64 [D, G]; over the detection's area where `crowd` [G] is true."""
    own, theirs = (RotatedBoxes(one.boxes.astype(np.float64)) for one in (found, truth))
    reach, other = (np.hypot(one.boxes[:, 2], one.boxes[:, 3]) / 2 for one in (own, theirs))
    apart = np.hypot(*(own.boxes[:, None, :2] - theirs.boxes[None, :, :2]).transpose(2, 0, 1))
    rows, columns = np.nonzero(apart < reach[:, None] + other)
    shared, corners = np.zeros(apart.shape), own.corners()
    for start in range(0, len(rows), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        shared[rows[part], columns[part]] = _shared(corners[rows[part]], theirs.boxes[columns[part]])
    whole = own.areas()[:, None] + np.where(crowd, 0, theirs.areas() - shared)
    return np.divide(shared, whole, out=np.zeros_like(shared), where=whole > 0)


def _shared(corners: NDArray[np.float64], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the area that each quadrilateral [P, 4, 2] shares with the rotated box [P, 5] of its row.

    In the box's own axes each of its sides cuts off what lies beyond. A corner beyond is moved onto the side, where its
    way back and forth encloses nothing, so that all polygons keep as many corners as each other.
    """
    turn = np.stack([np.cos(boxes[:, 4]), np.sin(boxes[:, 4])], axis=1)
    apart = corners - boxes[:, None, :2]
    x = (apart * turn[:, None]).sum(axis=2)
    y = apart[..., 1] * turn[:, :1] - apart[..., 0] * turn[:, 1:]
    for side, place in ((boxes[:, 2:3] / 2, 0), (boxes[:, 3:4] / 2, 1)):
        for sign in (1, -1):
            x, y = _cut(x, y, side, sign) if place == 0 else _cut(y, x, side, sign)[::-1]
    twice = (x * np.roll(y, -1, axis=1) - np.roll(x, -1, axis=1) * y).sum(axis=1)
    return np.asarray(np.abs(twice) / 2)


def _cut(
    along: NDArray[np.float64], across: NDArray[np.float64], limit: NDArray[np.float64], sign: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut polygons off where `sign` times a coordinate is above a limit; [P, n] becomes [P, 2 n] with the crossings."""
    beyond = sign * along - limit
    kept = np.where(beyond > 0, sign * limit, along)
    following, after = np.roll(across, -1, axis=1), np.roll(beyond, -1, axis=1)
    crosses = beyond * after < 0
    share = np.divide(beyond, beyond - after, out=np.zeros_like(beyond), where=crosses)
    points = np.where(crosses, sign * limit, kept), np.where(crosses, across + share * (following - across), across)
    pairs = ((kept, points[0]), (across, points[1]))
    first, second = (np.stack(pair, axis=2).reshape(len(along), -1) for pair in pairs)
    return first, second


def probabilistic_iou(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the similarity of the Gaussians of rotated boxes [N, 5] and [M, 5], float32 [N, M].

    Source: Llerena et al., Gaussian Bounding Boxes and Probabilistic Intersection-over-Union, as Ultralytics'
    `batch_probiou` computes it.
    """
    (x1, y1, a1, b1, c1), (x2, y2, a2, b2, c2) = _gaussians(one)[..., None], _gaussians(other)[:, None]
    a, b, c, dx, dy = a1 + a2, b1 + b2, c1 + c2, x1 - x2, y1 - y2
    with np.errstate(over="ignore", invalid="ignore"):
        whole = a * b - c**2
        places = (a * dy**2 + b * dx**2) / (whole + _EPS) * np.float32(0.25) - c * dx * dy / (whole + _EPS) / 2
        sizes = np.sqrt(np.maximum(a1 * b1 - c1**2, 0) * np.maximum(a2 * b2 - c2**2, 0))
        distance = places + np.log(whole / (4 * sizes + _EPS) + _EPS) / 2
        found: NDArray[np.float32] = 1 - np.sqrt(1 - np.exp(-np.clip(distance, _EPS, 100)) + _EPS)
    return found


def _gaussians(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return centre x, y and the covariances a, b, c of boxes: float32 [5, N]."""
    x, y, width, height, angle = boxes.T
    first, second, cos, sin = width**2 / 12, height**2 / 12, np.cos(angle), np.sin(angle)
    a, b = first * cos**2 + second * sin**2, first * sin**2 + second * cos**2
    return np.stack([x, y, a, b, (first - second) * cos * sin])


def rotated_nms(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], labels: NDArray[np.int64], iou: float, limit: int
) -> NDArray[np.intp]:
    """Return the indices of boxes [K, 5] that no better one of their class resembles, by descending score.

    As Ultralytics' `fast_nms`: a box is dropped for a better one even where that is dropped itself.
    """
    order = np.argsort(-scores, kind="stable")
    kept = []
    for label in np.unique(labels):
        mine = order[labels[order] == label]
        survivors = 0
        for start in range(0, len(mine), _BLOCK):
            block = mine[start : start + _BLOCK]
            dropped, end = np.zeros(len(block), np.bool_), start + len(block)
            for first in range(0, end, _BLOCK):
                better = np.arange(first, min(first + _BLOCK, end))
                alike = probabilistic_iou(boxes[mine[better]], boxes[block]) > iou
                dropped |= (alike & (better[:, None] < np.arange(start, end))).any(axis=0)
            kept.append(block[~dropped])
            survivors += len(kept[-1])
            if survivors >= limit:
                break
    chosen = np.concatenate([np.empty(0, np.intp), *kept])
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    return chosen[np.argsort(rank[chosen])][:limit]
