import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from trt_workbench.core import directory
from trt_workbench.core.statistics.summary import summarize
from trt_workbench.vision.document import FIGURES, STAGES

TIMED = (*STAGES, "total")


def write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")


def records(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    rows = []
    for index in range(count):
        times = {f"{stage}_ms": float(value) for stage, value in zip(TIMED, rng.gamma(2, 2, 5), strict=True)}
        found = {"true_positives": index % 3, "false_positives": index % 2, "false_negatives": (index + 1) % 2}
        truths = found["true_positives"] + found["false_negatives"]
        image = {"schema_version": 1, "image_id": index, "file_name": f"{index}.jpg", "width": 64, "height": 48}
        rows.append({**image, **times, **found, "ground_truths": truths, "detections": 3})
    return rows


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A run directory as eval-coco writes it, over small images, with two classes; made by this process."""

    def make(count: int = 12, **changes: Any) -> Path:
        images, run = tmp_path / "images", tmp_path / "run"
        images.mkdir()
        run.mkdir()
        monkeypatch.setattr(directory, "_finished", run)
        rows = records(count)
        for row in rows:
            cv2.imwrite(str(images / row["file_name"]), np.full((48, 64, 3), 90, np.uint8))
        box = {"bbox": [5, 5, 20, 20], "category_id": 3}
        truths = [{**box, "image_id": row["image_id"], "area": 400} for row in rows]
        listed = [{"id": row["image_id"], "file_name": row["file_name"]} for row in rows]
        named = [{"id": 3, "name": "circle"}]
        write(tmp_path / "truth.json", {"images": listed, "categories": named, "annotations": truths})
        found = (json.dumps({**box, "image_id": row["image_id"], "score": 0.9}) for row in rows)
        (run / "predictions.json").write_text("[\n" + ",\n".join(found) + "\n]\n")
        (run / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        classes = [
            {"category_id": 3, "name": "circle <b>", "AP": 0.8, "AP50": 0.9, "ground_truths": 9, "detections": 12},
            {"category_id": 7, "name": "star", "AP": None, "AP50": None, "ground_truths": 0, "detections": 0},
        ]
        metrics = {
            "schema_version": 1,
            "model": {"path": "models/detector.onnx", "sha256": "0" * 64, "family": "yolov10", "class_count": 2},
            "backend": "ort-cpu",
            "backend_requested": "auto",
            "provenance": {"threads": 2},
            **dict.fromkeys(FIGURES, 0.5),
            "AP_large": None,
            "AR_large": None,
            "images": count,
            "images_per_s": 50.0,
            "wall_s": 1.0,
            "detections": count,
            "latency_ms": {stage: summarize([row[f"{stage}_ms"] for row in rows]) for stage in TIMED},
            "per_class": classes,
            "settings": {"workers": 2, "concurrency": 2, "batch": 1, "seed": 0},
            "dataset": {
                "images": str(images),
                "annotations": str(tmp_path / "truth.json"),
                "annotations_sha256": "1" * 64,
                "missing": [],
            },
            "status": "complete",
        }
        write(run / "metrics.json", {**metrics, **changes})
        recall = np.linspace(0, 1, 101).tolist()
        mean = dict.fromkeys(("0.50", "0.75", "0.50:0.95"), [0.5] * 101)
        curves = [
            {"category_id": 3, "name": "circle <b>", "precision_50": [0.6] * 101},
            {"category_id": 7, "name": "star", "precision_50": None},
        ]
        write(run / "curves.json", {"schema_version": 1, "recall": recall, "mean": mean, "classes": curves})
        matrix = [[5, 1, 2], [0, 0, 0], [1, 0, 0]]
        labels = ["circle <b>", "star", "background"]
        thresholds = {"score_threshold": 0.25, "iou_threshold": 0.5}
        write(run / "confusion.json", {"schema_version": 1, **thresholds, "labels": labels, "matrix": matrix})
        environment = {
            "schema_version": 1,
            "command_line": ["eval-coco", "--output", "a folder"],
            "cpu": {"model": "some CPU", "processors": 2, "processors_available": 2},
            "driver": {"error": "no NVIDIA driver answers", "gpus": []},
            "python": "3.11.7",
            "packages": {"numpy": "2.0"},
            "git": {"commit": None, "dirty": None},
        }
        write(run / "env.json", environment)
        facts = {
            "schema_version": 1,
            "command": "eval-coco",
            "run_id": "c",
            "started_at": "2026-11-23T07:35:49+00:00",
            "status": "complete",
        }
        write(run / "run.json", facts)
        return run

    return make
