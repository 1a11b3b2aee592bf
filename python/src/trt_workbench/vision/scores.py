"""COCO's figures by hotcoco, the same to the last bit as by pycocotools, and faster."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from hotcoco import Params
from numpy.typing import NDArray

from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.measure import BOXES, CocoMeasure

_ALL_AREAS, _MOST = 0, -1  # places of area range "all" and of the largest maxDets in COCOeval's arrays
_THRESHOLDS: Final = {"0.50": 0, "0.75": 5}  # places in COCOeval's IoU thresholds 0.50:0.05:0.95


@dataclass(frozen=True)
class CocoScores:
    """What COCOeval accumulated.

    Attributes:
        figures: the twelve by our names; None where no ground truth is in question (COCOeval says -1).
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
        mean = {name: kept[place].mean(axis=1).tolist() for name, place in _THRESHOLDS.items()} if present.any() else {}
        if present.any():
            mean["0.50:0.95"] = kept.mean(axis=(0, 2)).tolist()
        return {
            "recall": np.asarray(Params("bbox").rec_thrs).tolist(),
            "mean": mean,
            "classes": [
                {
                    "category_id": category.id,
                    "name": category.name,
                    "precision_50": self.precision[0, :, place].tolist() if present[place] else None,
                }
                for place, category in enumerate(self.categories)
            ],
        }


def score_detections(
    truth: GroundTruth, categories: Sequence[Category], detections: DetectionTable, measure: CocoMeasure = BOXES
) -> CocoScores:
    """Score detections as COCOeval does with its default parameters.

    Args:
        truth: annotations of the images that were evaluated. Their own ids are not used: COCOeval takes an
            annotation of id 0 for no match at all, so they are numbered from 1 here.
        categories: of the dataset; those without ground truth count nowhere.
        detections: of the same images.
        measure: what is scored.
    """
    ids = np.array([category.id for category in categories], np.int64)
    # hotcoco makes floats of ids, which are exact up to 2^53: it gets places among all ids instead, from 1.
    # Images with neither an annotation nor a detection change nothing.
    # Categories of which there is nothing have no precision.
    image_ids = np.union1d(truth.image_ids, detections.image_ids)
    met = set(np.union1d(truth.category_ids, detections.category_ids).tolist())
    order = np.argsort(ids)
    order = order[[int(one) in met for one in ids[order]]] if met else order[:1]
    classes = ids[order]
    named = measure.named(image_ids, [categories[place] for place in order])
    true_images, found_images = (np.searchsorted(image_ids, one.image_ids) + 1 for one in (truth, detections))
    true_classes, found_classes = (np.searchsorted(classes, one.category_ids) + 1 for one in (truth, detections))
    places = (true_images, true_classes, found_images, found_classes)
    evaluation = measure.evaluation(named, truth, detections, places)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # it prints its table
        warnings.simplefilter("ignore")  # of what is not COCO's own, which notes and guides tell
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    # of rotated boxes the first three are taken
    pairs = zip(measure.figures, evaluation.stats, strict=False)
    figures = {name: None if value == -1 else value for name, value in pairs}
    accumulated = evaluation.eval
    assert accumulated is not None  # as it was accumulated
    known = np.asarray(accumulated["precision"])[:, :, :, _ALL_AREAS, _MOST]
    precision = np.full((*known.shape[:2], len(ids)), -1.0)
    precision[:, :, order] = known
    ignored = measure.ignored(truth)
    present, counts = (_by_category(one, ids) for one in (truth.category_ids[~ignored], detections.category_ids))
    return CocoScores(figures, precision, tuple(categories), present, counts)


def _by_category(found: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows each category has, int64 [ids]."""
    counts = dict(zip(*(one.tolist() for one in np.unique(found, return_counts=True)), strict=True))
    return np.array([counts.get(one, 0) for one in ids.tolist()], np.int64)


def _mean(precision: NDArray[np.float64]) -> float | None:
    known = precision[precision > -1]
    return float(known.mean()) if known.size else None
