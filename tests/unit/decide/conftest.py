import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.vision.test_coco_scores import CATEGORIES, detections_near, ground_truth

from trt_workbench.core.hashing import hash_file
from trt_workbench.core.statistics.summary import summarize
from trt_workbench.vision.detections import DetectionTable, write_predictions
from trt_workbench.vision.document import STAGES
from trt_workbench.vision.scores import score_detections

IMAGES = 40
Make = Callable[..., Path]


@pytest.fixture
def evaluated(tmp_path: Path) -> Make:
    """The files of an evaluation over 40 images, of which a share of the detections is left out."""
    rng = np.random.default_rng(3)
    truth = ground_truth(rng, 160, IMAGES)
    found = detections_near(rng, truth, 200, IMAGES)
    order = np.argsort(truth.image_ids, kind="stable")
    keys = ("image_id", "category_id", "bbox", "area", "iscrowd")
    columns = (truth.image_ids, truth.category_ids, truth.boxes, truth.areas, truth.crowd.astype(int))
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    document = {
        "images": [{"id": number, "file_name": f"{number}.jpg"} for number in range(1, IMAGES + 1)],
        "categories": [{"id": one.id, "name": one.name} for one in CATEGORIES],
        "annotations": [{"id": place, **dict(zip(keys, row, strict=True))} for place, row in enumerate(rows, 1)],
    }
    annotations = tmp_path / "truth.json"
    annotations.write_text(json.dumps(document))
    for number in range(1, IMAGES + 1):
        (tmp_path / f"{number}.jpg").touch()

    def make(name: str, lost: float = 0.0, **changes: Any) -> Path:
        kept = np.random.default_rng(1).random(len(found)) >= lost
        kept &= found.image_ids <= changes.get("images", IMAGES)
        table = DetectionTable(found.image_ids[kept], found.category_ids[kept], found.boxes[kept], found.scores[kept])
        scores = score_detections(truth, CATEGORIES, table)
        folder = tmp_path / name
        folder.mkdir()
        write_predictions(folder / "predictions.json", table)
        metrics = {
            "schema_version": 1, "status": "complete", **scores.figures, "per_class": scores.per_class(),
            "images": IMAGES, "images_per_s": 1.0, "backend": "ort-cpu", "backend_requested": "auto", "provenance": {},
            "model": {"path": "m", "sha256": "0", "family": "yolov10", "class_count": 4},
            "settings": {"batch": 1, "workers": 1, "concurrency": 1, "seed": 0, "limit": None},
            "latency_ms": {stage: summarize([1.0]) for stage in (*STAGES, "total")},
            "dataset": {
                "images": str(tmp_path), "annotations": str(annotations),
                "annotations_sha256": hash_file(annotations), "missing": [],
            },
            **changes,
        }  # fmt: skip
        (folder / "metrics.json").write_text(json.dumps(metrics))
        return folder

    return make
