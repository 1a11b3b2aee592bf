"""YOLOX: `[N, A, 5 + C]`, one row a grid cell: box, objectness, one score a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

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
    cell_counts,
    cells,
    class_count,
    corners,
)

# Every n-th cell is sampled to distinguish raw from decoded boxes; a prime n does not stay in one column.
_SAMPLE = 11


@dataclass(frozen=True)
class YoloX(Family):
    """The best class of every cell whose objectness times class score reaches the threshold is a candidate.

    Source: YOLOX's `postprocess` with its `nmsthre` of 0.65, its `COCOEvaluator.convert_to_coco_format`, which divides
    boxes by one ratio and does not clip them, and its `preproc` (BGR, 0 to 255, sides rounded down, image at the top
    left, padding 114).

    An export with `--decode_in_inference` holds centres and sizes in input pixels; without it, offsets within the cell
    and logarithms of the size in cells. Shapes are alike, so the values decide: centres lie near their own cell in
    pixels, offsets near zero; whichever deviation is smaller in the median wins. `encoding` overrules that.

    Attributes:
        encoding: "raw", "decoded", or "by-value" to decide as above.
    """

    name: ClassVar[str] = "yolox"
    default_iou: ClassVar[float | None] = 0.65
    clips_boxes: ClassVar[bool] = False
    one_ratio: ClassVar[bool] = True
    shape_text: ClassVar[str] = "[N, A, 5 + classes] (box, objectness, scores)"

    encoding: Literal["by-value", "raw", "decoded"] = "by-value"

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family, or raise DoesNotFit."""
        if len(output.shape) != 3:
            raise DoesNotFit(f"the shape is not {cls.shape_text}")
        _, anchors, columns = output.shape
        count = class_count(columns, 5, facts, f"rows of {columns} values", "box and objectness")
        if not facts.forced:
            if "ultralytics" in facts.exporter:
                raise DoesNotFit("the metadata names the exporter of Ultralytics, which has no YOLOX")
            if facts.names is None and columns == 84:
                raise DoesNotFit("rows of 84 values could also be a transposed yolov8 head with COCO's 80 classes")
        _refuse_other_grids(anchors, facts)
        return cls(output, count, facts)

    def transform(self, height: int | None = None, width: int | None = None) -> ImageTransform:
        """Return YOLOX's preprocessing: BGR grey levels as they are, sides rounded down, top left, padding 114."""
        return ImageTransform(
            height=height or self.facts.input_size[0],
            width=width or self.facts.input_size[1],
            placement="top-left",
            rounding="down",
            channels="bgr",
            scale=1.0,
            layout=self.facts.layout,
            dtype=self.facts.dtype,
        )

    def head(self, shapes: Mapping[str, tuple[int, ...]], settings: DecodeSettings) -> Head | None:
        """Return what is done with outputs of these shapes, as `Family.head`."""
        _, count, columns = shapes[self.output.name]
        strides = cell_counts(*self.input_size).get(count)
        if strides is None or self.class_count is None or columns != 5 + self.class_count or not settings.conf:
            return None
        name = self.output.name
        return Head(
            *self.input_size,
            items=count,
            classes=self.class_count,
            kind="cells",
            boxes=Place(name, 0, columns),
            scores=Place(name, 5, columns),
            objectness=Place(name, 4, columns),
            form="centre",
            sizes=self.encoding,
            strides=strides,
            conf=settings.conf,
            iou=self.overlap(settings),
            max_dets=settings.max_dets,
        )

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        strides = cell_counts(*self.facts.input_size).get(image.shape[0])
        if strides is None or self.class_count is None or image.shape[1] != 5 + self.class_count:
            height, width = self.facts.input_size
            raise UsageProblem(
                f"Output {self.output.name} has shape {list(image.shape)} per image; {self.name} expects "
                f"{self.shape_text} for an input of {height}x{width} pixels."
            )
        objectness = image[:, 4]
        self.check_scores(objectness, "objectness values")
        # A product of probabilities is at most its first factor: most cells need no look at their classes.
        likely = np.flatnonzero(objectness >= conf)
        classes = image[likely, 5:]
        self.check_scores(classes)
        labels = classes.argmax(axis=1)
        scores = objectness[likely] * classes[np.arange(len(likely)), labels]
        keep = scores >= conf
        rows = likely[keep]
        return Detections(self._boxes(image, rows, strides), scores[keep], labels[keep].astype(np.int64, copy=False))

    def _boxes(
        self, image: NDArray[np.float32], rows: NDArray[np.intp], strides: tuple[int, ...]
    ) -> NDArray[np.float32]:
        origin, stride = cells(*self.facts.input_size, strides)
        centre_x, centre_y, width, height = image[rows, :4].T
        if self.encoding == "raw" or (self.encoding == "by-value" and _is_raw(image, origin)):
            origin, stride = origin[rows], stride[rows]
            centre_x, centre_y = centre_x * stride + origin[:, 0], centre_y * stride + origin[:, 1]
            with np.errstate(over="ignore"):  # an infinite size is reported with the other non-finite values
                width, height = np.exp(width) * stride, np.exp(height) * stride
        return corners(centre_x, centre_y, width, height)


def _is_raw(image: NDArray[np.float32], origin: NDArray[np.float32]) -> bool:
    centres = image[::_SAMPLE, :2]
    return bool(np.median(np.abs(centres)) < np.median(np.abs(centres - origin[::_SAMPLE])))


def _refuse_other_grids(anchors: int | None, facts: DetectorFacts) -> None:
    if anchors is None:
        return
    height, width = facts.input_size
    counts = cell_counts(height, width)
    if anchors % 3 == 0 and anchors // 3 in counts:
        raise DoesNotFit(f"{anchors} rows are three anchors per cell: a YOLOv5 or YOLOv7 head, which is not supported")
    if anchors not in counts:
        raise DoesNotFit(f"{anchors} rows do not match the grid cells of a {height}x{width} input")
