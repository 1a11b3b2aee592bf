"""Generated scenes, and the committed detector on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hotcoco import mask as run_lengths
from numpy.typing import NDArray
from tests.fork_server import ForkServer
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workspace import embedded_model
from trt_workbench.vision.scenes.render import render
from trt_workbench.vision.scenes.scenes import CATEGORY_IDS, CLASSES, HELD_OUT_SEED, scene, write_dataset

MODEL = embedded_model()
IMAGES = 40


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Folder and annotation document of the first scenes of the held-out split."""
    root = tmp_path_factory.mktemp("scenes")
    annotations = write_dataset(root, "val", IMAGES, HELD_OUT_SEED)
    return root, json.loads(annotations.read_text(encoding="utf-8"))


@pytest.mark.parametrize("index", [0, 1, 17])
def test_same_seed_same_scene(index: int) -> None:
    for first, second in zip(scene(5, index), scene(5, index), strict=True):
        np.testing.assert_array_equal(first, second)


def test_other_seed_or_index_other_scene() -> None:
    image = scene(5, 0)[0]
    for other in (scene(6, 0)[0], scene(5, 1)[0]):
        assert image.shape != other.shape or not np.array_equal(image, other)


def test_boxes_are_tight_around_what_is_seen() -> None:
    for index in range(10):
        _, boxes, _ = scene(4, index)
        for (x, y, width, height), mask in zip(boxes.astype(int), render(4, index).masks, strict=True):
            inside = mask[y : y + height, x : x + width]
            assert inside.sum() == mask.sum()
            assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


def test_document_is_cocos(dataset: tuple[Path, dict[str, Any]]) -> None:
    root, document = dataset
    assert set(document) == {"info", "licenses", "images", "annotations", "categories"}
    assert [category["id"] for category in document["categories"]] == list(CATEGORY_IDS)
    assert [category["name"] for category in document["categories"]] == list(CLASSES)
    assert list(CATEGORY_IDS) != list(range(CATEGORY_IDS[0], CATEGORY_IDS[0] + len(CATEGORY_IDS)))
    assert len(document["images"]) == len(list((root / "val").glob("*.jpg"))) == IMAGES
    for entry in document["images"]:
        assert cv2.imread(str(root / "val" / entry["file_name"])).shape == (entry["height"], entry["width"], 3)
    for annotation in document["annotations"]:
        assert annotation["iscrowd"] == 0
        assert annotation["category_id"] in CATEGORY_IDS
        assert 0 < annotation["area"] <= annotation["bbox"][2] * annotation["bbox"][3]


def test_masks_are_those_that_are_seen(dataset: tuple[Path, dict[str, Any]]) -> None:
    told = iter(dataset[1]["annotations"])
    for index in range(IMAGES):
        for drawn in render(HELD_OUT_SEED, index).masks:
            found = next(told)["segmentation"]
            decoded = run_lengths.decode({**found, "counts": found["counts"].encode("ascii")})
            np.testing.assert_array_equal(decoded.astype(bool), drawn)
    assert next(told, None) is None


def test_every_size_class_is_there(dataset: tuple[Path, dict[str, Any]]) -> None:
    areas = np.array([annotation["area"] for annotation in dataset[1]["annotations"]])
    shares = np.histogram(areas, [0, 32**2, 96**2, 1e6])[0] / len(areas)
    assert shares.min() > 0.1


def test_written_once_and_not_over_something_else(tmp_path: Path) -> None:
    path = write_dataset(tmp_path, "val", 2, 1)
    before = path.stat().st_mtime_ns
    assert write_dataset(tmp_path, "val", 2, 1) == path
    assert path.stat().st_mtime_ns == before
    with refused(UsageProblem):
        write_dataset(tmp_path, "val", 3, 1)
    assert write_dataset(tmp_path, "train", 1, 9).exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from trt_workbench.vision.scenes.scenes import write_dataset
steps = iter(range(int(sys.argv[2])))
def trap(event, arguments):
    if event in ("os.mkdir", "os.rename", "os.rmdir") and next(steps, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(trap)
write_dataset(Path(sys.argv[1]), "val", 2, 5)
"""


def test_a_call_that_was_killed_is_made_good(fork_server: ForkServer, tmp_path: Path) -> None:
    whole = write_dataset(tmp_path / "whole", "val", 2, 5).read_bytes()
    for steps in range(20):
        root = tmp_path / str(steps)
        done = fork_server.run(KILLED, root, steps)
        assert write_dataset(root, "val", 2, 5).read_bytes() == whole
        assert sorted(path.name for path in (root / "val").iterdir()) == ["000000.jpg", "000001.jpg"]
        assert sorted(path.name for path in root.iterdir()) == [".val.lock", "annotations", "val"]
        if done.returncode == 0:
            break
    assert steps > 4
    assert done.returncode == 0


def test_a_broken_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        if path.name == "000001.jpg":
            raise OSError(28, "No space left on device", str(path))
        with path.open("wb") as file:
            return file.write(data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_dataset(tmp_path, "val", 3, 1)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".val.lock")] == []


def _letterboxed(image: NDArray[np.uint8]) -> tuple[NDArray[np.float32], float, int, int]:
    """Centred on 320x320 with grey 114, as the model's README says; apart from the product's own pipeline."""
    height, width = image.shape[:2]
    scale = min(320 / height, 320 / width)
    size = (round(width * scale), round(height * scale))
    left, top = (320 - size[0]) // 2, (320 - size[1]) // 2
    canvas = np.full((320, 320, 3), 114, np.uint8)
    canvas[top : top + size[1], left : left + size[0]] = cv2.resize(image, size)
    return canvas[..., ::-1].transpose(2, 0, 1).astype(np.float32) / 255, scale, left, top


def _session() -> Any:
    runtime = pytest.importorskip("onnxruntime")
    return runtime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])


def test_model_metadata_and_size() -> None:
    metadata = _session().get_modelmeta().custom_metadata_map
    assert metadata["names"] == str(dict(enumerate(CLASSES)))
    assert (metadata["family"], metadata["task"], metadata["imgsz"]) == ("yolov10", "detect", "[320, 320]")
    assert MODEL.stat().st_size <= 4_000_000


@pytest.mark.long
def test_model_ap_on_held_out_scenes(dataset: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    root, document = dataset
    session = _session()
    rows = []
    for entry in document["images"]:
        pixels, scale, left, top = _letterboxed(cv2.imread(str(root / "val" / entry["file_name"])))
        (output,) = session.run(None, {"images": pixels[None]})
        for x1, y1, x2, y2, score, label in output[0, :100].tolist():
            box = [(x1 - left) / scale, (y1 - top) / scale, (x2 - x1) / scale, (y2 - y1) / scale]
            rows.append([entry["id"], *box, score, CATEGORY_IDS[int(label)]])
    truth = COCO(str(root / "annotations" / "instances_val.json"))
    evaluation = COCOeval(truth, truth.loadRes(np.array(rows)), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    capsys.readouterr()
    assert 0.75 < evaluation.stats[0] < 0.97
