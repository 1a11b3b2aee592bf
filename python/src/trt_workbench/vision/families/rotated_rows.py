"""Rotated boxes of Ultralytics' heads: centre, size and, last in a row, an angle in radians."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families.base import Detections, Family
from trt_workbench.vision.rotated import RotatedBoxes, rotated_nms

# Radians of trained heads lie within a turn; of angles in degrees most do not.
_TURN, _TOO_MANY = 2 * np.pi, 0.5


def rotated_detections(
    family: Family,
    boxes: NDArray[np.float32],
    scores: NDArray[np.float32],
    labels: NDArray[np.int64],
    angles: NDArray[np.float32],
) -> Detections:
    """Return boxes [K, 4] as centre and size with angles [K, 1]; those of `Detections` enclose them.

    Raises:
        UsageProblem: the angles look like degrees.
    """
    if len(angles) and (np.abs(angles) > _TURN).mean() > _TOO_MANY:
        raise UsageProblem(
            f"Most angles in output {family.output} are beyond a turn, up to {np.abs(angles).max():.4g}: they look "
            f"like degrees, but family {family.name} takes radians."
        )
    extra = RotatedBoxes(np.concatenate([boxes, angles], axis=1))
    return Detections(extra.enclosing(), scores, labels, extra)


def rotated_survivors(found: Detections, iou: float, limit: int) -> NDArray[np.intp]:
    """Return the indices of the boxes that no better one of their class resembles, by probabilistic IoU."""
    assert isinstance(found.extra, RotatedBoxes)  # as above
    return rotated_nms(found.extra.boxes, found.scores, found.labels, iou, limit)
