"""Boxes with labels, drawn into a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from trt_workbench.core.errors import printable
from trt_workbench.report.style import PALETTE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FAR = 10_000.0
"""Pixels outside of every picture, which OpenCV's integers still hold."""
_RED = (40, 40, 220)  # blue, green, red


class DrawnBox(NamedTuple):
    """A box: x1, y1, x2, y2 in pixels of the picture, label, index of its colour, width of its line (0 for none)."""

    corners: tuple[float, float, float, float]
    label: str
    colour: int
    line: int = 2


def draw_boxes(image: NDArray[np.uint8], boxes: Sequence[DrawnBox]) -> None:
    """Draw into a BGR picture, the first box last, so that its label is on top."""
    import cv2

    for box in reversed(boxes):
        left, top_edge, right, bottom = (round(min(max(value, -FAR), FAR)) for value in box.corners)
        colour = bgr(box.colour)
        if box.line:
            cv2.rectangle(image, (left, top_edge), (right, bottom), colour, box.line, cv2.LINE_AA)
        # OpenCV crashes on halves of surrogate pairs
        label = printable(box.label, 100)
        (text_width, text_height), baseline = cv2.getTextSize(label, cv2.FONT_HERSHEY_SIMPLEX, 0.45, 1)
        top = max(top_edge - text_height - baseline - 2, 0)
        start = max(min(left, image.shape[1] - text_width - 4), 0)
        cv2.rectangle(image, (start, top), (start + text_width + 4, top + text_height + baseline + 2), colour, -1)
        origin = (start + 2, top + text_height + 1)
        cv2.putText(image, label, origin, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 255), 1, cv2.LINE_AA)


def frame_box(image: NDArray[np.uint8], corners: tuple[float, float, float, float]) -> None:
    """Draw a red box without a label into a BGR picture; what is outside of it, at its edge."""
    import cv2

    height, width = image.shape[:2]
    left, right = (round(min(max(value, 1), width - 2)) for value in corners[::2])
    top, bottom = (round(min(max(value, 1), height - 2)) for value in corners[1::2])
    cv2.rectangle(image, (left, top), (right, bottom), _RED, 2, cv2.LINE_AA)


def bgr(place: int) -> tuple[int, int, int]:
    """Return the colour of a class, blue, green, red."""
    colour = PALETTE[place % len(PALETTE)]
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return blue, green, red
