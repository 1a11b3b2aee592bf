"""The twelve COCO figures by pycocotools, category by category and a part of the images at a time: memory stays small.

The result is the same to the last bit as of one whole evaluation: COCOeval matches every image and category by itself.
"""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval, Params

from trt_workbench.evaluate.coco_dataset import Category, GroundTruth
from trt_workbench.evaluate.detections import DetectionTable
from trt_workbench.runs.coco import FIGURES

# COCOeval's objects take some 40 kB an image; what is kept of them afterwards takes a tenth.
_IMAGES_AT_ONCE = 128
_ALL_AREAS, _HUNDRED = 0, 2  # places of area range "all" and of maxDets 100 in COCOeval's arrays
_THRESHOLDS: Final = {"0.50": 0, "0.75": 5}  # places in COCOeval's IoU thresholds 0.50:0.05:0.95


@dataclass(frozen=True)
class CocoScores:
    """What COCOeval accumulated.

    Attributes:
        figures: the twelve by our names; None where no ground truth is in question (pycocotools says -1).
        precision: float64 [10 IoU thresholds, 101 recalls, categories]; -1 for a category without ground truth.
        categories: in the order of `precision`.
        ground_truths: int64 [categories], annotations that are not crowds.
        detections: int64 [categories].
    """

    figures: dict[str, float | None]
    precision: NDArray[np.float64]
    categories: tuple[Category, ...]
    ground_truths: NDArray[np.int64]
    detections: NDArray[np.int64]

    def per_class(self) -> list[dict[str, Any]]:
        """Return one JSON object for every category, with its AP and AP50."""
        return [
            {
                "category_id": category.id,
                "name": category.name,
                "AP": _mean(self.precision[:, :, place]),
                "AP50": _mean(self.precision[_THRESHOLDS["0.50"], :, place]),
                "ground_truths": int(self.ground_truths[place]),
                "detections": int(self.detections[place]),
            }
            for place, category in enumerate(self.categories)
        ]

    def curves(self) -> dict[str, Any]:
        """Return precision at the 101 recalls 0, 0.01 … 1, for every category and as means over the categories."""
        present = self.precision.min(axis=(0, 1)) > -1
        kept = self.precision[:, :, present]
        mean = {name: _curve(kept[place].mean(axis=1)) for name, place in _THRESHOLDS.items()} if present.any() else {}
        if present.any():
            mean["0.50:0.95"] = _curve(kept.mean(axis=(0, 2)))
        return {
            "recall": _curve(Params(iouType="bbox").recThrs),
            "mean": mean,
            "classes": [
                {
                    "category_id": category.id,
                    "name": category.name,
                    "precision_50": _curve(self.precision[0, :, place]) if present[place] else None,
                }
                for place, category in enumerate(self.categories)
            ],
        }


def score_detections(
    truth: GroundTruth,
    categories: Sequence[Category],
    detections: DetectionTable,
    on_progress: Callable[[int, int], None] | None = None,
) -> CocoScores:
    """Score boxes as COCOeval does with iouType "bbox" and its default parameters.

    Args:
        truth: annotations of the images that were evaluated. Their own ids are not used: COCOeval takes an
            annotation of id 0 for no match at all, so they are numbered from 1 here.
        categories: of the dataset; those without ground truth count nowhere.
        detections: of the same images.
        on_progress: called with the categories done and their total.
    """
    params = Params(iouType="bbox")
    shape = (len(params.iouThrs), len(params.recThrs), 0, len(params.areaRng), len(params.maxDets))
    precisions, recalls = [-np.ones(shape)], [-np.ones((shape[0], *shape[2:]))]
    found = np.zeros(len(categories), np.int64)
    present = np.zeros(len(categories), np.int64)
    # pycocotools reports what it does by print().
    with contextlib.redirect_stdout(io.StringIO()):
        for place, category in enumerate(categories):
            own_truth = truth.select(np.flatnonzero(truth.category_ids == category.id))
            rows = np.flatnonzero(detections.category_ids == category.id)
            precision, recall = _evaluate(category, own_truth, detections, rows)
            precisions.append(precision)
            recalls.append(recall)
            found[place] = len(rows)
            present[place] = np.count_nonzero(~own_truth.crowd)
            if on_progress:
                on_progress(place + 1, len(categories))
        precision, recall = np.concatenate(precisions, axis=2), np.concatenate(recalls, axis=1)
        summary = COCOeval(iouType="bbox")
        summary.eval = {"params": summary.params, "precision": precision, "recall": recall}
        summary.summarize()
    figures = {name: None if value == -1 else float(value) for name, value in zip(FIGURES, summary.stats, strict=True)}
    return CocoScores(figures, precision[:, :, :, _ALL_AREAS, _HUNDRED], tuple(categories), present, found)


