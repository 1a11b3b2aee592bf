"""DETR models without names of classes, scored and looked at: logits of 91 classes, and boxes of two in pixels."""

import json
from typing import Any

import numpy as np
import onnx
import pytest
from tests.in_app import stderr_of
from tests.onnx_text import write_onnx
from typer.testing import CliRunner

from trt_workbench.console.common import single_command_app
from trt_workbench.vision.predict_cli import predict

ASKS = "Pass --normalize (none, imagenet or 0-255) and --channel-order (rgb or bgr)"


@pytest.fixture
def detr(coco: Any) -> Any:
    """Sees the object as class 3, the more surely the brighter the image is; the annotations' id is 3, too."""
    x, y, width, height = (value / coco.side for value in coco.box)
    boxes = np.array([[[x + width / 2, y + height / 2, width, height], [0.5, 0.5, 0.1, 0.1]]], np.float32)
    least, gain = np.full((1, 2, 91), -8, np.float32), np.zeros((1, 2, 91), np.float32)
    gain[0, 0, 3] = 12
    text = (
        f"detr (float[N,3,{coco.side},{coco.side}] pixel_values) => (float[N,2,91] logits, float[N,2,4] pred_boxes) {{ "
        "mean = ReduceMean(pixel_values, axes) one = Reshape(mean, shape) more = Mul(one, gain) "
        "logits = Add(more, least) none = Mul(one, zero) pred_boxes = Add(none, boxes) }"
    )
    weights = {"axes": np.array([1, 2, 3]), "shape": np.array([-1, 1, 1]), "zero": np.zeros((1, 2, 4), np.float32)}
    write_onnx(coco.model, text, {**weights, "gain": gain, "least": least, "boxes": boxes}, 18)
    return coco


def test_scored_by_the_ids_of_the_categories(detr: Any) -> None:
    result = detr.invoke("--normalize", "none", "--classes", "by-id", "--backend", "ort-cpu", "--no-report")
    assert result.exit_code == 0, result.output
    metrics = json.loads((detr.output / "metrics.json").read_text())
    assert (metrics["AP"], metrics["model"]["family"]) == (1.0, "detr-logits")
    assert (metrics["settings"]["transform"]["placement"], metrics["settings"]["iou"]) == ("stretch", None)


def test_what_is_not_said_is_asked_for(detr: Any) -> None:
    result = detr.invoke("--classes", "by-id", "--backend", "ort-cpu")
    detr.assert_refused(result, ASKS)
    result = detr.invoke("--normalize", "none", "--backend", "ort-cpu")
    detr.assert_refused(result, "91 classes", "--classes by-id")


def test_a_decision_asks_before_anything_is_made(detr: Any) -> None:
    text = stderr_of("decide", detr.model, "--data", detr.images, "--annotations", detr.annotations)
    assert "finds out which options to pass" in text
    assert "Making" not in text


def test_predicted_by_the_model_that_says_its_normalisation(detr: Any) -> None:
    model = onnx.load(detr.model)
    onnx.helper.set_model_props(model, {"normalize": "none"})
    onnx.save(model, detr.model)
    arguments = [str(detr.model), str(detr.images), "--output", str(detr.output), "--backend", "ort-cpu"]
    result = CliRunner().invoke(single_command_app(predict), [*arguments, "--no-pictures"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (detr.output / "detections.jsonl").read_text().splitlines()]
    x, y, width, height = detr.box
    assert lines[0]["class_name"] == "car"
    assert lines[0]["box"] == pytest.approx([x, y, x + width, y + height], abs=1e-3)


@pytest.mark.parametrize("batch", ["N", "3"])
def test_a_detr_with_its_postprocessing_inside(coco: Any, batch: str) -> None:
    x, y, width, height = (value / coco.side for value in coco.box)
    shares = np.array([[[x, y, x + width, y + height], [0, 0, 0.5, 0.5]]], np.float32)
    gain = np.array([[1, 0.001]], np.float32)
    side = coco.side
    text = (
        f"detr (float[{batch},3,{side},{side}] images, int64[{batch},2] orig_target_sizes) => "
        f"(int64[{batch},2] labels, float[{batch},2,4] boxes, float[{batch},2] scores) {{ "
        "twice = Concat <axis = 1> (orig_target_sizes, orig_target_sizes) float = Cast <to = 1> (twice) "
        "size = Unsqueeze(float, one) boxes = Mul(shares, size) "
        "mean = ReduceMean(images, axes) level = Reshape(mean, shape) scores = Mul(level, gain) "
        "none = Mul(orig_target_sizes, zero) labels = Add(none, classes) }"
    )
    weights = {"one": np.array([1]), "axes": np.array([1, 2, 3]), "shape": np.array([-1, 1]), "zero": np.array([0])}
    classes = np.array([[0, 1]])
    write_onnx(coco.model, text, {**weights, "shares": shares, "gain": gain, "classes": classes}, 18)

    coco.assert_refused(coco.invoke("--backend", "ort-cpu"), ASKS)
    arguments = ["--normalize", "none", "--backend", "ort-cpu"]
    result = coco.invoke(*arguments, "--no-report")
    assert result.exit_code == 0, result.output
    metrics = json.loads((coco.output / "metrics.json").read_text())
    assert (metrics["AP"], metrics["model"]["family"], metrics["images"]) == (1.0, "detr-pixels", 4)

    seen = [str(coco.model), str(coco.images), "--output", str(coco.root / "seen"), *arguments, "--no-pictures"]
    result = CliRunner().invoke(single_command_app(predict), seen, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    line = json.loads((coco.root / "seen" / "detections.jsonl").read_text().splitlines()[0])
    left, top, *size = coco.box
    assert line["box"] == pytest.approx([left, top, left + size[0], top + size[1]], abs=1e-3)
