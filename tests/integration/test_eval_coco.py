"""eval-coco on real images: YOLOX-Nano on eighty images of COCO val2017."""

import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hotcoco import mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from trt_workbench.vision.dataset import read_dataset
from trt_workbench.vision.detections import DetectionTable, write_predictions
from trt_workbench.vision.document import FIGURES
from trt_workbench.vision.masks import Masks, run_lengths
from trt_workbench.vision.measure import MASKS
from trt_workbench.vision.run import CocoEvaluation, CocoRequest
from trt_workbench.vision.scores import score_detections
from trt_workbench.vision.tasks.registry import task_of

SHARED = Path(os.environ.get("TRTW_SHARED") or Path(__file__).parents[2].parent / "shared")
MODEL = SHARED / "models" / "yolox_nano.onnx"
IMAGES = SHARED / "data" / "coco-tiny" / "val2017"
ANNOTATIONS = SHARED / "data" / "coco-tiny" / "annotations" / "instances_val2017.json"

pytestmark = pytest.mark.skipif(
    not (MODEL.is_file() and ANNOTATIONS.is_file()),
    reason=f"needs yolox_nano.onnx and coco-tiny under {SHARED} (or TRTW_SHARED)",
)


def evaluate(folder: Path, **options: Any) -> dict[str, Any]:
    request = CocoRequest(model=MODEL, images=IMAGES, annotations=ANNOTATIONS, backend="ort-cpu", **options)
    with CocoEvaluation(request) as evaluation:
        return evaluation.run(folder).metrics


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("run")
    return folder, evaluate(folder)


@pytest.mark.long
def test_figures_of_an_independent_evaluation(run: tuple[Path, dict[str, Any]]) -> None:
    _, metrics = run
    assert metrics["model"]["family"] == "yolox"
    assert metrics["images"] == 80
    assert metrics["AP"] == pytest.approx(0.3072, abs=1e-4)
    assert metrics["AP50"] == pytest.approx(0.4821, abs=2e-4)
    assert metrics["AP75"] == pytest.approx(0.3257, abs=1e-4)


@pytest.mark.long
def test_figures_are_those_of_plain_pycocotools(run: tuple[Path, dict[str, Any]]) -> None:
    folder, metrics = run
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(ANNOTATIONS))
        evaluation = COCOeval(coco, coco.loadRes(str(folder / "predictions.json")), iouType="bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    assert [metrics[name] for name in FIGURES] == evaluation.stats.tolist()


def test_files_agree_with_one_another(run: tuple[Path, dict[str, Any]]) -> None:
    folder, metrics = run
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    confusion = json.loads((folder / "confusion.json").read_text())
    assert [record["image_id"] for record in records] == sorted(record["image_id"] for record in records)
    assert sum(record["detections"] for record in records) == metrics["detections"]
    assert sum(record["true_positives"] for record in records) == np.trace(np.array(confusion["matrix"]))
    assert sum(row["ground_truths"] for row in metrics["per_class"]) == sum(r["ground_truths"] for r in records) == 804
    total = [record["total_ms"] for record in records]
    assert metrics["latency_ms"]["total"]["mean"] == pytest.approx(sum(total) / 80)


@pytest.mark.long
def test_threads_do_not_change_the_result(run: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    evaluate(tmp_path, workers=1, concurrency=1, threads=1, limit=24)
    whole = json.loads((run[0] / "predictions.json").read_text())
    part = json.loads((tmp_path / "predictions.json").read_text())
    ids = {row["image_id"] for row in part}
    assert part == [row for row in whole if row["image_id"] in ids]


def test_the_ground_truth_itself_scores_one() -> None:
    dataset = read_dataset(IMAGES, ANNOTATIONS)
    # Boxes as they are, class by class: what is left to go wrong is the mapping of ids and the crowds.
    truth = dataset.truth.select(np.flatnonzero(~dataset.truth.crowd))
    truth = truth.select(np.argsort(truth.image_ids, kind="stable"))
    found = DetectionTable(
        truth.image_ids, truth.category_ids, truth.boxes.astype(np.float32), np.ones(len(truth), np.float32)
    )
    figures = score_detections(dataset.truth, dataset.categories, found).figures
    assert figures["AP"] == pytest.approx(1.0, abs=1e-12)
    assert figures["AP_small"] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.long
def test_mask_figures_of_real_annotations_are_those_of_plain_pycocotools(tmp_path: Path) -> None:
    """Masks of annotations, crowds too, each grown or shrunk by some pixels, as a model would find them."""
    dataset = read_dataset(IMAGES, ANNOTATIONS, task=task_of("masks"))
    truth = dataset.truth.select(np.argsort(dataset.truth.image_ids, kind="stable"))
    assert isinstance(truth.extra, Masks)
    assert truth.crowd.any()
    rng, counts = np.random.default_rng(0), []
    for one in truth.extra.encoded():
        change = (cv2.erode, cv2.dilate)[rng.integers(2)]
        plane = change(mask.decode(one), np.ones(tuple(rng.integers(1, 9, 2)), np.uint8))
        counts.append(run_lengths(plane.astype(bool), 0, 0, tuple(one["size"])))
    scores = rng.random(len(truth)).astype(np.float32)
    found = DetectionTable(
        truth.image_ids,
        truth.category_ids,
        truth.boxes.astype(np.float32),
        scores,
        Masks(truth.extra.sizes, tuple(counts)),
    )
    write_predictions(tmp_path / "predictions.json", found)
    results = [{**row, "bbox": []} for row in json.loads((tmp_path / "predictions.json").read_text())]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(ANNOTATIONS))
        evaluation = COCOeval(coco, coco.loadRes(results), iouType="segm")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    figures = score_detections(dataset.truth, dataset.categories, found, MASKS).figures
    assert list(figures.values()) == evaluation.stats.tolist()
    assert 0.1 < evaluation.stats[0] < 0.9
