"""RT-DETR as Ultralytics exports it: one row a query, its box as shares of the image."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import Head, ImageTransform, Place
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families.base import (
    DecodeSettings,
    Detections,
    DetectorFacts,
    DoesNotFit,
    Family,
    row_detections,
    rows_head,
)


@dataclass(frozen=True)
class Detr(Family):
    """A row is centre x, centre y, width, height as shares of the image; no suppression.

    Since May 2026 (Ultralytics' pull request 24403) score and class follow, taken from the best pairs of query and
    class; before, one score a class followed, of which each query's best counts. Rows of 6 values could be either where
    the model has two classes: the sixth column then holds only 0 and 1, or scores.

    Source: Ultralytics' `RTDETRDecoder`, `RTDETRPredictor` (the image is stretched to the input, RGB, 0 to 1) and
    `RTDETRValidator`, which does not clip boxes.
    """

    name: ClassVar[str] = "detr"
    default_iou: ClassVar[float | None] = None
    clips_boxes: ClassVar[bool] = False
    shape_text: ClassVar[str] = "[N, K, 6] (centre x, centre y, width, height as fractions, score, class)"

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family, or raise DoesNotFit. Its rows look like those of others: metadata or the user name it."""
        if not (facts.forced or facts.is_rt_detr):
            raise DoesNotFit("neither `head` nor `description` in the metadata names RT-DETR")
        named = facts.named
        if len(output.shape) != 3:
            raise DoesNotFit(f"the shape is not {cls.shape_text}")
        columns = output.shape[2]
        if columns in (6, None):
            return cls(output, named, facts)
        if columns < 5 or named not in (None, columns - 4):
            text = f"rows of {columns} values are neither {cls.shape_text} nor a box with one score per class"
            raise DoesNotFit(text)
        return cls(output, columns - 4, facts)

    def transform(self, height: int | None = None, width: int | None = None) -> ImageTransform:
        """Return RT-DETR's preprocessing: stretched to the input, without padding."""
        return dataclasses.replace(super().transform(height, width), placement="stretch")

    def head(self, shapes: Mapping[str, tuple[int, ...]], settings: DecodeSettings) -> Head | None:
        """Return what is done with outputs of these shapes, as `Family.head`; None where values say what they are."""
        name = self.output.name
        _, rows, columns = shapes[name]
        if columns == 6 and self.class_count != 2:
            return dataclasses.replace(rows_head(self, name, columns, rows, settings), form="shares")
        if self.class_count is None or columns != 4 + self.class_count or columns == 6:
            return None
        return Head(
            *self.input_size,
            items=rows,
            classes=self.class_count,
            kind="best",
            boxes=Place(name, 0, columns),
            scores=Place(name, 4, columns),
            form="shares",
            conf=settings.conf,
            max_dets=settings.max_dets,
        )

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        columns = image.shape[1]
        if columns == 6 and (self.class_count != 2 or bool(((image[:, 5] == 0) | (image[:, 5] == 1)).all())):
            rows, scores, labels = row_detections(self, image, conf)
        elif self.class_count is not None and columns == 4 + self.class_count:
            self.check_scores(image[:, 4:])
            best, labels = image[:, 4:].max(axis=1), image[:, 4:].argmax(axis=1)
            keep = best > conf
            rows, scores, labels = image[keep], best[keep], labels[keep].astype(np.int64, copy=False)
        else:
            raise UsageProblem(
                f"Output {self.output.name} has rows of {columns} values; {self.name} expects {self.shape_text}."
            )
        return Detections(self.corners_of_shares(rows[:, :4]), scores, labels)
