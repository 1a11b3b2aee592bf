"""eval-coco through its command line: what a run gives."""

import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from trt_workbench.console.common import single_command_app
from trt_workbench.evaluate.cli import eval_coco
from trt_workbench.vision.document import FIGURES

STAGES = ("load", "preprocess", "inference", "postprocess", "total")


def test_a_whole_run(coco: Any) -> None:
    result = coco.invoke()
    assert result.exit_code == 0, result.output
    metrics = json.loads((coco.output / "metrics.json").read_text())
    # Every object is found with the right box: AP 1 at every threshold.
    assert metrics["AP"] == pytest.approx(1.0)
    assert metrics["AP_large"] is None
    assert metrics["images"] == 4
    assert metrics["detections"] == 4
    assert metrics["status"] == "complete"
    assert metrics["backend"] == "ort-cpu"
    assert metrics["backend_requested"] == "auto"
    assert metrics["model"]["family"] == "yolov10"
    assert metrics["settings"]["imgsz"] == [coco.side, coco.side]
    for stage in STAGES:
        assert metrics["latency_ms"][stage]["count"] == 4
    made = {path.name for path in coco.output.iterdir()}
    assert made >= {"curves.json", "confusion.json", "records.jsonl", "predictions.json", "env.json", "run.json"}
    assert made >= {"report.html", "plots"}
    for text in (*FIGURES, *STAGES, "images/s", str(coco.output), "report.html"):
        assert text in result.stdout
    assert "ort-cpu (chosen by auto)" in result.stderr


def test_the_score_of_each_image_is_its_own(coco: Any) -> None:
    assert coco.invoke("--no-report", "--batch", "3").exit_code == 0
    rows = json.loads((coco.output / "predictions.json").read_text())
    assert [row["image_id"] for row in rows] == [1, 2, 3, 4]
    assert [row["category_id"] for row in rows] == [3] * 4
    assert [row["score"] for row in rows] == pytest.approx([level / 255 for level in coco.grey_levels], abs=1e-5)
    assert rows[0]["bbox"] == pytest.approx(coco.box)
    records = [json.loads(line) for line in (coco.output / "records.jsonl").read_text().splitlines()]
    # Image 1 is darker than the threshold at which detections are shown.
    assert [record["true_positives"] for record in records] == [0, 1, 1, 1]
    assert [record["false_negatives"] for record in records] == [1, 0, 0, 0]
    assert not (coco.output / "report.html").exists()


RT_DETR = {"author": "Ultralytics", "task": "detect", "head": "RTDETRDecoder", "end2end": "False"}


def test_an_rt_detr_of_ultralytics_sees_stretched_images(coco: Any) -> None:
    coco.write_model(shares=True, metadata=RT_DETR)
    for number, level in enumerate(coco.grey_levels, start=1):
        cv2.imwrite(str(coco.images / f"{number}.png"), np.full((coco.side, 2 * coco.side, 3), level, np.uint8))
    document = json.loads(coco.annotations.read_text())
    x, y, width, height = coco.box
    coco.rewrite(
        images=[{**image, "width": 2 * coco.side} for image in document["images"]],
        annotations=[{**one, "bbox": [2 * x, y, 2 * width, height]} for one in document["annotations"]],
    )
    result = coco.invoke("--no-report", "--json")
    assert result.exit_code == 0, result.output
    metrics = json.loads(result.stdout)
    assert metrics["AP"] == pytest.approx(1.0)
    assert metrics["model"]["family"] == "detr"
    assert metrics["settings"]["transform"]["placement"] == "stretch"


@pytest.mark.parametrize("conf", ["0.001", "0.9"])
def test_shares_read_as_pixels_are_refused(coco: Any, conf: str) -> None:
    coco.write_model(shares=True, metadata=RT_DETR)
    result = coco.invoke("--family", "yolov10", "--conf", conf)
    if conf == "0.9":  # no box is left to judge by
        assert "detected nothing" in result.stderr
    else:
        coco.assert_refused(result, "implausible", "fractions of the image", "--family detr")


