"""Images as calibration data are prepared as for inference."""

import json
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.builder import prepare_build
from trt_workbench.engine.calibration import calibration_batches
from trt_workbench.engine.options import BuildSettings, Calibration
from trt_workbench.model.opened import Model
from trt_workbench.vision.calibration import calibration_images
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
    batches = list(calibration_batches(Calibration(data=pictures, batch=2), ["images"], images.read))
    assert [batch["images"].shape for batch in batches] == [(2, 3, 32, 32)] * 2
    from trt_workbench.backends.images import ImageTransform

    expected, _ = preprocess(read_image(pictures / "3.png"), ImageTransform(**transform))
    np.testing.assert_array_equal(batches[1]["images"][1], expected)


def test_another_transform_is_another_key(model: Path, pictures: Path) -> None:
    settings = BuildSettings.model_validate({"precision": "int8", "calibration": {"data": pictures}})
    images = calibration_images(Model.open(model), pictures)
    keys = {
        prepare_build(Model.open(model), settings, text, images.read).key.digest()
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
