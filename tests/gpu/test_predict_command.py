"""`predict` on TensorRT: the boxes that eval-coco scores on the same engine, and what `inspect` says of that engine."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.core.documents import read_lines
from trt_workbench.core.workspace import embedded_model
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.engine.target import examine_target
from trt_workbench.engine.verdicts import kept_verdict
from trt_workbench.vision.document import DetectionRecord

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("tensorrt", "own_output")]
LIMIT, CONF = 6, "0.01"


def trtw(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(found: list[Any]) -> list[tuple[Any, ...]]:
    """Image, box as x, y, width, height, score: computed in float32 as eval-coco does."""
    boxes = [np.array(one["box"], np.float32) for one in found]
    return [
        (Path(one["image"]).name, *box[:2].tolist(), *(box[2:] - box[:2]).tolist(), one["score"])
        for one, box in zip(found, boxes, strict=True)
    ]


@pytest.mark.parametrize("model", ["shapes-yolov10", "shapes-segmenter"])
def test_what_is_found_on_the_gpu_is_what_the_processor_finds(tmp_path: Path, model: str) -> None:
    fixed = ("--backend", "trt", "--conf", "0.001", "--option", "optimization_level=0", "--limit", LIMIT, "--batch", 4)
    for place in ("device", "host"):
        trtw("eval-coco", model, *fixed, "--postprocess", place, "--no-report", "--output", tmp_path / place)
        metrics = json.loads((tmp_path / place / "metrics.json").read_text(encoding="utf-8"))
        assert metrics["settings"]["postprocess"] == place
    found = [(tmp_path / place / "predictions.json").read_text(encoding="utf-8") for place in ("device", "host")]
    assert found[0] == found[1]
    assert ("segmentation" in found[0]) is (model == "shapes-segmenter")


def test_predict_sees_what_eval_coco_scores(tmp_path: Path) -> None:
    from trt_workbench.vision.scenes.dataset import make_embedded_dataset

    place = make_embedded_dataset()
    listed = json.loads(place.annotations.read_text(encoding="utf-8"))["images"]
    names = {one["id"]: one["file_name"] for one in sorted(listed, key=lambda one: one["id"])[:LIMIT]}
    fixed = ("--backend", "trt", "--conf", CONF, "--option", "optimization_level=0")  # builds in seconds
    # one image a batch, as predict has: the same engine, and no row of a batch beside another
    trtw("eval-coco", *fixed, "--batch", 1, "--limit", LIMIT, "--no-report", "--output", tmp_path / "scored")
    images = [place.images / name for name in names.values()]
    trtw("predict", "shapes-yolov10", *images, *fixed, "--output", tmp_path / "seen")

    scored = json.loads((tmp_path / "scored" / "predictions.json").read_text(encoding="utf-8"))
    found = read_lines(tmp_path / "seen" / "detections.jsonl", DetectionRecord)
    assert len(found) > LIMIT
    assert rows(found) == [(names[one["image_id"]], *one["bbox"], one["score"]) for one in scored]
    assert len(list((tmp_path / "seen" / "pictures").iterdir())) == LIMIT

    metrics = json.loads((tmp_path / "scored" / "metrics.json").read_text(encoding="utf-8"))
    document = json.loads((tmp_path / "seen" / "predict.json").read_text(encoding="utf-8"))
    assert document["provenance"]["plan_sha256"] == metrics["provenance"]["plan_sha256"]
    assert document["verification"]
    assert document["provenance"]["plan"] in trtw("inspect", document["provenance"]["plan"], "--json")


def test_an_engine_whose_images_have_the_channels_last_finds_what_the_row_major_one_finds(tmp_path: Path) -> None:
    if (examine_target(0).tensorrt_version or "").startswith("11."):
        pytest.skip("a strongly typed network keeps the types of its inputs")
    words = ("--max-batch", 4, "--precision", "fp16", "--optimization-level", 0, "--io-type", "images=fp16")
    kinds: dict[str, tuple[str, ...]] = {"linear": (), "hwc8": ("--io-format", "images=hwc8")}
    fixed = ("--backend", "trt", "--conf", "0.01", "--limit", 24, "--batch", 4, "--no-report", "--allow-unverified")
    scores = {}
    for kind, more in kinds.items():
        plan = tmp_path / f"{kind}.plan"
        trtw("build-engine", embedded_model(), *words, *more, "-o", plan)
        made = kept_verdict(read_manifest(plan))
        assert made is not None
        assert made.verdict.startswith("right"), made
        for place in ("device", "host"):
            out = tmp_path / f"{kind}-{place}"
            where = ("--preprocess", place, "--postprocess", "host", *fixed)
            trtw("eval-coco", plan, *where, "--output", out)
            scores[kind, place] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))["AP"]
        assert kind == "linear" or "format of images" in trtw("inspect", plan)
        trtw("infer-engine", plan, "--duration", 0, "--warmup", 0, "--iterations", 5)
    assert max(scores.values()) - min(scores.values()) < 0.03, scores
    assert scores["hwc8", "device"] > 0.5
    seen = tmp_path / "boxes"
    trtw("eval-coco", tmp_path / "hwc8.plan", *fixed, "--output", seen)  # images to boxes on the device
    metrics = json.loads((seen / "metrics.json").read_text(encoding="utf-8"))
    assert (metrics["settings"]["preprocess"], metrics["settings"]["postprocess"]) == ("device", "device")
    assert abs(metrics["AP"] - scores["hwc8", "device"]) < 0.001
