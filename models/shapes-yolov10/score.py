"""COCO AP of the detector on letterboxed scenes, by pycocotools, to watch and choose training runs by."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import torch
from data import Scenes
from model import Deployed, ShapesYolov10
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torch import Tensor

NAMES = ("AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large")


@torch.inference_mode()
def detect(model: ShapesYolov10, images: Tensor, batch: int = 250) -> Tensor:
    """Detections [N,300,6] of uint8 images, on the CPU."""
    deployed = Deployed(model).eval()
    return torch.cat([deployed(part.float() / 255).cpu() for part in torch.split(images, batch)])


def coco_ap(model: ShapesYolov10, scenes: Scenes) -> dict[str, float]:
    """The first six of COCO's figures. Sizes are those of the boxes in the network's input, not of the masks."""
    detections = detect(model, scenes.images).numpy()
    truth = COCO()
    truth.dataset = _ground_truth(scenes)
    rows = [
        [image, x1, y1, x2 - x1, y2 - y1, score, int(label)]
        for image, found in enumerate(detections)
        for x1, y1, x2, y2, score, label in found[:100]
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(np.array(rows)), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return dict(zip(NAMES, (float(value) for value in evaluation.stats[:6]), strict=True))


def _ground_truth(scenes: Scenes) -> dict[str, object]:
    annotations: list[dict[str, object]] = []
    for image, (labels, boxes) in enumerate(zip(scenes.labels.tolist(), scenes.boxes.tolist(), strict=True)):
        for label, (x1, y1, x2, y2) in zip(labels, boxes, strict=True):
            if label >= 0:
                box = [x1, y1, x2 - x1, y2 - y1]
                entry = {"id": len(annotations) + 1, "image_id": image, "category_id": label, "bbox": box}
                annotations.append(entry | {"area": box[2] * box[3], "iscrowd": 0})
    categories = [{"id": label} for label in range(int(scenes.labels.max()) + 1)]
    return {
        "info": {},
        "images": [{"id": image} for image in range(len(scenes.labels))],
        "annotations": annotations,
        "categories": categories,
    }
