"""Boxes at an angle: what a model for oriented boxes finds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.boxes import FAR
from trt_workbench.vision.extras import TaskName
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.measure import ROTATED
from trt_workbench.vision.rotated import RotatedBoxes
from trt_workbench.vision.tasks.base import VisionTask, changed, described, require_polygon

_UNSAFE = re.compile(r"[^\w.+-]+")


class OrientedBoxes(VisionTask):
    """Rotated boxes alone; of annotations one polygon of four corners."""

    name: ClassVar[TaskName] = "rotated"
    words: ClassVar[str] = "oriented boxes"
    keys: ClassVar[frozenset[str]] = frozenset({"segmentation"})
    measures: ClassVar[tuple[Measure, ...]] = (ROTATED,)
    framed: ClassVar[bool] = False

    def truth(self, rows: Sequence[Mapping[str, Any]], sizes: Sequence[tuple[int | None, int | None]]) -> RotatedBoxes:  # noqa: ARG002
        """Return the rotated boxes of annotations."""
        corners = [_corners(row, place) for place, row in enumerate(rows)]
        return RotatedBoxes.of_corners(np.array(corners, np.float64).reshape(-1, 4, 2))

    def found(self, rows: Sequence[Mapping[str, Any]]) -> RotatedBoxes:
        """Return the rotated boxes of rows of predictions.json."""
        try:
            return RotatedBoxes(np.array([row["rbox"] for row in rows], np.float32).reshape(len(rows), 5))
        except (KeyError, TypeError, ValueError) as error:
            raise changed(f"they hold no rotated boxes ({error})") from error

    def append(self, folder: Path, image: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append the objects of an image to `dota/Task1_CLASS.txt`: its name, a score and eight coordinates a line."""
        for row in rows:
            (polygon,) = row["segmentation"]
            line = " ".join([_UNSAFE.sub("-", image), f"{row['score']:.5f}", *(f"{one:.3f}" for one in polygon)])
            file = folder / "dota" / f"Task1_{_UNSAFE.sub('-', row['class_name'])}.txt"
            file.parent.mkdir(exist_ok=True)
            with file.open("a", encoding="utf-8") as opened:
                opened.write(line + "\n")

    def paint(
        self, image: NDArray[np.uint8], entry: Mapping[str, Any], scale: float, colour: tuple[int, int, int]
    ) -> None:
        """Draw the outline."""
        try:
            corners = np.array(_corners(entry, 0), np.float64).reshape(4, 1, 2) * scale
        except ValueError:  # an annotation file that was changed since
            return
        cv2.polylines(image, [corners.clip(-FAR, FAR).round().astype(np.int32)], True, colour, 2, cv2.LINE_AA)


def _corners(row: Mapping[str, Any], place: int) -> list[float]:
    found, which = row.get("segmentation"), described(row, place)
    if not found:
        raise ValueError(f"{which} has no segmentation, only a box, but the model finds rotated boxes")
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], list):
        raise ValueError(f"{which} has a segmentation that is not one polygon, as a rotated box is")
    corners: list[float] = found[0]
    require_polygon(corners, which)
    if len(corners) != 8:
        raise ValueError(f"{which} has a polygon of {len(corners) // 2} points; a rotated box has four corners")
    return corners
