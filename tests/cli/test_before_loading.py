"""A value that no model can make right is refused before one is loaded: on TensorRT that takes minutes."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.in_app import stderr_of
from tests.texts import held

from trt_workbench.backends.base import Backend
from trt_workbench.core.workers import WorkerProcess
from trt_workbench.core.workspace import embedded_model
from trt_workbench.vision.scenes.scenes import write_dataset

DETECTOR = "shapes-yolov10"
WORDS = {
    "verify": [DETECTOR, "--backend", "ort-cpu"],
    "eval-coco": [DETECTOR, "--data", "val", "--annotations", "val.json", "--backend", "ort-cpu"],
    "predict": [DETECTOR, "val", "--backend", "ort-cpu"],
    "infer-engine": [DETECTOR, "--backend", "ort-cpu"],
    "decide": [DETECTOR, "--data", "val", "--annotations", "val.json", "--backends", "ort-cpu"],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    write_dataset(root, "val", 2, 5).rename(root / "val.json")
    write_dataset(root, "train", 16, 6).rename(root / "train.json")
    (root / "classes.txt").write_text("square\nsqare\n")
    return root


@pytest.fixture(autouse=True)
def nothing_is_loaded(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(data)
    with (
        patch.object(Backend, "load", side_effect=AssertionError),
        patch.object(WorkerProcess, "__init__", side_effect=AssertionError),
    ):
        yield


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("verify", "--inputs", "none.npy"),
        ("verify", "--inputs", "images=none.npy"),
        ("verify", "--family", "yolo8"),
        ("verify", "--split", "val"),
        ("eval-coco", "--family", "yolo8"),
        ("eval-coco", "--classes", "none.txt"),
        ("eval-coco", "--classes", "classes.txt"),
        ("predict", "--family", "yolo8"),
        ("infer-engine", "--input", "none.npy"),
        ("decide", "--annotations", "none.json"),
        ("decide", "--classes", "classes.txt"),
    ],
)
def test_a_value_that_no_model_can_make_right(command: str, option: str, value: str) -> None:
    held(stderr_of(command, *WORDS[command], option, value))


def _without(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda document: json.dumps({name: value for name, value in document.items() if name != key})


def _of_no_image(document: dict[str, Any]) -> str:
    return json.dumps({**document, "annotations": [{**one, "image_id": 1000} for one in document["annotations"]]})


def _of_no_category(document: dict[str, Any]) -> str:
    return json.dumps({**document, "categories": document["categories"][:1]})


_SPOILT: dict[str, Callable[[dict[str, Any]], str]] = {
    "no JSON": lambda document: json.dumps(document)[:-9],
    "no images": _without("images"),
    "no categories": _without("categories"),
    "other images": _of_no_image,
    "other categories": _of_no_category,
}
_LABELS = {
    "decide": [*WORDS["decide"], "--annotations", "bad.json"],
    "decide to search": [*WORDS["decide"], "--calibration", "train", "--calibration-annotations", "bad.json"],
    "eval-coco": [*WORDS["eval-coco"], "--annotations", "bad.json"],
    "quantize": [
        DETECTOR,
        "--to",
        "int8",
        "--calibration",
        "train",
        "--annotations",
        "bad.json",
        "--keep-score",
        "0.01",
    ],
    "sensitivity": [DETECTOR, "--calibration", "train", "--annotations", "bad.json"],
    "gate": ["gate.yaml"],
    "gate by score": ["gate.yaml"],
}


@pytest.mark.parametrize("command", _LABELS)
def test_annotations_that_cannot_be_used(command: str, data: Path) -> None:
    labels = "train.json" if "train" in _LABELS[command] else "val.json"
    score = "score: ap, precisions: fp32, backends" if command == "gate by score" else "backend"
    asked = f"{{{score}: ort-cpu, data: val, annotations: bad.json, at_least: {{AP: 0.1}}}}"
    (data / "gate.yaml").write_text(f"model: {DETECTOR}.onnx\nverify: {{backend: ort-cpu}}\nscore: {asked}\n")
    (data / f"{DETECTOR}.onnx").unlink(missing_ok=True)
    (data / f"{DETECTOR}.onnx").symlink_to(embedded_model(DETECTOR))
    said = {}
    for what, spoil in _SPOILT.items():
        (data / "bad.json").write_text(spoil(json.loads((data / labels).read_text())))
        said[what] = stderr_of(command.split()[0], *_LABELS[command])
    held("".join(said.values()))
    assert len({*said.values()}) == len(_SPOILT)
