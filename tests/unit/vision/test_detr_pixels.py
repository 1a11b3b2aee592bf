"""DETR with its post-processing inside: recognised by its inputs, given the size of its input, mapped back."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.calibration import calibration_batches
from trt_workbench.engine.options import Calibration
from trt_workbench.model.opened import Model
from trt_workbench.verify.data import Data
from trt_workbench.vision.calibration import calibration_images
from trt_workbench.vision.families import Family, recognise
from trt_workbench.vision.letterbox import find_geometry

INPUTS = ("images", "orig_target_sizes")
IMAGE, SIZES = TensorSpec("images", "float32", (None, 3, 64, 96)), TensorSpec("orig_target_sizes", "int64", (None, 2))


def outputs(labels: str = "int64", boxes: Any = (None, 3, 4), scores: Any = (None, 3)) -> tuple[TensorSpec, ...]:
    labels_spec = TensorSpec("labels", labels, (None, 3))
    return labels_spec, TensorSpec("boxes", "float32", boxes), TensorSpec("scores", "float32", scores)


def family(**metadata: str) -> Family:
    return recognise((IMAGE, SIZES), outputs(), {"normalize": "none", **metadata})


def test_boxes_are_in_pixels_of_the_original_image() -> None:
    found = family()
    assert (found.name, found.class_count) == ("detr-pixels", None)
    sizes = found.constants(2)["orig_target_sizes"]
    assert (sizes.tolist(), sizes.dtype) == ([[96, 64], [96, 64]], np.int64)  # width first
    shares = np.array([[0.1, 0.2, 0.5, 0.9], [0, 0, 1, 1], [0.4, 0.1, 0.6, 0.3]], np.float32)
    boxes = np.stack([shares] * 2) * np.tile(sizes, 2)[:, None]
    labels, scores = np.array([[3, 0, 7]] * 2), np.array([[0.9, 0.5, 0.0001]] * 2, np.float32)
    for height, width in ((48, 60), (480, 333)):
        geometry = find_geometry(height, width, found.transform())
        for one in found.decode({"labels": labels, "boxes": boxes.astype(np.float32), "scores": scores}):
            assert (one.labels.tolist(), one.scores.tolist()) == ([3, 0], pytest.approx([0.9, 0.5]))
            restored = found.restore(one, geometry).boxes
            np.testing.assert_allclose(restored, shares[:2] * [width, height, width, height], atol=1e-3)


@pytest.mark.parametrize(
    "given",
    [
        outputs("float32"),
        outputs(boxes=(None, 3, 5)),
        outputs(scores=(None, 2)),
        outputs()[1:],
    ],
)
def test_other_outputs_are_refused(given: Any) -> None:
    for asked in (None, "detr-pixels"):
        with refused(UsageProblem):
            recognise((IMAGE, SIZES), given, {}, Preparation(family=asked))


def test_other_inputs_are_refused() -> None:
    for inputs in ((SIZES, IMAGE), (IMAGE, TensorSpec("orig_target_sizes", "float32", (None, 2)))):
        with refused(UsageProblem):
            recognise(inputs, outputs(), {})
    with refused(UsageProblem):
        recognise((IMAGE,), outputs(), {}, Preparation(family="detr-pixels"))
    with refused(UsageProblem):
        recognise((IMAGE, SIZES), outputs(), {}, Preparation(family="detr"))
    with refused(UsageProblem):
        recognise((IMAGE, SIZES), outputs(), {}).preparation()


def test_arrays_that_do_not_fit_are_refused() -> None:
    boxes, scores = np.zeros((1, 3, 4), np.float32), np.full((1, 3), 0.5, np.float32)
    with refused(UsageProblem):
        family().decode({"boxes": boxes, "scores": scores})
    with refused(UsageProblem):
        family().decode({"boxes": boxes, "scores": scores, "labels": np.zeros((1, 2), np.int64)})
    with refused(UsageProblem):
        family().decode({"boxes": boxes, "scores": scores + 4, "labels": np.zeros((1, 3), np.int64)})
    with refused(UsageProblem):
        family(names="['a', 'b']").decode({"boxes": boxes, "scores": scores, "labels": np.full((1, 3), 2)})


def test_images_calibrate_it_with_their_sizes(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "1.png"), np.full((8, 8, 3), 255, np.uint8))
    text = (
        "detr (float[N,3,64,96] images, int64[N,2] orig_target_sizes) => "
        "(int64[N,3] labels, float[N,3,4] boxes, float[N,3] scores) { labels = Cast <to = 7> (images) "
        "boxes = Identity(images) scores = Identity(images) none = Identity(orig_target_sizes) }"
    )
    model = write_onnx(tmp_path / "m.onnx", text)
    images = calibration_images(Model.open(model), tmp_path, Preparation(normalize="0-255"))
    (batch,) = calibration_batches(Calibration(data=tmp_path / "1.png", batch=1), [*INPUTS], images)
    assert (batch["images"].shape, batch["images"].max()) == ((1, 3, 64, 96), 255)
    assert (batch["orig_target_sizes"].tolist(), batch["orig_target_sizes"].dtype) == ([[96, 64]], np.int64)
    specs = [TensorSpec.of(one) for one in Model.open(model).facts.inputs]
    (sample,) = Data([str(tmp_path / "1.png")], specs, Model.open(model), Preparation(normalize="none"))._samples
    assert (sample.inputs["images"].max(), sample.inputs["orig_target_sizes"].tolist()) == (1, [[96, 64]])
