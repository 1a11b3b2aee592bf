"""How detections are scored against annotations: what overlaps, and how large each one is."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from hotcoco import COCO
from hotcoco.primitives import bbox_iou, mask_iou
from numpy.typing import NDArray

from trt_workbench.vision.dataset import GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.document import FIGURES
from trt_workbench.vision.masks import Masks

Rows = NDArray[np.intp]


class Measure(abc.ABC):
    """One way to score, with the names of its figures. Without state.

    Attributes:
        kind: COCOeval's iouType.
        prefix: of its figures in metrics.json.
        words: what is scored, in the plural.
        figures: their meanings by name, in the order of COCOeval's `stats`.
    """

    kind: ClassVar[Literal["bbox", "segm"]]
    prefix: ClassVar[str]
    words: ClassVar[str]
    figures: ClassVar[Mapping[str, str]]

    @abc.abstractmethod
    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:
        """Return the overlap of some detections with some annotations, float64 [rows, objects], as COCOeval does."""

    @abc.abstractmethod
    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        """Return the area of every detection in square pixels."""

    @abc.abstractmethod
    def coco(
        self, named: tuple[list[Any], list[Any]], truth: GroundTruth, found: DetectionTable, places: Sequence[Rows]
    ) -> tuple[COCO, COCO]:
        """Return annotations and detections as hotcoco takes them.

        Args:
            named: its images and categories.
            truth: the annotations.
            found: the detections.
            places: of the images and categories of the annotations, then of the detections.
        """


class _Boxes(Measure):
    """Boxes, by iouType "bbox"."""

    kind = "bbox"
    prefix: ClassVar[str] = ""
    words: ClassVar[str] = "boxes"
    figures: ClassVar[Mapping[str, str]] = FIGURES

    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:
        return np.asarray(bbox_iou(found.boxes[rows].astype(np.float64), truth.boxes[objects], truth.crowd[objects]))

    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        sides = found.boxes[:, 2:].astype(np.float64)
        areas: NDArray[np.float64] = sides[:, 0] * sides[:, 1]
        return areas

    def coco(
        self, named: tuple[list[Any], list[Any]], truth: GroundTruth, found: DetectionTable, places: Sequence[Rows]
    ) -> tuple[COCO, COCO]:
        expected = COCO.from_arrays(
            named[0], named[1], places[0], places[1], truth.boxes, area=truth.areas, iscrowd=truth.crowd
        )
        return expected, expected.load_res(_results(found, places))


class _Masks(Measure):
    """Masks, by iouType "segm". A detection is as large as its mask, as in COCO's own results, which hold no boxes."""

    kind = "segm"
    prefix: ClassVar[str] = "mask_"
    words: ClassVar[str] = "masks"
    figures: ClassVar[Mapping[str, str]] = {name: f"{text}, of masks" for name, text in FIGURES.items()}

    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:
        crowd = truth.crowd[objects].tolist()
        return np.asarray(mask_iou(masks_of(found).encoded(rows), masks_of(truth).encoded(objects), crowd))

    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        return masks_of(found).areas()

    def coco(
        self, named: tuple[list[Any], list[Any]], truth: GroundTruth, found: DetectionTable, places: Sequence[Rows]
    ) -> tuple[COCO, COCO]:
        own, theirs = masks_of(truth), masks_of(found)
        expected = COCO.from_arrays(
            named[0],
            named[1],
            places[0],
            places[1],
            truth.boxes,
            area=truth.areas,
            iscrowd=truth.crowd,
            segmentation=[*own.encoded()],
        )
        results = expected.load_res(_results(found, places), segmentation=[*theirs.encoded()])
        results.update_anns(ids=np.arange(1, len(found) + 1), area=theirs.areas())
        return expected, results


def masks_of(table: DetectionTable | GroundTruth) -> Masks:
    """Return the masks of detections or annotations; none where nothing was found."""
    if table.extra is None:
        assert not len(table)  # a model for masks gives one to each box
        return Masks(np.empty((0, 2), np.int32), ())
    assert isinstance(table.extra, Masks)
    return table.extra


def _results(found: DetectionTable, places: Sequence[Rows]) -> NDArray[np.float64]:
    return np.column_stack((places[2], found.boxes, found.scores, places[3])).astype(np.float64)


BOXES, MASKS = _Boxes(), _Masks()
