"""A model for instance segmentation, scored and looked at: yolov10-seg of one object whose mask fills its box."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.onnx_text import write_onnx
from typer.testing import CliRunner

from trt_workbench.console.common import single_command_app
from trt_workbench.core.workspace import SEGMENTER, embedded_model
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.subject import subject_of
from trt_workbench.evaluate.cli import eval_coco
from trt_workbench.quantize import CalibrationSettings, coco_scores
from trt_workbench.vision.predict_cli import predict
from trt_workbench.vision.scenes import dataset as embedded

pytestmark = pytest.mark.usefixtures("blank_pictures")

NAMES = {"task": "segment", "names": "['square', 'circle']", "end2end": "True"}


@pytest.fixture
def masks(coco: Any) -> Any:
    """Sees the object the more surely the brighter the image is; its mask is the left half of its box."""
    x, y, width, height = coco.box
    row, gain = np.zeros((1, 2, 8), np.float32), np.zeros((1, 2, 8), np.float32)
    row[0, 0, :4], row[0, 0, 6:], gain[0, 0, 4] = (x, y, x + width, y + height), (1, 0), 1
    planes = np.full((1, 2, coco.side // 4, coco.side // 4), -1, np.float32)
    planes[..., : (x + width // 2) // 4] = 1
    side = coco.side
    text = (
        f"masks (float[N,3,{side},{side}] images) => "
        f"(float[N,2,8] output0, float[N,2,{side // 4},{side // 4}] output1) {{ "
        "mean = ReduceMean(images, axes) level = Reshape(mean, shape) scores = Mul(level, gain) "
        "output0 = Add(scores, row) none = Mul(mean, zero) output1 = Add(none, planes) }"
    )
    weights = {"axes": np.array([1, 2, 3]), "shape": np.array([-1, 1, 1]), "zero": np.zeros(1, np.float32)}
    write_onnx(coco.model, text, {**weights, "gain": gain, "row": row, "planes": planes}, 18)
    model = onnx.load(coco.model)
    onnx.helper.set_model_props(model, NAMES)
    onnx.save(model, coco.model)
    document = json.loads(coco.annotations.read_text())
    left = [x, y, x + width / 2, y, x + width / 2, y + height, x, y + height]
    coco.rewrite(annotations=[{**one, "area": 96, "segmentation": [left]} for one in document["annotations"]])
    return coco


def test_boxes_and_masks_are_scored_and_shown(masks: Any) -> None:
    result = masks.invoke("--backend", "ort-cpu")
    assert result.exit_code == 0, result.output
    metrics = json.loads((masks.output / "metrics.json").read_text())
    assert (metrics["model"]["family"], metrics["model"]["task"]) == ("yolov10-seg", "masks")
    assert (metrics["AP"], metrics["mask_AP"], metrics["mask_AP_ci95"]) == (1.0, 1.0, [1.0, 1.0])
    assert [row["mask_AP"] for row in metrics["per_class"]] == [1.0, None]
    predictions = json.loads((masks.output / "predictions.json").read_text())
    assert predictions[0]["segmentation"]["size"] == [masks.side, masks.side]
    report = (masks.output / "report.html").read_text()
    assert "reaches mask_AP 1.0000 (mask_AP50 1.0000, boxes: AP 1.0000)" in report
    assert "of masks" in report
    assert coco_scores(masks.output, 0).resampled == pytest.approx(1.0)


@pytest.mark.usefixtures("doubled_core")
def test_masks_are_made_of_what_the_device_found(masks: Any) -> None:
    assert masks.predictions("device") == masks.predictions("host")


@pytest.mark.usefixtures("doubled_core")
def test_masks_of_the_device_that_are_not_the_processors_end_the_run(
    masks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "masks")
    text = "differ from those that the CPU finds in the same outputs"
    masks.assert_refused(masks.invoke("--backend", "trt", "--allow-unverified"), text, exit_code=1)


def test_some_images_alone_are_scored(masks: Any) -> None:
    document = json.loads(masks.annotations.read_text())
    broken = {**document["annotations"][3], "segmentation": [[1, 2, 3, 4]]}  # of an image that is left out
    masks.rewrite(annotations=[*document["annotations"][:3], broken])
    result = masks.invoke("--backend", "ort-cpu", "--limit", "2", "--no-report")
    assert result.exit_code == 0, result.output
    assert json.loads((masks.output / "metrics.json").read_text())["mask_AP"] == 1.0


def test_masks_are_predicted_and_drawn(masks: Any) -> None:
    arguments = [str(masks.model), str(masks.images), "--output", str(masks.output), "--backend", "ort-cpu"]
    result = CliRunner().invoke(single_command_app(predict), [*arguments, "--conf", "0.1"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (masks.output / "detections.jsonl").read_text().splitlines()]
    assert [line["segmentation"]["size"] for line in lines] == [[masks.side, masks.side]] * 4
    assert len(list((masks.output / "pictures").iterdir())) == 4


def test_labels_of_boxes_alone_are_refused(masks: Any) -> None:
    document = json.loads(masks.annotations.read_text())
    masks.rewrite(annotations=[{**one, "segmentation": []} for one in document["annotations"]])
    masks.assert_refused(
        masks.invoke("--backend", "ort-cpu"),
        "do not fit a model for instance segmentation (annotation 1 has no segmentation",
    )


def test_masks_of_images_of_another_size_are_refused(masks: Any) -> None:
    document = json.loads(masks.annotations.read_text())
    masks.rewrite(images=[{**one, "width": 31} for one in document["images"]])
    text = "Masks of 4 images cannot be compared: the annotations give image 1 32x31 (height x width), and the file has"
    masks.assert_refused(masks.invoke("--backend", "ort-cpu"), text)


def test_a_decision_is_by_masks(masks: Any) -> None:
    settings = DecideSettings(data=masks.images, annotations=masks.annotations)
    subject = subject_of(masks.model, settings, CalibrationSettings(), lambda _: None)
    assert subject.task.figure == "mask_AP"


@pytest.mark.long
def test_the_embedded_model_runs_on_the_embedded_scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    monkeypatch.setattr(embedded, "HELD_OUT_IMAGES", 40)
    words = ["shapes-segmenter", "--output", str(tmp_path / "run"), "--no-report"]
    result = CliRunner().invoke(single_command_app(eval_coco), words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["images"], metrics["model"]["family"], metrics["model"]["task"]) == (40, "yolov8-seg", "masks")
    assert metrics["AP"] > 0.85
    assert metrics["mask_AP"] > 0.5
    assert metrics["mask_AP_ci95"][0] < metrics["mask_AP"] < metrics["mask_AP_ci95"][1]


@pytest.mark.long
def test_a_decision_about_the_embedded_model_needs_no_data() -> None:
    found = subject_of(embedded_model(SEGMENTER), DecideSettings(precisions=("fp32",)), CalibrationSettings(), print)
    assert found.task.keep == ("mask_AP",)
