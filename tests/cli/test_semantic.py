"""A model for semantic segmentation, scored and looked at: its logits are the channels of the image."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from tests.in_app import stdout_of
from tests.onnx_text import write_onnx

pytestmark = pytest.mark.usefixtures("blank_pictures")

NAMES = ["red", "green", "blue"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "m.onnx", "o = Identity(images)")


def written(path: Path, nodes: str, classes: int = 3, **weights: Any) -> Path:
    """Write a model of these nodes from `images` to `o`."""
    write_onnx(path, f"g (float[N,3,32,32] images) => (float[N,{classes},32,32] o) {{ {nodes} }}", weights)
    made = onnx.load(path)
    onnx.helper.set_model_props(made, {"task": "semantic", "names": str(NAMES[:classes])})
    onnx.save(made, path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four images of two halves; the right half of one is annotated wrongly."""
    return halves(tmp_path / "set", "val", 4)


def halves(root: Path, split: str, count: int) -> Path:
    for number in range(count):
        plane = np.zeros((24, 40), np.uint8)
        plane[:, 20:] = 1 + number % 2
        pixels = np.eye(3, dtype=np.uint8)[plane][..., ::-1] * 200
        file = root / "images" / split / f"{number}.png"
        for one in (file, root / "masks" / split / file.name):
            one.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(file), np.ascontiguousarray(pixels))
        plane[:, 20:] = 2 if number == 2 else plane[:, 20:]
        cv2.imwrite(str(root / "masks" / split / file.name), plane)
    (root / "classes.txt").write_text("red\ngreen\nblue\n")
    return root


@pytest.mark.parametrize(
    "options", ["", "--family semantic --normalize imagenet --resize stretch --classes by-order"], ids=["said", "asked"]
)
def test_pixels_are_scored_and_shown(model: Path, data: Path, tmp_path: Path, options: str) -> None:
    if options:
        bare = onnx.load(model)
        del bare.metadata_props[:]
        onnx.save(bare, model)
    words = ["eval-vision", model, *options.split(), "--backend", "ort-cpu"]
    assert "Semantic segmentation metrics" in stdout_of(*words, "--data", data, "--output", tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    # of 80 columns that are red 80, of 40 green 20 of 40, of 60 blue 40 of 60
    assert metrics["mIoU"] == pytest.approx((1 + 20 / 40 + 40 / 60) / 3)
    assert metrics["pixel_accuracy"] == pytest.approx(140 / 160)
    low, high = metrics["mIoU_ci95"]
    assert low < metrics["mIoU"] <= high
    assert metrics["AP"] is None
    assert [row["mIoU"] for row in metrics["per_class"]] == [1.0, pytest.approx(1 / 2), pytest.approx(2 / 3)]
    assert "mIoU" in (tmp_path / "run" / "report.html").read_text()


def test_nothing_found_is_a_score_of_zero_and_a_note(tmp_path: Path, data: Path) -> None:
    path = written(tmp_path / "m.onnx", "o = Conv(images, w)", 1, w=np.full((1, 3, 1, 1), -1, np.float32))
    (data / "classes.txt").write_text("red\n-\n-\n")
    stdout_of("eval-vision", path, "--backend", "ort-cpu", "--data", data, "--output", tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["mIoU"] == 0.0
    assert "The model detected nothing; check the preprocessing and the family." in metrics["notes"]


def test_pixels_are_predicted_and_drawn(model: Path, data: Path, tmp_path: Path) -> None:
    stdout_of("predict", model, data / "images" / "val", "--backend", "ort-cpu", "--output", tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "detections.jsonl").read_text().splitlines()]
    assert {line["class_name"] for line in lines} == {"red", "green", "blue"}
    assert all(line["segmentation"]["size"] == [24, 40] for line in lines)
    assert len(list((tmp_path / "run" / "pictures").iterdir())) == 4


@pytest.mark.long
def test_precisions_are_compared_by_miou(model: Path, data: Path, tmp_path: Path) -> None:
    stdout_of(
        "decide", model, "--data", data, "--backends", "ort-cpu", "--precisions", "fp32,fp16", "--repetitions", 0,
        "--output", tmp_path / "run", code=1,
    )  # fmt: skip
    assert json.loads((tmp_path / "run" / "decision.json").read_text())["figure"] == "mIoU"


def test_the_search_of_quantize_goes_by_miou(tmp_path: Path) -> None:
    """In int8, the channels beside one a thousand times as large are lost; one convolution in fp32 keeps them."""
    wide = np.array([1000, 1, 1, 1], np.float32).reshape(1, 4, 1, 1)
    first, last = np.eye(4, 3, -1, np.float32), np.eye(3, 4, 1, np.float32)
    first[0] = 1
    nodes = "a = Conv(images, w0) b = Mul(a, wide) [planted] c = Conv(b, w1) [last] o = Conv(c, w2)"
    weights = {"w0": first[..., None, None], "wide": wide, "w1": last[..., None, None]}
    path = written(tmp_path / "m.onnx", nodes, **weights, w2=np.eye(3, dtype=np.float32)[..., None, None])
    data = halves(tmp_path / "set", "train", 16)
    asked = ["--to", "int8", "--calibration", data / "images" / "train", "--annotations", data / "masks" / "train"]
    words = ["quantize", path, *asked, "--keep-score", 0.005, "--output", tmp_path / "made.onnx"]
    assert "mIoU on 8 held-out images: " in stdout_of(*words)
    search = json.loads((tmp_path / "made.json").read_text())["search"]
    assert (search["figure"], search["unit"], search["chosen"]["kept"]) == ("mIoU", "images", 1)
    assert json.loads((tmp_path / "made.search" / "search.json").read_text())["order"][0] == "planted"


def test_how_images_are_prepared_is_found_out_by_miou(tmp_path: Path) -> None:
    """Where pixels are not from 0 to 1, this model takes all of them for green."""
    nodes = "a = Sub(images, full) b = Abs(a) c = Sub(near, b) o = Mul(c, others)"
    weights = {"full": 200 / 255, "near": 0.3, "others": np.array([1, 0, 1]).reshape(3, 1, 1)}
    path = written(tmp_path / "m.onnx", nodes, **{name: np.float32(value) for name, value in weights.items()})
    bare = onnx.load(path)
    del bare.metadata_props[:]
    onnx.save(bare, path)
    stdout_of(
        "eval-vision", path, "--data", halves(tmp_path / "set", "val", 64), "--family", "semantic",
        "--resize", "stretch", "--classes", "by-order", "--backend", "ort-cpu", "--output", tmp_path / "run",
    )  # fmt: skip
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())["probe"]
    assert found["chosen"] == {"normalize": "none", "channel_order": "rgb"}
    best, *others = [way["mIoU"] for way in found["ways"]]
    assert best > 0.9
    assert all(one < 0.5 for one in others)