def test_weights_outside_the_file_are_part_of_the_models_hash(coco: Any) -> None:
    """Two models whose .data alone differs are two models."""
    model = onnx.load(coco.model)
    onnx.save(model, coco.model, save_as_external_data=True, location="weights.data", size_threshold=64)
    data, own = coco.model.with_name("weights.data"), coco.model.read_bytes()
    first = coco.invoke("--json", "--no-report")
    assert first.exit_code == 0, first.output
    found = [json.loads(first.stdout)["model"]["sha256"]]
    content = data.read_bytes()
    data.write_bytes(content.replace(np.float32(20).tobytes(), np.float32(21).tobytes(), 1))  # a corner of the box
    assert data.read_bytes() != content
    shutil.rmtree(coco.output)
    found.append(json.loads(coco.invoke("--json", "--no-report").stdout)["model"]["sha256"])
    assert coco.model.read_bytes() == own
    assert found[0] != found[1]


def test_json_is_one_document_and_nothing_else(coco: Any) -> None:
    result = coco.invoke("--json", "--no-report", "--conf", "0.2")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document.pop("directory") == str(coco.output)
    assert document == json.loads((coco.output / "metrics.json").read_text())
    assert "not comparable" in result.stderr
    assert any("not comparable" in note for note in document["notes"])


def test_classes_are_mapped_by_name(coco: Any) -> None:
    coco.write_model(classes="{0: 'circle', 1: 'square'}")
    assert coco.invoke("--no-report").exit_code == 0
    rows = json.loads((coco.output / "predictions.json").read_text())
    assert {row["category_id"] for row in rows} == {17}


@pytest.mark.parametrize(("batch", "options"), [(4, []), (3, []), (4, ["--batch", "2"]), (1, ["--concurrency", "2"])])
def test_fixed_batches_give_the_same_scores(coco: Any, batch: int, options: list[str]) -> None:
    coco.write_model(batch=batch)
    assert coco.invoke("--no-report", *options).exit_code == 0
    rows = json.loads((coco.output / "predictions.json").read_text())
    assert [row["score"] for row in rows] == pytest.approx([level / 255 for level in coco.grey_levels], abs=1e-5)


@pytest.mark.long
def test_nothing_detected_is_a_score_of_zero_and_a_note(coco: Any) -> None:
    coco.write_model(gain=0)
    result = coco.invoke()
    assert result.exit_code == 0, result.output
    metrics = json.loads((coco.output / "metrics.json").read_text())
    assert metrics["AP"] == 0.0
    assert metrics["detections"] == 0
    assert "detected nothing" in result.stderr
    assert json.loads((coco.output / "predictions.json").read_text()) == []


def test_a_score_of_zero_with_detections_is_never_silent(coco: Any) -> None:
    objects = json.loads(coco.annotations.read_text())["annotations"]
    coco.rewrite(annotations=[{**one, "bbox": [28, 28, 4, 4]} for one in objects])
    result = coco.invoke("--no-report")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert f"none of {len(objects)} annotated objects overlap a detection of any class" in said


def test_limit_and_imgsz(coco: Any) -> None:
    coco.write_model(size="side")
    result = coco.invoke("--no-report", "--json", "--limit", "2", "--imgsz", f"{2 * coco.side}x{coco.side}")
    metrics = json.loads(result.stdout)
    assert metrics["images"] == 2
    assert metrics["settings"]["limit"] == 2
    assert metrics["settings"]["imgsz"] == [2 * coco.side, coco.side]


def test_absent_images_can_be_left_out(coco: Any) -> None:
    (coco.images / "2.png").unlink()
    result = coco.invoke("--json")
    metrics = json.loads(result.stdout)
    page = (Path(metrics["directory"]) / "report.html").read_text()
    assert "Left out: 1 of 4 images, which --data does not have." in page
    assert metrics["images"] == 3
    assert metrics["dataset"]["missing"] == ["2.png"]
    assert "Left out: 1 image of the annotations that --data does not have (2.png). The score is of 3 images" in (
        " ".join(result.stderr.split())
    )


