"""A model for semantic segmentation, scored and looked at: its logits are the channels of the image."""

import json
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from tests.in_app import stdout_of
from tests.onnx_text import write_onnx

METADATA = {"task": "semantic", "names": "['red', 'green', 'blue']"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = write_onnx(
        tmp_path / "m.onnx", "g (float[N,3,32,32] images) => (float[N,3,32,32] o) { o = Identity(images) }"
    )
    made = onnx.load(path)
    onnx.helper.set_model_props(made, METADATA)
    onnx.save(made, path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four images of two halves; the right half of the last one is annotated wrongly."""
    for number in range(4):
        plane = np.zeros((24, 40), np.uint8)
        plane[:, 20:] = 1 + number % 2
        pixels = np.eye(3, dtype=np.uint8)[plane][..., ::-1] * 200
        file = tmp_path / "set" / "images" / "val" / f"{number}.png"
        for one in (file, tmp_path / "set" / "masks" / "val" / file.name):
            one.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(file), np.ascontiguousarray(pixels))
        plane[:, 20:] = 2 if number == 2 else plane[:, 20:]
        cv2.imwrite(str(tmp_path / "set" / "masks" / "val" / file.name), plane)
    (tmp_path / "set" / "classes.txt").write_text("red\ngreen\nblue\n")
    return tmp_path / "set"


@pytest.mark.parametrize(
    "options", ["", "--family semantic --normalize imagenet --resize stretch --classes by-order"], ids=["said", "asked"]
)
def test_pixels_are_scored_and_shown(model: Path, data: Path, tmp_path: Path, options: str) -> None:
    if options:
        bare = onnx.load(model)
        del bare.metadata_props[:]
        onnx.save(bare, model)
    words = ["eval-vision", model, *options.split(), "--backend", "ort-cpu"]
    assert "Semantic segmentation figures" in stdout_of(*words, "--data", data, "--output", tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    # of 80 columns that are red 80, of 40 green 20 of 40, of 60 blue 40 of 60
    assert metrics["mIoU"] == pytest.approx((1 + 20 / 40 + 40 / 60) / 3)
    assert metrics["pixel_accuracy"] == pytest.approx(140 / 160)
    low, high = metrics["mIoU_ci95"]
    assert low < metrics["mIoU"] <= high
    assert metrics["AP"] is None
    assert [row["mIoU"] for row in metrics["per_class"]] == [1.0, pytest.approx(1 / 2), pytest.approx(2 / 3)]
    assert "mIoU" in (tmp_path / "run" / "report.html").read_text()


def test_pixels_are_predicted_and_drawn(model: Path, data: Path, tmp_path: Path) -> None:
    stdout_of("predict", model, data / "images" / "val", "--backend", "ort-cpu", "--output", tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "detections.jsonl").read_text().splitlines()]
    assert {line["class_name"] for line in lines} == {"red", "green", "blue"}
    assert all(line["segmentation"]["size"] == [24, 40] for line in lines)
    assert len(list((tmp_path / "run" / "pictures").iterdir())) == 4


def test_precisions_are_compared_by_miou(model: Path, data: Path, tmp_path: Path) -> None:
    stdout_of(
        "decide", model, "--data", data, "--backends", "ort-cpu", "--precisions", "fp32,fp16", "--repetitions", 0,
        "--output", tmp_path / "run", code=1,
    )  # fmt: skip
    assert json.loads((tmp_path / "run" / "decision.json").read_text())["figure"] == "mIoU"
