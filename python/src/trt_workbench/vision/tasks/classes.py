"""Classes of whole images: what a classifier finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trt_workbench.vision.document import ImageRecord
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.tasks.base import Corners, VisionTask
from trt_workbench.vision.tasks.names import TaskName
from trt_workbench.vision.top_classes import RANKS, TOP_CLASSES

_LINE = 20.0  # pixels of a label


class ImageClasses(VisionTask):
    """Classes, the best first, each with its whole image as a box."""

    name: ClassVar[TaskName] = "classes"
    words: ClassVar[str] = "classification"
    rules: ClassVar[str] = "Classification"
    of_images: ClassVar[bool] = True
    most: ClassVar[int | None] = RANKS
    measures: ClassVar[tuple[Measure, ...]] = (TOP_CLASSES,)
    framed: ClassVar[bool] = False

    def truth(self, rows: Sequence[Mapping[str, Any]], sizes: Sequence[tuple[int | None, int | None]]) -> None:
        """Return nothing: the category is all there is."""

    def found(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Return nothing."""

    def verdict(self, record: ImageRecord) -> str:
        """Say whether the best class of an image is right."""
        return "right" if record["true_positives"] else "wrong"

    def label_place(self, box: Corners, place: int) -> Corners:
        """Return a place below the labels of better classes; a label is drawn above the box."""
        return (box[0], box[1] + (place + 1) * _LINE, *box[2:])
