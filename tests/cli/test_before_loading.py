"""A value that no model can make right is refused before one is loaded: on TensorRT that takes minutes."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.in_app import stderr_of
from tests.texts import held

from trt_workbench.backends.base import Backend
from trt_workbench.core.workers import WorkerProcess
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