def _evaluate(
    category: Category, truth: GroundTruth, detections: DetectionTable, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """COCOeval's precision [T,R,1,A,M] and recall [T,1,A,M] of one category."""
    owners = detections.image_ids[rows]
    # Images with neither an annotation nor a detection of this category change nothing.
    images = np.union1d(truth.image_ids, owners)
    whole = COCOeval(iouType="bbox")
    whole.params.imgIds, whole.params.catIds = images.tolist(), [category.id]
    matches: list[list[dict[str, Any] | None]] = [[] for _ in whole.params.areaRng]
    for start in range(0, len(images), _IMAGES_AT_ONCE):
        part = images[start : start + _IMAGES_AT_ONCE]
        own_truth = truth.select(np.flatnonzero(np.isin(truth.image_ids, part)))
        found = _match(category, part, own_truth, detections, rows[np.isin(owners, part)])
        for place, area in enumerate(matches):
            area += [_compact(image) for image in found[place * len(part) : (place + 1) * len(part)]]
    whole.evalImgs = [image for area in matches for image in area]
    whole._paramsEval = copy.deepcopy(whole.params)
    whole.accumulate()
    return whole.eval["precision"], whole.eval["recall"]


def _match(
    category: Category,
    images: NDArray[np.int64],
    truth: GroundTruth,
    detections: DetectionTable,
    rows: NDArray[np.int64],
) -> list[dict[str, Any] | None]:
    """COCOeval's matches, for every area range one entry an image."""
    boxes = detections.boxes[rows]
    truths = _annotations(category.id, truth.image_ids, truth.boxes, area=truth.areas, iscrowd=truth.crowd.astype(int))
    sizes = boxes[:, 2].astype(np.float64) * boxes[:, 3].astype(np.float64)
    columns = {"area": sizes, "iscrowd": np.zeros(len(rows), int), "score": detections.scores[rows]}
    found = _annotations(category.id, detections.image_ids[rows], boxes, **columns)
    ids = images.tolist()
    evaluation = COCOeval(_coco(category, ids, truths), _coco(category, ids, found), iouType="bbox")
    evaluation.evaluate()
    matches: list[dict[str, Any] | None] = evaluation.evalImgs
    return matches


def _compact(image: dict[str, Any] | None) -> dict[str, Any] | None:
    """Keep what COCOeval.accumulate reads of an image, in small arrays. An id of 0 stands for no match."""
    if image is None:
        return None
    return {
        "dtScores": np.array(image["dtScores"], np.float64),
        "dtMatches": image["dtMatches"] != 0,
        "dtIgnore": image["dtIgnore"],
        "gtIgnore": image["gtIgnore"].astype(np.uint8),
    }


def _annotations(
    category_id: int, image_ids: NDArray[np.int64], boxes: NDArray[Any], **columns: NDArray[Any]
) -> list[dict[str, Any]]:
    names = ("image_id", "bbox", *columns)
    values = zip(image_ids.tolist(), boxes.tolist(), *(column.tolist() for column in columns.values()), strict=True)
    return [
        {"id": number, "category_id": category_id, **dict(zip(names, row, strict=True))}
        for number, row in enumerate(values, start=1)
    ]


def _coco(category: Category, images: list[int], annotations: list[dict[str, Any]]) -> COCO:
    coco = COCO()
    coco.dataset = {
        "images": [{"id": image_id} for image_id in images],
        "categories": [{"id": category.id, "name": category.name}],
        "annotations": annotations,
    }
    coco.createIndex()
    return coco


def _mean(precision: NDArray[np.float64]) -> float | None:
    known = precision[precision > -1]
    return float(known.mean()) if known.size else None


def _curve(values: NDArray[np.float64]) -> list[float]:
    return [float(value) for value in values]
