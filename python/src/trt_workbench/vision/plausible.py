"""Whether decoded boxes can be boxes at all: a family that does not fit the model gives nonsense, not an error."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.vision.families import DecodeSettings, Detections, Family
from trt_workbench.vision.families.recognise import others

# Boxes after which a verdict is passed while the loop runs; a run with fewer is judged at its end.
_ENOUGH = 50
# Input pixels: shares of the image, and boxes made of them, lie within this distance of the corner.
_SHARES_WITHIN = 2.0
# As multiples of the input's size: how far outside a centre may be before it counts as implausible.
_MARGIN = 1.0
# Reduced precision may invert a corner of a thin box, and a poor model places some boxes wildly: not most.
_TOO_MANY = 0.5
# A family is suggested if at most this share of its best boxes exceeds the input by this share of its size.
_FEW_BEYOND, _BEYOND, _BEST = 0.1, 0.05, 20
# Of so many boxes as centre and size, some would end before they begin if they were read as corners.
_CORNERS_FROM = 5


class BoxCheck:
    """Collects the boxes of a run before they leave the model's input, and refuses those that cannot be right.

    `add` may be called from several threads.
    """

    def __init__(self, family: Family) -> None:
        """Judge boxes that `family` decoded."""
        self._family = family
        height, width = family.input_size
        self._size = np.array([width, height], np.float32)
        self._lock = threading.Lock()
        self._count = self._reversed = self._outside = 0
        self._largest_side = self._furthest = 0.0
        self._judged = False
        self._outputs: Mapping[str, NDArray[Any]] = {}

    def add(self, found: list[Detections], outputs: Mapping[str, NDArray[Any]]) -> None:
        """Take the boxes of some images into account, which were made of these outputs.

        Raises:
            UsageProblem: boxes enough were seen, and they cannot be right.
        """
        if self._judged:
            return
        boxes = np.concatenate([one.boxes for one in found])
        if not len(boxes):
            return
        low, high = boxes[:, :2], boxes[:, 2:]
        sides, centres = high - low, (low + high) / 2
        outside = ((centres < -_MARGIN * self._size) | (centres > (1 + _MARGIN) * self._size)).any(axis=1)
        with self._lock:
            self._count += len(boxes)
            self._outputs = outputs or self._outputs  # none where a device found the boxes
            self._reversed += int((sides < 0).any(axis=1).sum())
            self._outside += int(outside.sum())
            self._largest_side = max(self._largest_side, float(np.abs(sides).max()))
            self._furthest = max(self._furthest, float(np.abs(centres).max()))
            due = not self._judged and self._count >= _ENOUGH
            self._judged = self._judged or due
        if due:
            self._judge()

    def finish(self) -> None:
        """Judge a run that had few boxes. Raises UsageProblem if they cannot be right."""
        if not self._judged and self._count:
            self._judge()

    def _judge(self) -> None:
        width, height = (int(side) for side in self._size)
        are_corners = False
        if max(self._largest_side, self._furthest) <= _SHARES_WITHIN:
            seen = (
                f"no box is larger than {self._largest_side:.3g} pixels or further than "
                f"{self._furthest:.3g} pixels from the corner: the values look like fractions of the image"
            )
            if are_corners := self._family.name == "yolov10" and not self._reversed and self._count >= _CORNERS_FROM:
                seen += ", as corners (x1, y1, x2, y2), to be multiplied by the input size"
        elif self._outside > _TOO_MANY * self._count:
            seen = (
                f"{self._outside} of {self._count} boxes lie far outside the input (up to {self._furthest:.3g} "
                "pixels): the values look like pixels that were read as fractions or as grid offsets"
            )
        elif self._reversed > _TOO_MANY * self._count:
            seen = (
                f"{self._reversed} of {self._count} boxes have a negative width or height: the values look like "
                "centre and size instead of two corners"
            )
        else:
            return
        raise UsageProblem(
            f"Boxes of family {self._family.name} in an input of {width}x{height} pixels are implausible: {seen}. "
            f"{'' if are_corners else _advice(self._family, self._outputs)}Output: {self._family.output}."
        )


def decoded(family: Family, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings) -> list[Detections]:
    """Return the boxes of each image as `family.decode`; a refusal names the families that were tried and would do."""
    try:
        return family.decode(outputs, settings)
    except UsageProblem as problem:
        raise UsageProblem(f"{problem} {_advice(family, outputs)}".rstrip()) from problem


def _advice(family: Family, outputs: Mapping[str, NDArray[Any]]) -> str:
    """Say which other families make plausible boxes of some outputs, with a blank at the end."""
    fitting = [name for name, other in others(family) if _looks_right(other, outputs)]
    if fitting:
        return f"Try --family {' or '.join(fitting)}: its boxes lie inside the images. "
    return (
        "No other family gives boxes inside the images: check the export, which must have one of the formats in "
        "docs/reference/commands/eval-coco.md. "
    )


def _looks_right(family: Family, outputs: Mapping[str, NDArray[Any]]) -> bool:
    try:
        found = family.decode(outputs, DecodeSettings(max_dets=_BEST))
    except (UsageProblem, CheckFailed):
        return False
    height, width = family.input_size
    boxes, size = np.concatenate([one.boxes for one in found]), np.array([width, height] * 2, np.float32)
    beyond = ((boxes < -_BEYOND * size) | (boxes > (1 + _BEYOND) * size)).any(axis=1)
    shares = np.abs(boxes).max(initial=0) <= _SHARES_WITHIN
    return bool(len(boxes) and not shares and (boxes[:, 2:] > boxes[:, :2]).all() and beyond.mean() <= _FEW_BEYOND)
