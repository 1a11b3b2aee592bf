"""A classifier of colours, scored on folders of classes and looked at."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from tests.onnx_text import write_onnx
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.console.common import single_command_app
from trt_workbench.evaluate.cli import eval_coco
from trt_workbench.quantize import coco_scores
from trt_workbench.quantize.cli import quantize
from trt_workbench.vision.predict_cli import predict

pytestmark = pytest.mark.usefixtures("blank_pictures")

COLOURS = {"red": (0, 0, 200), "green": (0, 200, 0), "blue": (200, 0, 0)}


def picture(path: Path, colour: tuple[int, int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.full((40, 60, 3), colour, np.uint8))


def write_model(path: Path, metadata: dict[str, str], classes: int = 3) -> Path:
    text = (
        f"colours (float[N,3,16,16] images) => (float[N,{classes}] output0) "
        "{ mean = ReduceMean<keepdims=0>(images, axes) output0 = MatMul(mean, weights) }"
    )
    weights = {"axes": np.array([2, 3]), "weights": np.eye(3, classes, dtype=np.float32)}
    write_onnx(path, text, weights, 18)
    model = onnx.load(path)
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "m.onnx", {"task": "classify", "names": str([*COLOURS])})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, colour in COLOURS.items():
        for number in range(2):
            picture(tmp_path / "data" / "val" / name / f"{number}.png", colour)
    picture(tmp_path / "data" / "val" / "red" / "odd.png", COLOURS["green"])
    return tmp_path / "data"


def run(command: Any, *arguments: object) -> Any:
    return CliRunner().invoke(single_command_app(command), [*map(str, arguments), "--backend", "ort-cpu"])


def test_folders_are_scored_and_shown(model: Path, data: Path, tmp_path: Path) -> None:
    result = run(eval_coco, model, "--data", data, "--output", tmp_path / "run", "--batch", 2)
    assert result.exit_code == 0, result.output
    assert "Classification metrics" in result.output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["model"]["family"], metrics["model"]["task"]) == ("classifier", "classes")
    assert (metrics["top1"], metrics["top5"], metrics["AP"]) == (pytest.approx(6 / 7), None, None)
    low, high = metrics["top1_ci95"]
    assert low < 6 / 7 < high
    assert {row["name"]: row["top1"] for row in metrics["per_class"]} == {"blue": 1, "green": 1, "red": 2 / 3}
    confusion = json.loads((tmp_path / "run" / "confusion.json").read_text())
    assert confusion["matrix"] == [[2, 0, 0, 0], [0, 2, 0, 0], [0, 1, 2, 0], [0, 0, 0, 0]]
    report = (tmp_path / "run" / "report.html").read_text()
    assert "reaches top1 0.8571 on 7 images" in report
    assert "red/odd.png: wrong" in report
    assert (tmp_path / "run" / "plots" / "gallery" / "worst-1.jpg").is_file()
    scores = coco_scores(tmp_path / "run", 0)
    assert scores.value == pytest.approx(6 / 7)
    assert scores.resampled.std() > 0


def test_the_best_classes_are_predicted(model: Path, data: Path, tmp_path: Path) -> None:
    result = run(predict, model, data / "val" / "red", "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "red 0." in result.output
    lines = [json.loads(line) for line in (tmp_path / "run" / "detections.jsonl").read_text().splitlines()]
    assert lines[0]["class_name"] == "red"
    assert (len(lines), lines[0]["box"]) == (9, [0, 0, 60, 40])
    document = json.loads((tmp_path / "run" / "predict.json").read_text())
    assert document["by_class"] == {"red": 2, "green": 1}
    assert len(list((tmp_path / "run" / "pictures").iterdir())) == 3


def test_a_list_of_numbers_is_scored_by_order(data: Path, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx", {})
    picture(data / "val" / "a b.png", COLOURS["blue"])
    (data / "val" / "list.txt").write_text("red/0.png 0\ngreen/0.png 1\na b.png 2\n")
    arguments = ["--data", data / "val" / "list.txt", "--output", tmp_path / "run", "--no-report"]
    result = run(eval_coco, model, *arguments, "--family", "classifier", "--normalize", "imagenet")
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["top1"], metrics["settings"]["transform"]["crop"]) == (1.0, 0.875)


def test_data_of_another_task_are_refused(model: Path, data: Path, tmp_path: Path, coco: Any) -> None:
    result = run(eval_coco, model, "--data", coco.images, "--annotations", coco.annotations, "--no-report")
    assert result.exit_code == 2
    assert "objects in images, and the model is for classification" in " ".join(result.output.split())
    result = run(eval_coco, coco.model, "--data", data, "--no-report")
    assert result.exit_code == 2
    assert "a class for each image, and the model is for detection" in " ".join(result.output.split())
    picture(data / "val" / "grey" / "1.png", (9, 9, 9))
    result = run(eval_coco, model, "--data", data, "--output", tmp_path / "run")
    assert result.exit_code == 2
    assert "grey" in result.output


def test_what_is_not_said_is_asked_for(data: Path, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx", {"names": str([*COLOURS])})
    result = run(eval_coco, model, "--data", data, "--output", tmp_path / "run")
    assert "fits --family classifier, which is never guessed" in " ".join(result.output.split())
    result = run(eval_coco, model, "--data", data, "--output", tmp_path / "run", "--family", "classifier")
    assert result.exit_code == 2
    assert "Pass --normalize" in " ".join(result.output.split())


def test_a_damaged_image_is_named(model: Path, data: Path, tmp_path: Path) -> None:
    (data / "val" / "red" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    result = run(eval_coco, model, "--data", data, "--output", tmp_path / "run")
    assert result.exit_code == 2
    assert "red/0.png" in "".join(result.output.split())


def test_candidates_are_scored_by_top1(model: Path, data: Path, tmp_path: Path) -> None:
    for number in range(9):
        for name, colour in COLOURS.items():
            picture(data / "val" / name / f"more-{number}.png", colour)
    words = ["--to", "int8", "--calibration", data / "val", "--annotations", data / "val", "--keep-score", "1"]
    result = CliRunner().invoke(
        single_command_app(quantize), [str(model), *map(str, words), "-o", str(tmp_path / "q.onnx")]
    )
    assert result.exit_code == 0, result.output
    assert "top1 of the float model: " in " ".join(result.output.split())


def test_precisions_are_compared_by_top1(model: Path, data: Path, tmp_path: Path) -> None:
    words = ["decide", model, "--data", data, "--backends", "ort-cpu", "--precisions", "fp32,fp16", "--repetitions", 0]
    result = CliRunner().invoke(app, [*map(str, words), "--output", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "run" / "decision.json").read_text())
    assert [(one["keeps"], one["simulated"]) for one in document["accuracy"]] == [("not shown", True)]  # of 7 images
    assert document["figure"] == "top1"
    assert [row["score"]["value"] for row in document["rows"]] == [pytest.approx(6 / 7)] * 2


@pytest.mark.long
def test_the_embedded_classifier_runs_on_its_own_objects(tmp_path: Path) -> None:
    result = run(eval_coco, "shapes-classifier", "--output", tmp_path / "run", "--no-report")
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["images"] == 1219
    assert metrics["top1"] > 0.8
    assert metrics["top5"] > 0.96
