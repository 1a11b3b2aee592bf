"""How detections are scored against annotations: what overlaps, and how large each one is."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from hotcoco import COCO, COCOeval
from hotcoco.primitives import bbox_iou, mask_iou
from numpy.typing import NDArray

from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable, best_of
from trt_workbench.vision.document import FIGURES
from trt_workbench.vision.extras import Restored
from trt_workbench.vision.figures import Matches, Measure, Rows, Scores
from trt_workbench.vision.keypoints import Keypoints, sigmas, similarities
from trt_workbench.vision.masks import Masks
from trt_workbench.vision.rotated import RotatedBoxes, overlaps

R = TypeVar("R", bound=Restored)


class CocoMeasure(Measure):
    """One way to score by COCOeval.

    Attributes:
        kind: its iouType; `figures` are in the order of its `stats`, and `overlaps` are its own.
        most: how many detections of an image and category count.
    """

    kind: ClassVar[Literal["bbox", "segm", "keypoints", "obb"]]
    most: ClassVar[int] = 100

    @abc.abstractmethod
    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        """Return the area of every detection in square pixels."""

    def ignored(self, truth: GroundTruth) -> NDArray[np.bool_]:
        """Return which annotations are not to be found, bool [N]."""
        return truth.crowd

    def both(
        self, image_ids: NDArray[np.int64], truth: GroundTruth, categories: Sequence[Category], found: DetectionTable
    ) -> tuple[Scores, Matches]:
        """Return the figures of detections, and what makes those of resamples, as `Measure.both`."""
        from trt_workbench.vision.scores import score_detections

        scores = score_detections(truth, categories, found, self)
        return scores, self.matches(image_ids, truth, categories, found)

    def matches(
        self, image_ids: NDArray[np.int64], truth: GroundTruth, categories: Sequence[Category], found: DetectionTable
    ) -> Matches:
        """Return what makes the figures of resamples, without hotcoco's of the images themselves."""
        from trt_workbench.vision.matches import CocoMatches

        return CocoMatches(image_ids, truth, categories, found, self)

    def named(
        self, image_ids: NDArray[np.int64], categories: Sequence[Category]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return images and categories, ascending by id, as hotcoco takes them: by their places from 1."""
        images = [{"id": place} for place in range(1, len(image_ids) + 1)]
        return images, [{"id": place, "name": str(place)} for place in range(1, len(categories) + 1)]

    @abc.abstractmethod
    def evaluation(
        self, named: tuple[list[Any], list[Any]], truth: GroundTruth, found: DetectionTable, places: Sequence[Rows]
    ) -> COCOeval:
        """Return hotcoco's evaluation of detections.

        Args:
            named: its images and categories.
            truth: the annotations.
            found: the detections.
            places: of the images and categories of the annotations, then of the detections.
        """


class BoxMeasure(CocoMeasure):
    """Boxes, by iouType "bbox"."""

    kind = "bbox"
    prefix: ClassVar[str] = ""
    words: ClassVar[str] = "boxes"
    figures: ClassVar[Mapping[str, str]] = FIGURES

    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:
        """Return the overlap of boxes."""
        return np.asarray(bbox_iou(found.boxes[rows].astype(np.float64), truth.boxes[objects], truth.crowd[objects]))

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # a box may have any finite number
    def pair_overlaps(
        self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows
    ) -> NDArray[np.float64]:
        """Return the overlap of pairs of boxes, the same to the last bit as `overlaps`, which has a call an image."""
        own, theirs = found.boxes[rows].astype(np.float64), truth.boxes[objects]
        low, high = np.maximum(own[:, :2], theirs[:, :2]), np.minimum(_corner(own), _corner(theirs))
        sides = high - low
        shared, area = sides[:, 0] * sides[:, 1], own[:, 2] * own[:, 3]
        whole = np.where(truth.crowd[objects], area, area + theirs[:, 2] * theirs[:, 3] - shared)
        return np.where((sides > 0).all(axis=1) & (whole > 0), shared / whole, 0.0)

    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        """Return the areas of boxes."""
        sides: NDArray[np.float64] = found.boxes[:, 2:].astype(np.float64).prod(axis=1)
        return sides

    def evaluation(
        self, named: tuple[list[Any], list[Any]], truth: GroundTruth, found: DetectionTable, places: Sequence[Rows]
    ) -> COCOeval:
        """Return hotcoco's evaluation of boxes."""
        columns: dict[str, Any] = {"area": truth.areas, "iscrowd": truth.crowd}
        expected = COCO.from_arrays(named[0], named[1], places[0], places[1], truth.boxes, **columns)
        return COCOeval(expected, expected.load_res(_results(found, places)), self.kind)


class MaskMeasure(CocoMeasure):
    """Masks, by iouType "segm". A detection is as large as its mask, as in COCO's own results, which hold no boxes."""

    kind = "segm"
    prefix: ClassVar[str] = "mask_"
    words: ClassVar[str] = "masks"
    figures: ClassVar[Mapping[str, str]] = {name: f"{text}, of masks" for name, text in FIGURES.items()}

    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:
        """Return the overlap of masks."""
        crowd = truth.crowd[objects].tolist()
        return np.asarray(
            mask_iou(masks_of(found).take(rows).encoded(), masks_of(truth).take(objects).encoded(), crowd)
        )

    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        """Return the areas of masks."""
        return masks_of(found).areas()

    def evaluation(
        self, named: tuple[list[Any], list[Any]], truth: GroundTruth, found: DetectionTable, places: Sequence[Rows]
    ) -> COCOeval:
        """Return hotcoco's evaluation of masks."""
        own, theirs = masks_of(truth), masks_of(found)
        columns: dict[str, Any] = {"area": truth.areas, "iscrowd": truth.crowd, "segmentation": own.encoded()}
        expected = COCO.from_arrays(named[0], named[1], places[0], places[1], truth.boxes, **columns)
        results = expected.load_res(_results(found, places), segmentation=[*theirs.encoded()])
        results.update_anns(ids=np.arange(1, len(found) + 1), area=theirs.areas())
        return COCOeval(expected, results, self.kind)


class _Keypoints(CocoMeasure):
    """Keypoints, by iouType "keypoints". A detection is as large as its points span, as in COCO's own results."""

    kind = "keypoints"
    prefix: ClassVar[str] = "keypoint_"
    words: ClassVar[str] = "keypoints"
    most: ClassVar[int] = 20
    figures: ClassVar[Mapping[str, str]] = {
        "AP": "average precision of keypoints, mean over OKS 0.50 to 0.95",
        "AP50": "average precision of keypoints at OKS 0.50",
        "AP75": "average precision of keypoints at OKS 0.75",
        "AP_medium": "AP of keypoints of objects from 32² to 96² pixels",
        "AP_large": "AP of keypoints of objects above 96² pixels",
        "AR": "average recall of keypoints with 20 detections an image, mean over OKS 0.50 to 0.95",
        "AR50": "average recall of keypoints at OKS 0.50",
        "AR75": "average recall of keypoints at OKS 0.75",
        "AR_medium": "AR of keypoints of objects from 32² to 96² pixels",
        "AR_large": "AR of keypoints of objects above 96² pixels",
    }

    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:
        own, theirs = keypoints_of(found).points[rows], keypoints_of(truth).points[objects]
        return similarities(own, theirs, truth.boxes[objects], truth.areas[objects])

    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        return keypoints_of(found).areas()

    def ignored(self, truth: GroundTruth) -> NDArray[np.bool_]:
        """Crowds, and objects none of whose points is labelled."""
        return np.asarray(truth.crowd | (keypoints_of(truth).labelled == 0))

    def evaluation(
        self, named: tuple[list[Any], list[Any]], truth: GroundTruth, found: DetectionTable, places: Sequence[Rows]
    ) -> COCOeval:
        points = keypoints_of(truth)
        own = {"keypoints": points.flat(), "num_keypoints": points.labelled}
        expected, results = _loaded(self, named, truth, found, places, own, {"keypoints": keypoints_of(found).flat()})
        made = COCOeval(expected, results, self.kind)
        made.params.kpt_oks_sigmas = sigmas(points.points.shape[1]).tolist()
        return made


class _Rotated(CocoMeasure):
    """Rotated boxes by the exact area that they share, as DOTA's evaluation has it, and hotcoco's iouType "obb"."""

    kind = "obb"
    prefix: ClassVar[str] = ""
    words: ClassVar[str] = "rotated boxes"
    exact: ClassVar[bool] = False
    figures: ClassVar[Mapping[str, str]] = {
        name: f"{FIGURES[name]}, of rotated boxes" for name in ("AP", "AP50", "AP75")
    }

    def overlaps(self, found: DetectionTable, rows: Rows, truth: GroundTruth, objects: Rows) -> NDArray[np.float64]:
        return overlaps(rotated_of(found).take(rows), rotated_of(truth).take(objects), truth.crowd[objects])

    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        return rotated_of(found).areas()

    def evaluation(
        self, named: tuple[list[Any], list[Any]], truth: GroundTruth, found: DetectionTable, places: Sequence[Rows]
    ) -> COCOeval:
        own, theirs = ({"obb": rotated_of(table).boxes} for table in (truth, found))
        return COCOeval(*_loaded(self, named, truth, found, places, own, theirs), self.kind)


def rotated_of(table: DetectionTable | GroundTruth) -> RotatedBoxes:
    """Return the rotated boxes of detections or annotations; none where nothing was found."""
    return _extra(table, RotatedBoxes(np.empty((0, 5))))


def masks_of(table: DetectionTable | GroundTruth) -> Masks:
    """Return the masks of detections or annotations; none where nothing was found."""
    return _extra(table, Masks(np.empty((0, 2), np.int32), ()))


def keypoints_of(table: DetectionTable | GroundTruth) -> Keypoints:
    """Return the keypoints of detections or annotations; none where nothing was found."""
    return _extra(table, Keypoints(np.empty((0, 1, 3)), np.empty(0, np.int64)))


def _extra(table: DetectionTable | GroundTruth, none: R) -> R:
    """Return what a task adds to each row of a table, which is of the type of `none`."""
    if table.extra is None:
        assert not len(table)  # its model gives one to each box
        return none
    assert isinstance(table.extra, type(none))
    return table.extra


def _corner(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the right and lower ends of boxes of x, y, width and height."""
    return np.asarray(boxes[:, :2] + boxes[:, 2:])


def _results(found: DetectionTable, places: Sequence[Rows]) -> NDArray[np.float64]:
    return np.column_stack((places[2], found.boxes, found.scores, places[3])).astype(np.float64)


def _loaded(
    measure: CocoMeasure,
    named: tuple[list[Any], list[Any]],
    truth: GroundTruth,
    found: DetectionTable,
    places: Sequence[Rows],
    own: Mapping[str, NDArray[Any]],
    theirs: Mapping[str, NDArray[Any]],
) -> tuple[COCO, COCO]:
    """Return annotations and results as hotcoco loads them from JSON objects, for what it has no columns of.

    Args:
        measure: that counts so many detections of an image and category.
        named: images and categories, as `Measure.evaluation`.
        truth: the annotations.
        found: the detections.
        places: as `Measure.evaluation`.
        own: further columns of annotations by their keys.
        theirs: the same of detections.
    """
    columns = {
        "image_id": places[0],
        "category_id": places[1],
        "bbox": truth.boxes,
        "area": truth.areas,
        "iscrowd": truth.crowd.astype(int),
        **own,
    }
    expected = COCO({"images": named[0], "categories": named[1], "annotations": _entries(columns, numbered=True)})
    best = best_of(found.scores, measure.most, places[2] * (places[3].max(initial=0) + 1) + places[3])
    columns = {
        "image_id": places[2][best],
        "category_id": places[3][best],
        "score": found.scores[best].astype(np.float64),
        **{key: values[best].astype(np.float64) for key, values in theirs.items()},
    }
    return expected, expected.load_res(_entries(columns) if len(best) else np.empty((0, 7)))


def _entries(columns: Mapping[str, NDArray[Any]], *, numbered: bool = False) -> list[dict[str, Any]]:
    """Return one object a row, with ids from 1 where that is asked for."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    ids = ({"id": number} if numbered else {} for number in itertools.count(1))
    return [{**own, **dict(zip(columns, row, strict=True))} for own, row in zip(ids, rows, strict=False)]


BOXES, MASKS, KEYPOINTS, ROTATED = BoxMeasure(), MaskMeasure(), _Keypoints(), _Rotated()
