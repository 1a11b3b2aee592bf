"""Boxes: what a detector finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trt_workbench.vision.figures import Measure
from trt_workbench.vision.measure import BOXES
from trt_workbench.vision.tasks.base import VisionTask
from trt_workbench.vision.tasks.names import TaskName


class Boxes(VisionTask):
    """Boxes alone."""

    name: ClassVar[TaskName] = "boxes"
    words: ClassVar[str] = "detection"
    measures: ClassVar[tuple[Measure, ...]] = (BOXES,)

    def truth(self, rows: Sequence[Mapping[str, Any]], sizes: Sequence[tuple[int | None, int | None]]) -> None:
        """Return nothing: boxes are read of every annotation."""

    def found(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Return nothing."""
