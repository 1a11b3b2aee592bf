"""Plain pycocotools in one evaluation of everything: what scores are compared with."""

import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable

_KEYS = ("image_id", "category_id", "bbox", "area", "iscrowd")


def pycocotools(
    kind: str,
    truth: GroundTruth,
    found: DetectionTable,
    categories: Iterable[Category],
    extras: Sequence[Mapping[str, Any]] = (),
    results: Sequence[Mapping[str, Any]] = (),
    sigmas: NDArray[np.float64] | None = None,
    **size: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the figures and the array of precisions; `extras` are of annotations, `results` in place of boxes."""
    columns = (truth.image_ids, truth.category_ids, truth.boxes, truth.areas, truth.crowd.astype(int))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    named = [dict(zip(_KEYS, row, strict=True)) for row in rows]
    places = [{"bbox": box} for box in found.boxes.tolist()]
    detected = zip(found.image_ids.tolist(), found.category_ids.tolist(), found.scores.tolist(), strict=True)
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "images": [{"id": number, **size} for number in {*truth.image_ids.tolist(), *found.image_ids.tolist()}],
            "categories": [{"id": one.id, "name": one.name} for one in categories],
            "annotations": [
                {"id": number, **one, **more}
                for number, (one, more) in enumerate(zip(named, extras or [{}] * len(named), strict=True), start=1)
            ],
        }
        coco.createIndex()
        listed = [
            {"image_id": image, "category_id": category, "score": score, **place}
            for (image, category, score), place in zip(detected, results or places, strict=True)
        ]
        evaluation = COCOeval(coco, coco.loadRes(listed), iouType=kind)
        if sigmas is not None:
            evaluation.params.kpt_oks_sigmas = sigmas
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats, evaluation.eval["precision"]
