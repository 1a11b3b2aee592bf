"""DETR with its post-processing inside: recognised by its inputs, given the size of its input, mapped back."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from tests.onnx_text import parse_onnx

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model
from trt_workbench.vision.calibration import calibration_images
from trt_workbench.vision.families import Family, recognise
from trt_workbench.vision.letterbox import find_geometry

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
    ("given", "why"),
    [
        (outputs("float32"), "labels holds float32 and scores float32, not classes and scores"),
        (outputs(boxes=(None, 3, 5)), "the shapes are not labels"),
        (outputs(scores=(None, 2)), "the shapes are not labels"),
        (outputs()[1:], "its outputs must be named labels, boxes and scores"),
    ],
)
def test_other_outputs_are_refused(given: Any, why: str) -> None:
    for asked in (None, "detr-pixels"):
        with pytest.raises(UsageProblem, match=why):
            recognise((IMAGE, SIZES), given, {}, family=asked)


def test_other_inputs_are_refused() -> None:
    for inputs in ((SIZES, IMAGE), (IMAGE, TensorSpec("orig_target_sizes", "float32", (None, 2)))):
        with pytest.raises(UsageProblem, match=r"followed by orig_target_sizes"):
            recognise(inputs, outputs(), {})
    with pytest.raises(UsageProblem, match="no input is named orig_target_sizes"):
        recognise((IMAGE,), outputs(), {}, family="detr-pixels")
    with pytest.raises(UsageProblem, match=r"Family detr .* takes only the image"):
        recognise((IMAGE, SIZES), outputs(), {}, family="detr")
    with pytest.raises(UsageProblem, match="Pass --normalize none"):
        recognise((IMAGE, SIZES), outputs(), {}).transform()


def test_arrays_that_do_not_fit_are_refused() -> None:
    boxes, scores = np.zeros((1, 3, 4), np.float32), np.full((1, 3), 0.5, np.float32)
    with pytest.raises(UsageProblem, match="reads output labels"):
        family().decode({"boxes": boxes, "scores": scores})
    with pytest.raises(UsageProblem, match="returned shapes"):
        family().decode({"boxes": boxes, "scores": scores, "labels": np.zeros((1, 2), np.int64)})
    with pytest.raises(UsageProblem, match="probabilities from 0 to 1"):
        family().decode({"boxes": boxes, "scores": scores + 4, "labels": np.zeros((1, 3), np.int64)})
    with pytest.raises(UsageProblem, match="holds class 2, but the model has 2 classes"):
        family(names="['a', 'b']").decode({"boxes": boxes, "scores": scores, "labels": np.full((1, 3), 2)})


def test_images_do_not_calibrate_a_model_that_takes_their_sizes(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "1.png"), np.zeros((8, 8, 3), np.uint8))
    text = (
        "detr (float[N,3,64,96] images, int64[N,2] orig_target_sizes) => "
        "(int64[N,3] labels, float[N,3,4] boxes, float[N,3] scores) { labels = Cast <to = 7> (images) "
        "boxes = Identity(images) scores = Identity(images) none = Identity(orig_target_sizes) }"
    )
    model = parse_onnx(text)
    onnx.helper.set_model_props(model, {"normalize": "none"})
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UsageProblem, match="takes input orig_target_sizes besides the images"):
        calibration_images(Model.open(tmp_path / "m.onnx"), tmp_path)
