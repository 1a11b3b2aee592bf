"""Classes of pixels: what a model for semantic segmentation finds."""

from __future__ import annotations

from typing import ClassVar

from trt_workbench.vision.figures import Measure
from trt_workbench.vision.mean_iou import MEAN_IOU
from trt_workbench.vision.tasks.masks import InstanceMasks
from trt_workbench.vision.tasks.names import TaskName


class SemanticMasks(InstanceMasks):
    """A mask a class of each image; of annotations all masks of a class are one, and those of crowds are not scored."""

    name: ClassVar[TaskName] = "semantic"
    words: ClassVar[str] = "semantic segmentation"
    rules: ClassVar[str] = "Semantic segmentation"
    measures: ClassVar[tuple[Measure, ...]] = (MEAN_IOU,)
    framed: ClassVar[bool] = False
