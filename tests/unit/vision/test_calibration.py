"""Images as calibration data are prepared as for inference."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.builder import prepare_build
from trt_workbench.engine.calibration import calibration_batches
from trt_workbench.engine.options import BuildSettings, Calibration
from trt_workbench.model.opened import Model
from trt_workbench.verify.data import Data
from trt_workbench.vision.calibration import calibration_images, hash_images, image_files
from trt_workbench.vision.decode import read_image
from trt_workbench.vision.families.recognise import family_of
from trt_workbench.vision.letterbox import preprocess


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = "copy = Identity(images) o = RandomNormal<shape=[1, 3, 6]>()"
    path = write_onnx(tmp_path / "m.onnx", f"g (float[1,3,32,32] images) => (float[1,3,6] o) {{ {nodes} }}")
    made = onnx.load(path)
    helper.set_model_props(made, {"family": "yolov10", "names": "['a', 'b']"})
    onnx.save(made, path)
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(4):
        cv2.imwrite(str(folder / f"{number}.png"), np.full((20 + number, 40, 3), 60 * number, np.uint8))
    return folder


def test_a_batch_is_what_inference_would_see(model: Path, pictures: Path) -> None:
    images = calibration_images(Model.open(model), pictures)
    transform = json.loads(images.description)
    assert (transform["height"], transform["width"]) == (32, 32)
    batches = list(calibration_batches(Calibration(data=pictures, batch=2), ["images"], images))
    assert [batch["images"].shape for batch in batches] == [(2, 3, 32, 32)] * 2
    from trt_workbench.backends.images import ImageTransform

    expected, _ = preprocess(read_image(pictures / "3.png"), ImageTransform(**transform))
    np.testing.assert_array_equal(batches[1]["images"][1], expected)


def test_another_transform_is_another_key(model: Path, pictures: Path) -> None:
    settings = BuildSettings.model_validate({"precision": "int8", "calibration": {"data": pictures}})
    images = calibration_images(Model.open(model), pictures)
    keys = {
        prepare_build(Model.open(model), settings, replace(images, description=text)).key.digest()
        for text in (images.description, "another")
    }
    assert len(keys) == 2
    said = ({"normalize": "imagenet"}, {"resize": "stretch"}, {"channel_order": "bgr"})
    made = {calibration_images(Model.open(model), pictures, Preparation(**one)).description for one in ({}, *said)}
    assert len(made) == 4


def test_an_exif_rotation_is_applied_or_noted_as_in_an_evaluation(model: Path, pictures: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    with Image.open(pictures / "0.png") as image:
        marked = image.copy()
    marked.paste((255, 255, 255), (0, 0, 40, 4))
    marked.save(pictures / "0.png", exif=exif)
    tensors, hashed = {}, {}
    for choice in ("ignore", "apply"):
        images = calibration_images(Model.open(model), pictures, Preparation(exif=choice))
        tensors[choice] = images.read(pictures / "0.png")["images"]
        hashed[choice] = images.description
        assert len(images.notes()) == 1
        made = family_of(Model.open(model)).transform()
        np.testing.assert_array_equal(tensors[choice], preprocess(read_image(pictures / "0.png", choice), made)[0])
    assert hashed["apply"] != hashed["ignore"]
    assert (tensors["apply"] != tensors["ignore"]).any()


def test_arrays_need_no_preparation(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "data.npy"
    np.save(file, np.zeros((4, 3, 32, 32), np.float32))
    assert calibration_images(Model.open(model), file) is None


def test_a_model_of_no_known_family_cannot_take_images(model: Path, pictures: Path) -> None:
    with refused(UsageProblem):
        calibration_images(Model.open(model), pictures, Preparation(family="yolov99"))


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """A data.yaml with two images to train with, one of them hidden from it, and one in val."""
    for name in ("train/a", "train/b", "val/c"):
        file = tmp_path / "set" / "images" / f"{name}.png"
        label = tmp_path / "set" / "labels" / f"{name}.txt"
        for one in (file, label):
            one.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(file), np.zeros((20, 40, 3), np.uint8))
        label.write_text("0 0.5 0.5 0.5 0.5\n")
    (tmp_path / "set" / "images" / "train" / "._a.png").write_bytes(b"as macOS leaves them")
    (tmp_path / "set" / "data.yaml").write_text("train: images/train\nval: images/val\nnames: [a]\n")
    return tmp_path / "set" / "data.yaml"


def names(found: Any) -> list[str]:
    return [file.name for file in found.files]


def test_a_data_set_gives_the_images_of_its_split(model: Path, described: Path) -> None:
    for place in (described, described.parent):
        found = image_files(place)
        assert names(found) == ["a.png", "b.png"]
        assert found.words == f"2 images of {described}, split train"
        assert names(image_files(place, "val")) == ["c.png"]
        images = calibration_images(Model.open(model), place, split="val")
        assert names(images) == ["c.png"]
        assert images.notes() == [f"Images: 1 image of {described}, split val."]
    assert names(image_files(described.parent / "images")) == ["a.png", "b.png", "c.png"]
    with refused(UsageProblem):
        image_files(described, "test")
    with refused(UsageProblem):
        image_files(described.parent / "images", "val")


def test_the_hash_of_a_data_set_is_that_of_its_images(described: Path) -> None:
    before = hash_images(described)
    (described.parent / "labels" / "train" / "a.txt").write_text("")
    (described.parent / "images" / "val" / "c.png").unlink()
    assert hash_images(described) == before
    cv2.imwrite(str(described.parent / "images" / "train" / "b.png"), np.ones((20, 40, 3), np.uint8))
    assert hash_images(described) != before


def test_the_images_of_annotations_in_cocos_form(described: Path, tmp_path: Path) -> None:
    file = tmp_path / "set" / "annotations" / "instances_train.json"
    file.parent.mkdir()
    document = {"images": [{"id": 1, "file_name": "b.png"}], "annotations": [], "categories": [{"id": 1, "name": "a"}]}
    file.write_text(json.dumps(document))
    described.unlink()
    assert names(image_files(file)) == names(image_files(tmp_path / "set")) == ["b.png"]
    assert names(image_files(tmp_path / "set" / "images" / "val")) == ["c.png"]


def test_verify_takes_the_images_of_a_data_set(model: Path, described: Path) -> None:
    opened, spec = Model.open(model), TensorSpec("images", "float32", (1, 3, 32, 32))
    for split, count in ((None, 1), ("train", 2)):
        data = Data([str(described)], [spec], opened, split=split)
        assert len(data._samples) == count
    with refused(UsageProblem):
        Data([str(described)], [spec], None)
    np.save(described.with_name("x.npy"), np.zeros((1, 3, 32, 32), np.float32))
    with refused(UsageProblem):
        Data([str(described.with_name("x.npy"))], [spec], opened, split="val")
