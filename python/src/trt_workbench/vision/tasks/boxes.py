"""Boxes: what a detector finds."""

from __future__ import annotations

from typing import ClassVar

from trt_workbench.vision.figures import Measure
from trt_workbench.vision.measure import BOXES
from trt_workbench.vision.tasks.base import VisionTask
from trt_workbench.vision.tasks.names import TaskName


class Boxes(VisionTask):
    """Boxes alone."""

    name: ClassVar[TaskName] = "boxes"
    words: ClassVar[str] = "detection"
    measures: ClassVar[tuple[Measure, ...]] = (BOXES,)
