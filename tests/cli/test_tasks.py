"""Models that find more than boxes, scored and looked at: a constant row whose score is the image's brightness."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from tests.onnx_text import write_onnx
from typer.testing import CliRunner

import trt_workbench.api as tw
from trt_workbench.console.common import single_command_app
from trt_workbench.quantize import coco_scores
from trt_workbench.vision.predict_cli import predict

NAMES = {"names": "['square', 'circle']", "end2end": "True"}


@pytest.fixture
def head(coco: Any) -> Callable[..., Any]:
    def make(task: str, box: Sequence[float], more: Sequence[float], **metadata: str) -> Any:
        """Write a model of one object: box as its head has it, and what follows score and class."""
        row = np.array([[[*box, 0, 0, *more]]], np.float32)
        gain = np.zeros_like(row)
        gain[0, 0, 4] = 1
        side, columns = coco.side, row.shape[2]
        text = (
            f"head (float[N,3,{side},{side}] images) => (float[N,1,{columns}] output0) {{ "
            "mean = ReduceMean(images, axes) level = Reshape(mean, shape) "
            "scores = Mul(level, gain) output0 = Add(scores, row) }"
        )
        weights = {"axes": np.array([1, 2, 3]), "shape": np.array([-1, 1, 1]), "gain": gain, "row": row}
        write_onnx(coco.model, text, weights, 18)
        model = onnx.load(coco.model)
        onnx.helper.set_model_props(model, {"task": task, **NAMES, **metadata})
        onnx.save(model, coco.model)
        return coco

    return make


def annotate(coco: Any, **more: Any) -> None:
    document = json.loads(coco.annotations.read_text())
    coco.rewrite(annotations=[{**one, **more} for one in document["annotations"]])


def scored(coco: Any) -> dict[str, Any]:
    result = coco.invoke("--backend", "ort-cpu")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads((coco.output / "metrics.json").read_text())
    return found


def read_back(coco: Any) -> tuple[str, float]:
    """What decide reads of the run: its score and resamples of it are those of the task, with further figures."""
    found = coco_scores(coco.output, 0)
    assert found.resampled == pytest.approx(found.value)
    return [*found.figures][-1], found.value


def predicted(coco: Any) -> list[dict[str, Any]]:
    output = coco.root / "runs" / "seen"
    arguments = [str(coco.model), str(coco.images), "--output", str(output), "--backend", "ort-cpu", "--conf", "0.1"]
    result = CliRunner().invoke(single_command_app(predict), arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    pictures = sorted((output / "pictures").iterdir())
    with tw.load(coco.model, backend="ort-cpu", conf=0.1) as model:
        for file, seen in zip(sorted(coco.images.iterdir()), pictures, strict=True):
            shown = cv2.imencode(".jpg", model(file).picture(), [cv2.IMWRITE_JPEG_QUALITY, 90])[1]
            assert seen.read_bytes() == shown.tobytes()  # a notebook shows what predict writes
    assert len(pictures) == 4
    return [json.loads(line) for line in (output / "detections.jsonl").read_text().splitlines()]


@pytest.mark.long
def test_poses(head: Any) -> None:
    corners = (4, 6, 20, 18)
    points = [[5 + place, 8 + place / 2, 1] for place in range(5)]
    coco = head("pose", corners, np.ravel(points), kpt_shape="[5, 3]")
    annotate(coco, keypoints=[value for x, y, _ in points for value in (x, y, 2)], area=1200)
    metrics = scored(coco)
    assert (metrics["model"]["family"], metrics["model"]["task"]) == ("yolov10-pose", "keypoints")
    assert (metrics["AP"], metrics["keypoint_AP"], metrics["keypoint_AR_medium"]) == (1.0, 1.0, 1.0)
    assert "keypoint_AP_small" not in metrics
    assert read_back(coco) == ("keypoint_AR75", 1.0)
    assert any("each of these 5 has 1/5" in note for note in metrics["notes"])
    assert "reaches keypoint_AP 1.0000" in (coco.output / "report.html").read_text()
    assert predicted(coco)[0]["keypoints"] == pytest.approx(np.ravel(points).tolist(), abs=1e-4)
    annotate(coco, keypoints=[5, 8, 2] * 17)
    coco.assert_refused(coco.invoke("--backend", "ort-cpu"), "finds 5 keypoints", "have 17", left=["one", "seen"])


@pytest.mark.usefixtures("doubled_core")
def test_keypoints_come_with_the_boxes_that_the_device_found(head: Any) -> None:
    coco = head("pose", (4, 6, 20, 18), np.arange(15), kpt_shape="[5, 3]")
    annotate(coco, keypoints=[5, 8, 2] * 5, area=1200)
    assert coco.predictions("device") == coco.predictions("host")


@pytest.mark.long
def test_oriented_boxes(head: Any) -> None:
    coco = head("obb", (16, 16, 18, 6), (0.5,))
    turn = np.array([[np.cos(0.5), np.sin(0.5)], [-np.sin(0.5), np.cos(0.5)]])
    corners = (np.array([[9, 3], [9, -3], [-9, -3], [-9, 3]]) @ turn + 16).ravel().tolist()
    low, high = np.reshape(corners, (4, 2)).min(0), np.reshape(corners, (4, 2)).max(0)
    annotate(coco, segmentation=[corners], bbox=[*low, *(high - low)], area=108)
    metrics = scored(coco)
    assert (metrics["model"]["family"], metrics["model"]["task"]) == ("yolov10-obb", "rotated")
    assert (metrics["AP"], metrics["AP75_ci95"], metrics["AP_small"], metrics["AR_100"]) == (
        1.0,
        [1.0, 1.0],
        None,
        None,
    )
    matrix = json.loads((coco.output / "confusion.json").read_text())["matrix"]
    assert matrix == [[3, 0, 1], [0, 0, 0], [0, 0, 0]]  # one score is below 0.25
    assert read_back(coco) == ("AP75", 1.0)
    assert "reaches AP 1.0000" in (coco.output / "report.html").read_text()
    line = predicted(coco)[0]
    assert line["rbox"] == pytest.approx([16, 16, 18, 6, 0.5], abs=1e-4)
    assert line["segmentation"][0] == pytest.approx(corners, abs=1e-3)
    written = (coco.root / "runs" / "seen" / "dota" / "Task1_square.txt").read_text().splitlines()
    assert written[0].split()[:2] == ["1", f"{line['score']:.5f}"]
    assert [*map(float, written[0].split()[2:])] == pytest.approx(corners, abs=2e-3)
    annotate(coco, segmentation=[corners[:6]])
    coco.assert_refused(coco.invoke("--backend", "ort-cpu"), "four corners", left=["one", "seen"])