def test_images_of_another_size_than_annotated_are_noted(coco: Any) -> None:
    cv2.imwrite(str(coco.images / "3.png"), np.full((coco.side, coco.side // 2, 3), 90, np.uint8))
    result = coco.invoke("--no-report")
    assert result.exit_code == 0
    assert "The size of 1 image differs from the annotations (3.png)" in result.stderr


def test_a_model_that_counts_classes_from_1_is_told_so(coco: Any) -> None:
    coco.write_model(classes="", label=1)
    levels = {"images": [], "annotations": []}
    for number in range(1, 9):
        cv2.imwrite(str(coco.images / f"{number}.png"), np.full((coco.side, coco.side, 3), 200, np.uint8))
        levels["images"].append({"id": number, "file_name": f"{number}.png"})
        one = {"id": number, "image_id": number, "category_id": 3, "bbox": coco.box, "area": 192}
        levels["annotations"].append(one)
    coco.rewrite(**levels)
    result = coco.invoke("--no-report")
    assert result.exit_code == 0
    assert "8 of 8 objects match a box, 8 of them one of another class: every class is off by one" in result.stderr


def test_a_model_that_divides_by_255_itself_is_told_so(coco: Any) -> None:
    coco.write_model(gain=1 / 255)  # as if it took pixels of 0 to 255
    result = coco.invoke("--no-report", "--conf", "0.1")
    assert result.exit_code == 0
    assert "with pixels from 0 to 255 it finds 3 objects on some images" in result.stderr


def test_help_names_every_option() -> None:
    result = CliRunner().invoke(single_command_app(eval_coco), ["--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for option in (
        "--model",
        "--data",
        "--annotations",
        "--family",
        "--backend",
        "--limit",
        "--batch",
        "--no-report",
    ):
        assert option in result.stdout


@pytest.mark.long
def test_a_data_set_in_ultralytics_form_has_the_score_of_its_coco_form(coco: Any) -> None:
    labels = coco.root / "labels"
    labels.mkdir()
    coco.annotations.unlink()
    x, y, width, height = (value / coco.side for value in coco.box)
    for number in range(1, 5):
        (labels / f"{number}.txt").write_text(f"0 {x + width / 2} {y + height / 2} {width} {height}\n")
    (coco.root / "data.yaml").write_text("test: images\nnames: [square, circle]\n")
    command = [str(coco.model), "--data", str(coco.root), "--split", "test", "--output", str(coco.output)]
    result = coco.invoke_exactly(command)
    assert result.exit_code == 0, result.output
    assert f"Data: {coco.root / 'data.yaml'}, split test" in result.stderr
    metrics = json.loads((coco.output / "metrics.json").read_text())
    assert metrics["AP"] == pytest.approx(1.0)
    assert metrics["dataset"]["split"] == "test"
    assert "No gallery" not in (coco.output / "report.html").read_text()


@pytest.mark.long
def test_figures_at_the_threshold_are_said_written_and_drawn(coco: Any) -> None:
    result = coco.invoke("--threshold", "0.4")
    assert result.exit_code == 0, result.output
    metrics = json.loads((coco.output / "metrics.json").read_text())
    assert [metrics[name] for name in ("f1", "precision", "recall", "best_f1")] == pytest.approx([2 / 3, 1, 0.5, 1])
    assert metrics["best_f1_threshold"] == pytest.approx(40 / 255, abs=1e-5)
    assert metrics["ece"] == pytest.approx((55 / 255 + 135 / 255) / 2, abs=1e-5)
    assert [row["f1"] for row in metrics["per_class"]] == pytest.approx([2 / 3, None])
    records = [json.loads(line) for line in (coco.output / "records.jsonl").read_text().splitlines()]
    assert [record["true_positives"] for record in records] == [0, 1, 1, 0]
    assert [record["errors"]["missed"] for record in records] == [1, 0, 0, 1]
    assert json.loads((coco.output / "confusion.json").read_text())["errors"]["missed"] == 2
    assert "At score 0.4: F1 0.6667" in result.stdout.replace("\n", " ")
    page = (coco.output / "report.html").read_text()
    assert all(
        text in page
        for text in ("At score 0.40, as it is used", "Reliability of the scores", "Errors by kind", "shipped: 0.4")
    )


def test_a_threshold_below_conf_is_noted(coco: Any) -> None:
    assert "metrics at --threshold 0.25 are of boxes from 0.3 on" in coco.invoke("--conf", "0.3", "--no-report").stderr
